"""Records as dicts of copies, which a program may keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .batch import Batch


def copied_records(batch: Batch, fields: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Each record of the batch: these fields by name."""
    names = [batch.fields[field].name for field in fields]
    columns = [map(_copy, batch._column(field).values()) for field in fields]
    for values in zip(*columns):
        yield dict(zip(names, values))


def _copy(value: Any) -> Any:
    if isinstance(value, memoryview):
        return bytes(value) if value.format == "B" and value.ndim == 1 else value.tolist()
    if isinstance(value, list):
        return [_copy(one) for one in value]
    return value.copy() if hasattr(value, "copy") else value
