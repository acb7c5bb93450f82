"""A field of lists, of text or of bytes. docs/ring.md describes the bytes of such a value."""

from __future__ import annotations

from collections.abc import Iterator
from operator import gt
from typing import Any, Callable, NoReturn

from .column import Column
from .errors import ProtocolError
from .protocol import REMEDY
from .texts import decode_texts


class ListColumn(Column):
    """A field whose values are lists. Each list is checked when it is read."""

    def value(self, row: int) -> Any:
        """The list of one record; None if it is absent."""
        try:
            return super().value(row)
        except Unsound as error:
            raise ProtocolError(
                f"field {self.field.name!r} of row {row} is not a list: {error}; {REMEDY}"
            ) from None

    def values(self) -> Iterator[Any]:
        """The list of each record, in order."""
        return map(self.value, range(self.spans.count))

    def _make_cell(self) -> Callable[[int, int], Any]:
        payload, text, count = self._payload, self.field.scalar == "utf8", self.field.shape[0]

        def cell(offset: int, length: int) -> list[Any]:
            value = payload[offset : offset + length]
            bounds = bounds_of(value, count)
            if text:
                first = bounds[0]
                bounds = [bound - first for bound in bounds]
                return decode_texts(value[first:], bounds[:-1], bounds[1:])
            return [value[start:end] for start, end in zip(bounds, bounds[1:])]

        return cell

    def dense(self) -> NoReturn:
        """Raises: lists have no dense array."""
        name = self.field.name
        raise ValueError(
            f"field {name!r} is a list of {self.field.scalar} in each record, which has no array; "
            f"take the lists, batch[{name!r}]"
        )


class Unsound(Exception):
    """The offsets of a list are wrong. The text has the reason."""


def bounds_of(value: memoryview, count: int) -> list[int]:
    """The offsets at which the elements of a list begin, and at last its length.

    Raises `Unsound` if they are not in order, not within the value, or do not belong to `count`
    elements. A `count` of 0 stands for any number.
    """
    length = len(value)
    if length < 4:
        raise Unsound(f"it has {length} bytes, and an empty list has 4")
    first = int.from_bytes(value[:4], "little")
    if first % 4 or not 4 <= first <= length:
        raise Unsound(f"its first offset is {first}, not a multiple of 4 from 4 to {length}")
    bounds = value[:first].cast("I").tolist()
    if bounds[-1] != length:
        raise Unsound(f"its last offset is {bounds[-1]}, not its length, {length}")
    if any(map(gt, bounds, bounds[1:])):
        at = next(i for i in range(1, len(bounds)) if bounds[i - 1] > bounds[i])
        raise Unsound(f"its offset {at} is {bounds[at]}, and that before it {bounds[at - 1]}")
    if count and len(bounds) - 1 != count:
        raise Unsound(f"it has {len(bounds) - 1} elements, not {count}")
    return bounds
