"""Counts the batches that were delivered to a rank, so that another rank finds its own place.

A rank's place is an epoch and a number of its batches. If the ranks' parts have different numbers
of batches, these places differ. But the number of batches since their last common place, the
beginning of an epoch, is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: In the place of `Count.each`: the epochs had different numbers of batches.
DIFFERENT = -1
#: In the place of `Count.since_epoch`: ranks have no place in common, because each has continued
#: with its own next epoch in passes across the ends of epochs.
NOWHERE = -1
#: The keys of `since`, in a state of a `Dataset`.
SINCE = ("epoch", "batches", "each_epoch", "crosses_epochs")


class Count:
    """The batches that were delivered, including those before a stop."""

    def __init__(self) -> None:
        #: The epoch of the last batch, and how many of its batches this rank was delivered.
        self.epoch: int | None = None
        self.of_epoch = 0
        #: The epoch at whose beginning all ranks were at the same time, and the batches since then.
        self.since_epoch = 0
        self.since = 0
        #: How many batches each epoch had that has ended since then. 0: none has ended.
        self.each = 0
        #: Whether passes since then continued after the end of an epoch. Then ranks may be in
        #: different epochs.
        self.crosses_epochs = False

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Count:
        """The count at the place of this state of a `Dataset`."""
        count = cls()
        count.epoch, count.of_epoch = state["stream"]["epoch"], state["epoch_step"]
        count._put_since(*(state["since"][key] for key in SINCE))
        return count

    def state(self, stream: Mapping[str, Any], crosses_epochs: bool) -> dict[str, Any]:
        """The keys of a state of a `Dataset` that say this count.

        :param stream: the state of its stream.
        :param crosses_epochs: whether its passes continue after the end of an epoch.
        """
        epoch = stream["epoch"]
        is_inside = bool(stream["delivered"]) and epoch == self.epoch
        since = self.since_epoch, self.since, self.each, self.crosses_epochs
        if not is_inside and (self.epoch is None or not crosses_epochs):
            since = self._at_beginning(epoch)
        return {"epoch_step": self.of_epoch if is_inside else 0, "since": dict(zip(SINCE, since))}

    def begin_again(self) -> None:
        """Counts again from the place where this rank reads again, because of a stop."""
        self.epoch, self.of_epoch, self.each = None, 0, 0

    def delivered(self, epoch: int, crosses_epochs: bool) -> None:
        """Counts a batch of this epoch that is delivered to the program. `crosses_epochs`: whether
        its pass continues after the end of an epoch."""
        if epoch != self.epoch and (self.epoch is None or not crosses_epochs):
            self._put_since(*self._at_beginning(epoch))
        self.passed(epoch)
        self.since += 1
        self.crosses_epochs |= crosses_epochs

    def passed(self, epoch: int) -> None:
        """Counts a batch of this epoch that was delivered before a stop."""
        self.of_epoch = 1 if epoch != self.epoch else self.of_epoch + 1
        self.epoch = epoch

    def ended(self, epoch: int, is_early: bool) -> None:
        """Notes that the epoch has ended. `is_early`: before the end of its input."""
        if epoch == self.epoch and self.of_epoch:
            is_same = not is_early and self.each in (0, self.of_epoch)
            self.each = self.of_epoch if is_same else DIFFERENT

    def _at_beginning(self, epoch: int) -> tuple[int, int, int, bool]:
        """The common place of the ranks if a pass begins with this epoch."""
        if self.crosses_epochs:
            return NOWHERE, self.since, self.each, True
        return epoch, 0, 0, False

    def _put_since(self, epoch: int, batches: int, each: int, crosses_epochs: bool) -> None:
        self.since_epoch, self.since, self.each = epoch, batches, each
        self.crosses_epochs = crosses_epochs
