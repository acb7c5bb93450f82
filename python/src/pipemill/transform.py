"""A stream whose batches go through a function of the program: `Stream.map` and `Stream.filter`."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Union

if TYPE_CHECKING:
    from .batch import Batch
    from .schema import Field
    from .stream import Epoch, Stream
    from .waits import Waits

#: Gives the loop's value for a batch, or `SKIP`.
Step = Callable[[Any], Any]
SKIP: Any = object()


class Transform:
    """The result of :meth:`Stream.map` and :meth:`Stream.filter`. It replaces the stream: it has
    its epochs, its state and its end. To close it closes the stream.

    The rule of ACKs is that of the stream: a batch is ACKed when the loop asks for the next one.
    So a batch that :meth:`filter` skips is ACKed as soon as the loop waits for one after it.
    """

    def __init__(self, stream: Union[Stream, Transform], step: Step) -> None:
        self._stream = stream
        self._step = step

    def __iter__(self) -> Transform:
        return self

    def __next__(self) -> Any:
        return _next(self._stream, self._step)

    def epochs(self) -> Iterator[TransformedEpoch]:
        """The epochs, as :meth:`Stream.epochs`, whose batches go through the function, too."""
        for epoch in self._stream.epochs():
            yield TransformedEpoch(epoch, self._step)

    def map(self, function: Callable[[Any], Any]) -> Transform:
        """Replaces each value by the result of the function."""
        return Transform(self, function)

    def filter(self, function: Callable[[Any], object]) -> Transform:
        """The values for which the function returns true."""
        return Transform(self, keeping(function))

    def set_epoch(self, number: int) -> None:
        """As :meth:`Stream.set_epoch`."""
        self._stream.set_epoch(number)

    def state_dict(self) -> dict[str, Any]:
        """As :meth:`Stream.state_dict`: after the last batch that went into the function."""
        return self._stream.state_dict()

    @property
    def skipped(self) -> int:
        """As :attr:`Stream.skipped`."""
        return self._stream.skipped

    @property
    def waits(self) -> Waits:
        """As :attr:`Stream.waits`."""
        return self._stream.waits

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the stream's batches, before the function."""
        return self._stream.fields

    def close(self) -> None:
        """Closes the stream."""
        self._stream.close()

    def __enter__(self) -> Transform:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<transform of {self._stream!r}>"


class TransformedEpoch:
    """An :class:`Epoch` whose batches go through a function."""

    def __init__(self, epoch: Union[Epoch, TransformedEpoch], step: Step) -> None:
        self._epoch = epoch
        self._step = step

    def __iter__(self) -> TransformedEpoch:
        return self

    def __next__(self) -> Any:
        return _next(self._epoch, self._step)

    @property
    def number(self) -> int:
        """As of the epoch."""
        return self._epoch.number

    @property
    def batches(self) -> int | None:
        """As of the epoch: before the function."""
        return self._epoch.batches

    @property
    def records(self) -> int | None:
        """As of the epoch: before the function."""
        return self._epoch.records

    @property
    def ended_early(self) -> bool | None:
        """As of the epoch."""
        return self._epoch.ended_early

    def end(self) -> None:
        """As :meth:`Epoch.end`."""
        self._epoch.end()

    def __repr__(self) -> str:
        return f"<transform of {self._epoch!r}>"


def keeping(function: Callable[[Batch], object]) -> Step:
    """The step of a filter."""
    return lambda value: value if function(value) else SKIP


def _next(values: Iterator[Any], step: Step) -> Any:
    """The next value that is not skipped. It holds no batch while it waits for the next one."""
    while True:
        value = step(next(values))
        if value is not SKIP:
            return value
