"""Records as dicts of copies, which a program may keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .batch import Batch


def copied_records(batch: Batch) -> Iterator[dict[str, Any]]:
    """Each record of the batch: its fields by name."""
    names = [field.name for field in batch.fields]
    columns = [map(_copy, batch._column(number).values()) for number in range(len(names))]
    for values in zip(*columns):
        yield dict(zip(names, values))


def _copy(value: Any) -> Any:
    if isinstance(value, memoryview):
        return bytes(value) if value.format == "B" and value.ndim == 1 else value.tolist()
    if isinstance(value, list):
        return [_copy(one) for one in value]
    return value.copy() if hasattr(value, "copy") else value
