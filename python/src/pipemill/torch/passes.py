"""One pass over the data: an epoch, or a number of batches. It counts the batches that it
yielded."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch.utils.data

from ..errors import DecodeError, HostDied, PipemillError, Refused
from ..protocol import ENDED_EARLY, EpochEnd, Grant
from .resume import LeftOut, check_not_empty
from .tensors import Tensors, tensors
from .worker_errors import errors_travel, travelling

if TYPE_CHECKING:
    from ..batch import Batch
    from ..stream import Epoch, Stream
    from .dataset import Dataset
    from .ends import Ends


class Progress:
    """The progress of a pass. The dataset holds that of its current pass, but not the pass itself:
    a pass that a program drops has to end at once."""

    def __init__(self) -> None:
        #: The epoch that is read. None before the first batch and after the last one.
        self.epoch: Epoch | None = None
        #: Batches that were yielded, including those before a stop.
        self.step = 0
        #: Whether any batch of it was requested.
        self.has_begun = False
        #: Whether a batch was yielded since the stop.
        self.has_yielded = False
        self.finished = False
        #: The ends of the other ranks' passes. None if they are not compared.
        self.ends: Ends | None = None


class Pass:
    """An iterator over batches as tensors. It connects with the first one, not before.

    A pass is over with its last batch. So a state from there resumes with the next pass. No pass is
    empty: if there is no further batch, it raises an error.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._steps = dataset._steps
        self._progress = Progress()
        #: torchdata gives its iterators their state, and takes the empty rest of a pass as one.
        self._may_be_empty = False

    def __iter__(self) -> Pass:
        return self

    def __next__(self) -> Tensors:
        try:
            return self._next()
        except PipemillError as error:
            self._tell_others(error)
            if isinstance(error, Refused):
                # A newer pass has begun. The host keeps the batches of this one until it hangs up.
                self._dataset._hang_up()
            if torch.utils.data.get_worker_info() is not None:
                travelling(error)
            raise

    def _next(self) -> Tensors:
        while True:
            try:
                return self._step()
            except HostDied as error:
                died: HostDied | None = error
            while died is not None:
                died = self._go_on(died)

    def _go_on(self, died: HostDied) -> HostDied | None:
        """Continues in this epoch with another host. Returns the error of a host that was killed
        again."""
        at, dataset = self._progress, self._dataset
        if dataset._restored is not None or (at.has_begun and at.epoch is None):
            # The pass has skipped batches, or the rest of an epoch, and would have to do that
            # again.
            raise died
        dataset._start_again(died)
        try:
            stream = dataset._connected()
            if at.epoch is not None:
                first, dataset._first_epoch = dataset._first_epoch, None
                if first is not None:
                    with contextlib.suppress(ValueError):  # there is no further epoch
                        stream.set_epoch(first)
                at.epoch = next(stream.epochs(), None)
        except HostDied as error:
            return error
        return None

    def _step(self) -> Tensors:
        at, dataset = self._progress, self._dataset
        if at.finished:
            raise StopIteration
        if at.epoch is None:
            if not at.has_begun:
                at.ends = dataset._begins_pass()
            self._begin()
        elif dataset._current is not at:
            raise PipemillError(
                "this pass over the data is over, because a newer one has begun; a Dataset has one "
                "at a time: make another Dataset to read the data twice at once"
            )
        while at.epoch is not None:
            if at.ends is not None and _has_batch(at.epoch):
                at.ends.takes_batch()
                if at.step + 1 == self._steps:
                    at.ends.at_end()
            batch = next(at.epoch, None)
            if batch is not None:
                dataset._delivers(batch.epoch)
                at.has_yielded = True
                at.step += 1
                # A program that knows the length does not ask for the end.
                at.finished = at.step == self._steps
                return self._made(batch)
            at.epoch = self._epoch_after(at.epoch)
        if not at.has_yielded and not self._may_be_empty:
            raise PipemillError(_data_are_over(dataset._connected()))
        at.finished = True
        dataset._rest()
        if at.ends is not None:
            at.ends.at_end()
        raise StopIteration

    def _made(self, batch: Batch) -> Tensors:
        dataset = self._dataset
        if dataset._direct is not None:
            placed = dataset._direct.placed(batch, dataset._connected())
            if placed is not None:
                return placed
        copy = dataset._copy or _takes_last_credit(batch)
        return tensors(batch, copy, dataset._absent, dataset._dense)

    def _tell_others(self, error: PipemillError) -> None:
        """Tells the other ranks the error that ends the pass of this one, such as that of an empty
        part of the objects."""
        ends = self._progress.ends
        if ends is not None and (
            type(error) is PipemillError or isinstance(error, (DecodeError, HostDied))
        ):
            ends.at_end(str(error))

    def _begin(self) -> None:
        dataset, at = self._dataset, self._progress
        other = dataset._current
        if dataset._reading.can_start_again and (other is None or other.epoch is None):
            # A host that was killed since the last pass is noticed before anything has begun.
            stream = dataset._connected()
            stream._finish_batch()
            stream._receiver.peek()
        at.has_begun, dataset._current = True, at
        stream, restored = dataset._connected(), dataset._restored
        if restored is not None:
            at.step = 0 if restored["finished"] else restored["step"]
        dataset._left_out.skip(stream, dataset._count)
        if self._steps is None:
            at.epoch = self._whole_epoch(stream, other)
            return
        if at.step >= self._steps:
            at.step = 0  # a pass of this number of batches is over there
        # It continues in the middle of an epoch.
        at.epoch = stream._epoch or next(stream.epochs(), None)

    def _whole_epoch(self, stream: Stream, other: Progress | None) -> Epoch | None:
        """The epoch that a pass reads, or the rest of it after a stop. `other`: the pass before."""
        dataset = self._dataset
        if other is not None:
            _leave(other)
        if not dataset._resumed and stream._epoch is None and stream._receiver.batches == 0:
            pass_over_left_epoch(stream)
        wanted, dataset._set_epoch = dataset._set_epoch, None
        first, dataset._first_epoch = dataset._first_epoch, None
        left_out, dataset._left_out = dataset._left_out, LeftOut()
        if left_out:
            first = stream._epoch.number if stream._epoch else None
        elif self._may_be_empty and self._progress.step and first is not None:
            # The state is after a batch without records, which is the last one of its epoch.
            if wanted is None or wanted < first:
                # All ranks are there then, so that those in the epoch before have received its end.
                stream._receiver.peek()
                return None
        if wanted is not None and not _is_past(stream, wanted):
            stream.set_epoch(wanted)
        elif first is not None:
            # A host that resumes after an epoch first sends that this one is over.
            with contextlib.suppress(ValueError):  # there is no further epoch
                stream.set_epoch(first)
        return next(stream.epochs(), None)

    def _epoch_after(self, epoch: Epoch) -> Epoch | None:
        """The epoch in which this pass continues after one that has ended. None: the pass is
        over."""
        dataset, at = self._dataset, self._progress
        stream = dataset._connected()
        check_not_empty(epoch, stream, dataset._count)
        dataset._count.ended(epoch.number, bool(epoch.ended_early))
        if self._steps is None:
            if at.has_yielded or self._may_be_empty:
                return None
            at.step = 0  # the pass of the state was over with its last batch
        return next(stream.epochs(), None)

    def state_dict(self) -> dict[str, Any]:
        """Where to resume: after the last batch that this pass has yielded."""
        with errors_travel():
            return self._dataset._state(self._progress)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes there. Call this before the first batch is requested."""
        self._dataset.load_state_dict(state)
        self._may_be_empty = True
        self._progress.finished = state["finished"]
        if torch.utils.data.get_worker_info() is not None:
            # A DataLoader may end this process now, and start others without a state. They continue
            # where this one has put the host.
            with errors_travel():
                self._dataset._connected()
            if state["finished"]:
                self._dataset._rest()

    def __del__(self) -> None:
        # Not at the end of the interpreter, or after a fork.
        with contextlib.suppress(Exception):
            if self._steps is None and self._dataset._current is self._progress:
                _leave(self._progress)


def pass_over_left_epoch(stream: Stream) -> Grant | EpochEnd | None:
    """The first message of a stream that has no state, and has received nothing yet. Skips the end
    of an epoch whose batches went to processes that read for this program before."""
    first, began = stream._receiver.peek(), stream._connection.welcome.resumed
    if not isinstance(first, EpochEnd):
        return first
    is_left = first.flags & ENDED_EARLY or first.batches
    if is_left or (began and began["delivered"] and began["epoch"] == first.epoch):
        next(stream.epochs(), None)
        while stream._epoch is not None:
            stream._skip_batch(stream._epoch)
    return stream._receiver.peek()


def _has_batch(epoch: Epoch) -> bool:
    """Whether the epoch has a further batch. It waits for the batch as `next` does, and takes
    nothing."""
    stream = epoch._stream
    if stream._epoch is not epoch or epoch._skipped:
        return False
    stream._finish_batch()
    return isinstance(stream._receiver.peek(), Grant)


def coming_epoch(stream: Stream) -> int | None:
    """The epoch of the next batch that is delivered to a program. None after the last one. Waits
    for the host."""
    epoch = stream._epoch
    if epoch is not None and epoch._skipped:
        return epoch.number + 1
    coming = stream._receiver.peek()
    if coming is None:
        return None
    return coming.epoch + 1 if isinstance(coming, EpochEnd) else coming.epoch


def _data_are_over(stream: Stream) -> str:
    """The error text of a pass without a batch, because all epochs were delivered."""
    return (
        f"the data are over: channel {stream.channel!r} has delivered all of its epochs, and "
        "another pass was begun. Make no further pass, or read the source more often: epochs=, "
        "without which it is read for as many passes as the program makes, or `epochs` in a "
        "channel's configuration"
    )


def _takes_last_credit(batch: Batch) -> bool:
    """Whether the program holds as many batches as it may, with this one. If it keeps them, as
    trainers that fetch ahead do, it would wait in vain for another. A loop always holds two."""
    connection = batch._lease.connection
    return 2 < connection.welcome.credits <= len(connection.open)


def _is_past(stream: Stream, epoch: int) -> bool:
    """Whether a later epoch than this one comes. Trainers that resume count from 0 again."""
    coming = stream._receiver.peek() if stream._epoch is None else None
    now = stream._epoch.number if stream._epoch else coming and coming.epoch
    return now is not None and now > epoch


def _leave(progress: Progress) -> None:
    """Ends the epoch of a pass that is left before its end, so that the next one is whole."""
    if progress.epoch is not None:
        progress.epoch.end()
        progress.epoch = None
