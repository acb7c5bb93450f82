"""One pass over the data: an epoch, or a number of batches. It knows what it has yielded."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch.utils.data

from ..errors import PipemillError, Refused
from ..protocol import ENDED_EARLY, EpochEnd, Grant
from .tensors import Tensors, tensors
from .worker_errors import errors_travel, travelling

if TYPE_CHECKING:
    from ..batch import Batch
    from ..stream import Epoch, Stream
    from .dataset import Dataset


class Progress:
    """How far a pass has come. The dataset has that of its current pass, and not the pass itself: a
    pass that a program drops has to end at once."""

    def __init__(self) -> None:
        #: The epoch that is read. None before the first batch and after the last one.
        self.epoch: Epoch | None = None
        #: Batches that were yielded, also before a stop.
        self.step = 0
        self.finished = False


class Pass:
    """An iterator over batches as tensors. It connects with the first one, not before."""

    def __init__(self, dataset: Dataset, steps: int | None) -> None:
        self._dataset = dataset
        self._steps = steps
        self._progress = Progress()

    def __iter__(self) -> Pass:
        return self

    def __next__(self) -> Tensors:
        try:
            return self._next()
        except PipemillError as error:
            if isinstance(error, Refused):
                # A newer pass has begun. The host keeps what this one holds until it hangs up.
                self._dataset._hang_up()
            if torch.utils.data.get_worker_info() is not None:
                travelling(error)
            raise

    def _next(self) -> Tensors:
        at, dataset = self._progress, self._dataset
        if at.finished:
            raise StopIteration
        if at.epoch is None:
            self._begin()
        elif dataset._current is not at:
            raise PipemillError(
                "this pass over the data is over, because a newer one has begun; a Dataset has one "
                "at a time: make another Dataset to read the data twice at once"
            )
        while at.epoch is not None:
            batch = next(at.epoch, None)
            if batch is not None:
                if not dataset._is_new(batch.epoch):
                    continue
                at.step += 1
                # Who knows the length does not ask for the end.
                at.finished = at.step == self._steps
                copy = dataset._copy or _takes_last_credit(batch)
                return tensors(batch, copy, dataset._absent, dataset._dense)
            at.epoch = None
            if self._steps is not None:
                at.epoch = next(dataset._connected().epochs(), None)
        at.finished = True
        dataset._rest()
        raise StopIteration

    def _begin(self) -> None:
        dataset, at = self._dataset, self._progress
        other, dataset._current = dataset._current, at
        stream = dataset._connected()
        at.step = dataset._take_step()
        if self._steps is not None:
            # It goes on in the middle of an epoch.
            at.epoch = stream._epoch or next(stream.epochs(), None)
            return
        if other is not None:
            _leave(other)
        if not dataset._resumed and stream._epoch is None and stream._receiver.batches == 0:
            pass_over_left_epoch(stream)
        wanted, dataset._set_epoch = dataset._set_epoch, None
        first, dataset._first_epoch = dataset._first_epoch, None
        over, dataset._pass_is_over = dataset._pass_is_over, False
        if over and first is not None and (wanted is None or wanted < first):
            # All ranks are there then, so that those in the epoch before have got its end.
            stream._receiver.peek()
            return
        if wanted is not None and not _is_past(stream, wanted):
            stream.set_epoch(wanted)
        elif first is not None:
            # A host that goes on after an epoch says first that this one is over.
            with contextlib.suppress(ValueError):  # there is no further epoch
                stream.set_epoch(first)
        at.epoch = next(stream.epochs(), None)

    def state_dict(self) -> dict[str, Any]:
        """Where to go on: after the last batch that this has yielded."""
        with errors_travel():
            return self._dataset._state(self._progress)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on there. Call this before the first batch is asked for."""
        self._dataset.load_state_dict(state)
        if torch.utils.data.get_worker_info() is not None:
            # A DataLoader may end this process now, and start others without a state: they go on
            # where this one has put the host.
            with errors_travel():
                self._dataset._connected()
        if state["finished"]:
            self._progress.finished = True
            self._dataset._rest()

    def __del__(self) -> None:
        # Not at the end of the interpreter, or after a fork.
        with contextlib.suppress(Exception):
            if self._steps is None and self._dataset._current is self._progress:
                _leave(self._progress)


def pass_over_left_epoch(stream: Stream) -> Grant | EpochEnd | None:
    """What comes first in a stream that has no state, and has got nothing yet. Passes over the end of
    an epoch whose batches were given to processes that read for this program before."""
    first, began = stream._receiver.peek(), stream._connection.welcome.resumed
    if not isinstance(first, EpochEnd):
        return first
    is_left = first.flags & ENDED_EARLY or first.batches
    if is_left or (began and began["given"] and began["epoch"] == first.epoch):
        next(stream.epochs(), None)
        while stream._epoch is not None:
            stream._skip_batch(stream._epoch)
    return stream._receiver.peek()


def _takes_last_credit(batch: Batch) -> bool:
    """Whether the program holds as many batches as it may, with this one. If it keeps them, as
    trainers that fetch ahead do, it would wait in vain for another. A loop always holds two."""
    connection = batch._lease.connection
    return 2 < connection.welcome.credits <= len(connection.open)


def _is_past(stream: Stream, epoch: int) -> bool:
    """Whether a later epoch than this one comes. Trainers that go on count from 0 again."""
    coming = stream._receiver.peek() if stream._epoch is None else None
    now = stream._epoch.number if stream._epoch else coming and coming.epoch
    return now is not None and now > epoch


def _leave(progress: Progress) -> None:
    """A pass that is left before its end ends its epoch, so that the next one is whole."""
    if progress.epoch is not None:
        progress.epoch.end()
        progress.epoch = None
