"""Repeats the first batches, to measure how fast training is if it never waits for data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from typing import TYPE_CHECKING

from ..log import warn
from .passes import Pass

if TYPE_CHECKING:
    from .dataset import Dataset
    from .tensors import Tensors


class Replay:
    """Reads the first batches of a dataset once, keeps copies of them, and yields these
    repeatedly."""

    def __init__(self, dataset: Dataset, batches: int, steps: int | None) -> None:
        """`batches`: how many are kept. `steps`: of a pass; None: a pass does not end."""
        self._dataset = dataset
        self._batches = batches
        self._steps = steps
        self._kept: list[Tensors] = []
        #: Passes that have ended.
        self.passes = 0

    def __iter__(self) -> Iterator[Tensors]:
        if not self._kept:
            self._kept = self._read()
            warn(
                f"replay={self._batches}: the same {len(self._kept)} batches come again and again, "
                "which is for measuring; leave out replay= to train"
            )
        yield from islice(cycle(self._kept), self._steps)
        self.passes += 1

    def _read(self) -> list[Tensors]:
        """The first batches, or all if there are fewer. The host keeps the batches that it has read
        ahead, and then reads nothing more."""
        dataset = self._dataset
        before = dataset._copy, dataset._steps
        dataset._copy, dataset._steps = True, self._batches
        try:
            return list(Pass(dataset))
        finally:
            dataset._copy, dataset._steps = before
