"""Skips batches that were delivered before a stop, if a rank has to read them again."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from ..errors import PipemillError
from .count import Count

if TYPE_CHECKING:
    from ..stream import Epoch, Stream

_log = logging.getLogger(__name__)


class LeftOut:
    """The batches that are read and not yielded."""

    def __init__(
        self,
        epoch: int = 0,
        batches: int = 0,
        crosses_epochs: bool = False,
        is_each_epoch_equal: bool = False,
    ) -> None:
        """`epoch`: the batches begin with the first one of this epoch. `crosses_epochs`: whether
        they may belong to several epochs. `is_each_epoch_equal`: whether all epochs have as many
        batches."""
        self._epoch = epoch
        self._all = self._batches = batches
        self._crosses_epochs = crosses_epochs
        self._is_each_epoch_equal = is_each_epoch_equal

    def __bool__(self) -> bool:
        return self._all > 0

    def skip(self, stream: Stream, count: Count) -> None:
        """Reads and skips them. If an error such as a timeout interrupts this, the next call
        continues."""
        while self._batches:
            epoch = stream._epoch or next(stream.epochs(), None)
            if epoch is None:
                return  # the pass reports that the data are over
            if next(epoch, None) is not None:
                self._batches -= 1
                count.passed(epoch.number)
            elif epoch.number >= self._epoch:  # a host may first send that the one before is over
                self._go_on_after(epoch, stream, count)

    def _go_on_after(self, epoch: Epoch, stream: Stream, count: Count) -> None:
        """Continues after an epoch that has ended before all of them were read."""
        check_not_empty(epoch, stream, count)
        count.ended(epoch.number, bool(epoch.ended_early))
        if not self._crosses_epochs:
            raise PipemillError(
                f"the state that was loaded is that of another rank, after {self._all} batches of "
                f"epoch {epoch.number}, and this rank's part of the objects has {count.of_epoch}: "
                "nobody knows whether this rank had begun the next epoch. Give each rank the state "
                "that it has saved; or pass steps=, so that all ranks' passes are equally long"
            )
        if epoch.ended_early:
            raise PipemillError(
                "the state that was loaded is that of another rank. To find this rank's place, the "
                f"batches before it are read again, and another program has ended epoch "
                f"{epoch.number}, which was to be read to its end. Give each rank the state that "
                "it has saved"
            )
        if self._is_each_epoch_equal:
            epochs, self._batches = divmod(self._batches, count.each)
            if epochs:
                with contextlib.suppress(ValueError):  # there is no further epoch
                    stream.set_epoch(epoch.number + 1 + epochs)
        elif epoch.number == self._epoch and self._batches:
            _log.warning(
                "this rank reads %d batches again, of epoch %d and those after it, because the "
                "state that was loaded is that of another rank; give each rank the state that it "
                "has saved to spare that", self._all, self._epoch,
            )  # fmt: skip


def check_not_empty(epoch: Epoch, stream: Stream, count: Count) -> None:
    """Refuses an epoch that has ended and had no batch from its beginning on: passes over such
    epochs would all be empty, and would never reach a number of steps."""
    began = stream._connection.welcome.resumed
    last = max(-1 if count.epoch is None else count.epoch, began["epoch"] if began else -1)
    if epoch.batches == 0 and not epoch.ended_early and epoch.number > last:
        raise PipemillError(
            f"epoch {epoch.number} of channel {stream.channel!r} has no batch: its objects have no "
            'record, or with tail="drop" fewer than a batch= of each rank, or there are fewer '
            "objects than hosts that share them. Look at the source with `pipemill cat`, or give "
            'a smaller batch= or another tail=; with host="per-node", ranks share the batches of '
            "all objects"
        )
