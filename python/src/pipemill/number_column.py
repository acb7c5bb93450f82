"""A field of numbers: single ones, or arrays of a shape."""

from __future__ import annotations

import math
import struct
from functools import lru_cache
from typing import Any, Callable

from .bfloat16 import to_float
from .column import Column
from .schema import SCALARS, Field
from .spans import arrays


class NumberColumn(Column):
    """A field of numbers."""

    @staticmethod
    def sizes(field: Field) -> tuple[int, int | None]:
        """As in `Column`."""
        unit = SCALARS[field.scalar][0] * _numbers(field.shape)
        return unit, None if 0 in field.shape else unit

    @property
    def _itemsize(self) -> int:
        return SCALARS[self.field.scalar][0]

    def _make_cell(self) -> Callable[[int, int], Any]:
        payload, scalar, shape = self._payload, self.field.scalar, self.field.shape
        if not shape:
            unpack = struct.Struct("<" + SCALARS[scalar][1]).unpack_from
            if scalar == "bfloat16":
                return lambda offset, length: to_float(unpack(payload, offset)[0])
            return lambda offset, length: unpack(payload, offset)[0]
        raw, itemsize, row_array = self.raw, self._itemsize, arrays.row_array
        return lambda offset, length: row_array(
            raw, offset, scalar, _shape_of(shape, itemsize, length)
        )

    def all(self, absent: Any) -> Any:
        """The result of `Batch.column`: an array if the type determines the shape, otherwise a
        list. The lengths of these records do not matter."""
        return super().all(absent) if self._size is None else self.filled(absent)

    def dense(self) -> Any:
        """The array of all records, which all have the field."""
        size, shape = self._size, self.field.shape
        if size is None:
            size = self._even_length()
            shape = _shape_of(shape, self._itemsize, size)
        elif len(self.absent):
            self.raise_absent()
        return self._dense(size, self.field.scalar, shape)


@lru_cache(1024)
def _numbers(shape: tuple[int, ...]) -> int:
    """The numbers in a value. If the length varies, it must be a multiple of this many numbers."""
    return math.prod(size or 1 for size in shape)


def _shape_of(shape: tuple[int, ...], itemsize: int, length: int) -> tuple[int, ...]:
    """The shape of a field that is `length` bytes long."""
    if 0 not in shape:
        return shape
    if shape.count(0) > 1:
        return (length // itemsize,)  # the length alone does not determine several dimensions
    return tuple(size or length // (itemsize * math.prod(filter(None, shape))) for size in shape)
