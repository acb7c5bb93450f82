"""Fields of bytes and of text, where each record has one value."""

from __future__ import annotations

from collections.abc import Iterator
from operator import add
from typing import Any, Callable

from .column import Column, arrays


class BytesColumn(Column):
    """A field of bytes."""

    def values(self) -> Iterator[Any]:
        """The bytes of each record, in order."""
        starts, sizes, _ = self._row_access or self._make_row_access()
        if len(self._absent):
            return super().values()
        # As `Column.values`, without a Python call for each record.
        return map(self._payload.__getitem__, map(slice, starts, map(add, starts, sizes)))

    def _make_cell(self) -> Callable[[int, int], Any]:
        payload = self._payload
        return lambda offset, length: payload[offset : offset + length]

    def dense(self) -> Any:
        """The result of `Batch.dense`: the bytes as numbers."""
        size = self._even_length()
        return arrays.dense_array(self._raw, self.offsets, size, "uint8", (size,))


class TextColumn(BytesColumn):
    """A field of text."""

    def values(self) -> Iterator[Any]:
        """The text of each record, in order. Decodes each when it is asked for."""
        return Column.values(self)

    def _make_cell(self) -> Callable[[int, int], Any]:
        payload = self._payload
        return lambda offset, length: str(payload[offset : offset + length], "utf-8")
