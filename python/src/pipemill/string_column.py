"""Fields of bytes and of text, where each record has one value."""

from __future__ import annotations

from collections.abc import Iterator
from operator import add
from typing import Any, Callable

from .column import Column
from .spans import arrays
from .texts import decode_texts

#: Number of texts that are decoded together. They should fit into a processor's cache. One text
#: that is not ASCII slows down only its group.
_GROUP = 512


class BytesColumn(Column):
    """A field of bytes."""

    def values(self) -> Iterator[Any]:
        """The bytes of each record, in order."""
        starts, sizes, _ = self._row_access or self._make_row_access()
        if len(self.absent):
            return super().values()
        # As `Column.values`, without a Python call for each record.
        return map(self._payload.__getitem__, map(slice, starts, map(add, starts, sizes)))

    def _make_cell(self) -> Callable[[int, int], Any]:
        payload = self._payload
        return lambda offset, length: payload[offset : offset + length]

    def dense(self) -> Any:
        """The bytes of all records as numbers."""
        size = self._even_length()
        return self._dense(size, "uint8", (size,))


class TextColumn(BytesColumn):
    """A field of text. The first call of `all` decodes all texts and keeps them: a text can't be
    changed, and to decode it takes much longer than to copy the list."""

    _texts: list[str | None] | None = None

    def value(self, row: int) -> Any:
        """The text of one record; None if it is absent."""
        return super().value(row) if self._texts is None else self._texts[row]

    def values(self) -> Iterator[Any]:
        """The text of each record, in order. Decodes each when it is asked for."""
        return Column.values(self) if self._texts is None else iter(self._texts)

    def _make_cell(self) -> Callable[[int, int], Any]:
        payload = self._payload
        return lambda offset, length: str(payload[offset : offset + length], "utf-8")

    def all(self, absent: Any) -> Any:
        """The result of `Batch.column`: a list that belongs to the caller."""
        if self._texts is None:
            self._texts = self._decode()
        return super().all(absent)

    def _decode(self) -> list[str | None]:
        texts: list[str | None] = []
        some_absent = bool(len(self.absent))
        for first, last, starts, ends in arrays.near_rows(
            self.offsets, self.lengths, _GROUP, some_absent
        ):
            texts += decode_texts(self._payload[first:last], starts, ends)
        for row in self.absent:
            texts[row] = None
        return texts
