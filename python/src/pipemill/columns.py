"""Which kind of column a field has. This module imports numpy, so it is imported with the first
column, and not with the package."""

from __future__ import annotations

from .category_column import CategoryColumn
from .column import Column
from .list_column import ListColumn
from .number_column import NumberColumn
from .schema import STRINGS, Field
from .string_column import BytesColumn, TextColumn


def column_type(field: Field) -> type[Column]:
    """The kind of column for this field."""
    if field.scalar in STRINGS:
        if field.shape:
            return ListColumn
        return TextColumn if field.scalar == "utf8" else BytesColumn
    return CategoryColumn if field.categories else NumberColumn
