"""A stream of batches as a ``pyarrow.RecordBatchReader``.

The consumer pulls. It may keep all arrays, as ``pyarrow.table`` does, or drop each before the one
after the next, as DuckDB does. A batch whose arrays live holds a credit. If a table could take all
of them, it would never be whole; if it took all but one, no loop over batches would run at the same
time. So a batch is copied, and given back, if it would otherwise leave fewer credits than a loop
has by default, unless the consumer has dropped the batches before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable

import pyarrow as pa

from .columns import record_batch
from .copies import Copies
from .types import types_of

if TYPE_CHECKING:
    from ..batch import Batch
    from ..connection import Lease
    from ..schema import Field


#: The default credits of a stream.
_DEFAULT_CREDITS = 4
#: The credits that a loop needs: for the batch that it has, and the next one.
_LEAST_CREDITS = 2


def reader(
    batches: Iterator[Batch], fields: tuple[Field, ...], free_credits: Callable[[], int]
) -> Any:
    """A reader of these batches. `free_credits` returns how many credits are free while the current
    batch is held."""

    def arrays() -> Iterator[Any]:
        before: deque[Callable[[], bool]] = deque()  # whether the arrays of a batch before live
        count = 0
        for batch in batches:
            # A consumer may have the batch before until it gets this one.
            are_dropped = not _two_live(before) and count >= 2
            enough = _LEAST_CREDITS if are_dropped else _DEFAULT_CREDITS
            copies = Copies() if free_credits() < enough else None
            arrow = record_batch(batch, copies)
            before.append(_is_held(batch._lease) if copies is None else copies.are_alive)
            count += 1
            del batch, copies
            yield arrow
            del arrow

    return pa.RecordBatchReader.from_batches(types_of(fields).schema, arrays())


def _two_live(batches: deque[Callable[[], bool]]) -> bool:
    """Whether the arrays of more than one batch live. Only the first batches are looked at, as a
    table has thousands; those that were dropped are removed."""
    kept: Callable[[], bool] | None = None
    while batches:
        first = batches.popleft()
        if not first():
            continue
        if kept is not None:
            batches.extendleft((first, kept))
            return True
        kept = first
    if kept is not None:
        batches.append(kept)
    return False


def _is_held(lease: Lease) -> Callable[[], bool]:
    return lambda: lease() is not None
