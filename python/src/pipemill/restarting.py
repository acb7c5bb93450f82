"""Reads a source to its end, even if its host is killed: another host continues with the next
record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Callable

from .batch import Batch
from .errors import HostDied, StateError
from .log import warn
from .stream import Stream

#: Hosts that may be killed in a row without a batch between them. If more are killed, the cause is
#: most likely the input, such as a record that takes too much memory.
MAX_LOST = 3


class RestartingBatches:
    """An iterator over the batches of a source, from one host after another."""

    def __init__(
        self,
        make: Callable[[Mapping[str, Any] | None], Stream],
        state: Mapping[str, Any] | None = None,
        max_lost: int = MAX_LOST,
    ) -> None:
        """`make` opens the source, at a state or None. `state`: where the first host begins.
        `max_lost`: 0 if no other host can continue."""
        self._make = make
        self._state = state
        self._max_lost = max_lost
        self._stream: Stream | None = None
        #: Hosts that were killed since the last batch.
        self._lost = 0

    @property
    def stream(self) -> Stream:
        """The stream of the current host."""
        while self._stream is None:
            try:
                self._stream = self._make(self._state)
            except HostDied as error:
                self._note(error)
        return self._stream

    def __iter__(self) -> RestartingBatches:
        return self

    def __next__(self) -> Batch:
        while True:
            stream = self.stream
            try:
                batch = next(stream)
            except HostDied as error:
                self._leave(stream, error)
            else:
                self._lost = 0
                return batch

    def _leave(self, stream: Stream, error: HostDied) -> None:
        """Closes the stream of a host that was killed. The next host continues after its
        batches."""
        try:
            if stream._receiver.batches or self._state is not None:
                self._state = stream.state_dict()
        except StateError:
            # With order="any" there is no place to continue at.
            raise error from None
        self._stream = None
        stream.close()
        self._note(error)

    def _note(self, error: HostDied) -> None:
        self._lost += 1
        if self._lost > self._max_lost:
            raise error
        warn(f"{error}. Another host goes on there")

    def close(self) -> None:
        """Closes the stream."""
        if self._stream is not None:
            self._stream.close()

    def __enter__(self) -> RestartingBatches:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()
