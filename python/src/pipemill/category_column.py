"""A field with categories: codes in the memory, text for the program."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Callable

from .column import Column
from .errors import ProtocolError
from .protocol import REMEDY
from .schema import SCALARS, Field
from .spans import arrays


class CategoryColumn(Column):
    """A field whose values are indices into `field.categories`. All are checked with each batch."""

    @staticmethod
    def sizes(field: Field) -> tuple[int, int | None]:
        """As in `Column`."""
        itemsize = SCALARS[field.scalar][0]
        return itemsize, itemsize

    def check(self) -> None:
        """Raises `ProtocolError` if a code belongs to no category."""
        field, known = self.field, len(self.field.categories)
        rows = arrays.rows_from(self.raw, self.spans.starts, self._size, field.scalar, known)
        if len(rows):
            row = int(rows[0])
            raise ProtocolError(
                f"field {field.name!r} of row {row} has the code {self._code(row)}, but the codes "
                f"of its {known} categories are 0 to {known - 1}; {REMEDY}"
            )

    def _code(self, row: int) -> int:
        letter = SCALARS[self.field.scalar][1]
        return int(struct.unpack_from("<" + letter, self._payload, int(self.offsets[row]))[0])

    def _make_cell(self) -> Callable[[int, int], Any]:
        payload, categories = self._payload, self.field.categories
        unpack = struct.Struct("<" + SCALARS[self.field.scalar][1]).unpack_from
        return lambda offset, length: categories[unpack(payload, offset)[0]]

    def values(self) -> Iterator[Any]:
        """The text of each record's category, in order."""
        if len(self.absent):
            return super().values()
        return map(self.field.categories.__getitem__, self.dense().tolist())

    def dense(self) -> Any:
        """The codes of all records, which all have the field."""
        if len(self.absent):
            self.raise_absent()
        # Not `_dense`, because the codes of each batch are checked.
        return arrays.dense_array(self.raw, self.spans.starts, self._size, self.field.scalar, ())
