"""A stream of batches as a ``pyarrow.RecordBatchReader``.

The consumer pulls. It may keep all arrays, as ``pyarrow.table`` does, or drop each before the next,
as DuckDB does. A batch whose arrays live holds a credit. If a table could take all of them, it
would never be whole; if it took all but one, no loop over batches would run at the same time. So a
batch is copied, and given back, if it would otherwise leave fewer credits than a loop has by
default.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable

import pyarrow as pa

from .columns import record_batch
from .types import types_of

if TYPE_CHECKING:
    from ..batch import Batch
    from ..schema import Field


#: The default credits of a stream.
_DEFAULT_CREDITS = 4


def reader(
    batches: Iterator[Batch], fields: tuple[Field, ...], free_credits: Callable[[], int]
) -> Any:
    """A reader of these batches. `free_credits` returns how many credits are free while the current
    batch is held."""

    def arrays() -> Iterator[Any]:
        for batch in batches:
            arrow = record_batch(batch, copy=free_credits() < _DEFAULT_CREDITS)
            del batch
            yield arrow
            del arrow

    return pa.RecordBatchReader.from_batches(types_of(fields).schema, arrays())
