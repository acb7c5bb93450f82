"""Passes over batches that were delivered before a stop, where a rank has to read them again."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ..errors import PipemillError
from .count import DIFFERENT, Count

if TYPE_CHECKING:
    from ..stream import Epoch, Stream


class LeftOut:
    """The batches that are read and not yielded."""

    def __init__(self, epoch: int = 0, batches: int = 0, crosses_epochs: bool = False) -> None:
        """`epoch`: the first of the batches is the first one of this epoch. `crosses_epochs`:
        whether they may be those of several epochs."""
        self._epoch = epoch
        self._all = self._batches = batches
        self._crosses_epochs = crosses_epochs

    def __bool__(self) -> bool:
        return self._all > 0

    def pass_over(self, stream: Stream, count: Count) -> None:
        """Reads them. If an error such as a timeout ends that, the next call goes on."""
        while self._batches:
            epoch = stream._epoch or next(stream.epochs(), None)
            if epoch is None:
                return  # the pass says that the data are over
            if next(epoch, None) is not None:
                self._batches -= 1
                count.passed(epoch.number)
            elif epoch.number >= self._epoch:  # a host may say first that the one before is over
                self._go_on_after(epoch, stream, count)

    def _go_on_after(self, epoch: Epoch, stream: Stream, count: Count) -> None:
        """The epoch has ended before all of them were read."""
        count.ended(epoch.number, bool(epoch.ended_early))
        if not self._crosses_epochs:
            raise PipemillError(
                f"the state that was loaded is that of another rank, after {self._all} batches of "
                f"epoch {epoch.number}, and this rank's part of the objects has {count.of_epoch}: "
                "nobody knows whether this rank had begun the next epoch. Give each rank the state "
                "that it has saved; or pass steps=, so that all ranks' passes are equally long"
            )
        if epoch.number != count.epoch or count.each in (0, DIFFERENT):
            raise PipemillError(
                f"the state that was loaded is that of another rank, and epoch {epoch.number} of "
                "this rank's part of the objects has no batch or was ended early: nobody knows how "
                "many batches were delivered of the epochs after it. Give each rank the state that "
                "it has saved"
            )
        # Its epochs are all as long as this one, because the other rank's were equally long.
        epochs, self._batches = divmod(self._batches, count.each)
        if epochs:
            with contextlib.suppress(ValueError):  # there is no further epoch
                stream.set_epoch(epoch.number + 1 + epochs)
