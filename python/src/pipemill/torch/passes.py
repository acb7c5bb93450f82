"""One pass over the data: an epoch, or a number of batches. It knows what it has yielded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import PipemillError
from .tensors import Tensors, tensors

if TYPE_CHECKING:
    from ..stream import Epoch, Stream
    from .dataset import Dataset


class Pass:
    """An iterator over batches as tensors. It connects with the first one, not before."""

    def __init__(self, dataset: Dataset, steps: int | None) -> None:
        self._dataset = dataset
        self._steps = steps
        self._step = 0
        self._epoch: Epoch | None = None
        self._finished = False

    def __iter__(self) -> Pass:
        return self

    def __next__(self) -> Tensors:
        if self._finished:
            raise StopIteration
        if self._step == self._steps:
            self._finished = True
            raise StopIteration
        if self._epoch is None:
            self._begin()
        elif self._dataset._current is not self:
            raise PipemillError(
                "this pass over the data is over, because a newer one has begun; a Dataset has one "
                "at a time: make another Dataset to read the data twice at once"
            )
        while self._epoch is not None:
            batch = next(self._epoch, None)
            if batch is not None:
                self._step += 1
                return tensors(batch, self._dataset._copy)
            self._epoch = None
            if self._steps is not None:
                self._epoch = next(self._stream().epochs(), None)
        self._finished = True
        raise StopIteration

    def _stream(self) -> Stream:
        return self._dataset._connected()

    def _begin(self) -> None:
        dataset = self._dataset
        other, dataset._current = dataset._current, self
        self._step = dataset._take_step() if self._steps else 0
        stream = self._stream()
        if other is not None:
            other._leave()
        if self._steps is None and dataset._set_epoch is not None:
            stream.set_epoch(dataset._set_epoch)
        self._epoch = next(stream.epochs(), None)

    def _leave(self) -> None:
        """A pass that is left before its end ends its epoch, so that the next one is whole. A
        number of batches goes on where it was left."""
        if self._epoch is not None and self._steps is None:
            self._epoch.end()
        self._epoch = None

    def state_dict(self) -> dict[str, Any]:
        """Where to go on: after the last batch that this has yielded."""
        return self._dataset._state(self._finished, self._step)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on there. Call this before the first batch is asked for."""
        self._dataset.load_state_dict(state)
        self._finished = bool(state["finished"])
        if self._finished:
            # A DataLoader may end this process now, and start others without a state: they go on
            # where this one has put the host.
            self._stream()

    def __del__(self) -> None:
        try:
            if self._dataset._current is self:
                self._leave()
        except Exception:  # noqa: S110  # at the end of the interpreter, or after a fork
            pass
