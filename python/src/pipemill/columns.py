"""Makes the columns of a batch. This module imports numpy, so it is imported with the first column,
and not with the package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .category_column import CategoryColumn
from .column import Column
from .list_column import ListColumn
from .number_column import NumberColumn
from .protocol import SOME_ABSENT
from .schema import STRINGS, Field
from .spans import Spans
from .string_column import BytesColumn, TextColumn

if TYPE_CHECKING:
    from .batch import Batch

#: Up to this number of records, a field's index is compared with that of the batch before.
_KEPT_RECORDS = 4096


def column_of(batch: Batch, number: int) -> Column:
    """The checked column of the field of this number."""
    memory, field = batch._open_memory(), batch.fields[number]
    kind = column_type(field)
    column = kind(field, batch.payload, _spans_of(batch, number, kind), memory)
    column.check()
    return column


def column_type(field: Field) -> type[Column]:
    """The kind of column for this field."""
    if field.scalar in STRINGS:
        if field.shape:
            return ListColumn
        return TextColumn if field.scalar == "utf8" else BytesColumn
    return CategoryColumn if field.categories else NumberColumn


def _spans_of(batch: Batch, number: int, kind: type[Column]) -> Spans:
    """The place of the values of a field: checked, or known from a batch that has the same
    index."""
    layout, checked = batch._layout, batch._checked
    limit = layout.payload_end - layout.payload_at
    some_absent = bool(batch._head[3] & SOME_ABSENT)
    place = batch._place(number)
    known = checked.spans[number]
    if known is not None and known.are_of(place, limit, some_absent):
        return known
    field = batch.fields[number]
    spans = Spans(field, place, limit, some_absent, *kind.sizes(field))
    # Values of different lengths are rarely at the same places again.
    is_kept = spans.even is not None or (
        0 < layout.records <= _KEPT_RECORDS and spans.lengths[0] == spans.lengths[-1]
    )
    checked.spans[number] = spans.copy() if is_kept else None
    return checked.spans[number] or spans
