"""One field of one batch: its spans, checked, and what a program sees of them."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from itertools import starmap
from operator import add
from types import ModuleType
from typing import Any, Callable, NoReturn

from .errors import AbsentError, ProtocolError
from .protocol import ABSENT, REMEDY, SCALARS, Field

arrays: ModuleType
try:
    from . import numpy_arrays as arrays
except ImportError:
    from . import plain_arrays as arrays

#: "No value was given", where None is a value.
MISSING: Any = object()


class Column:
    """The spans of one field. Made when a program first asks for the field."""

    def __init__(
        self, field: Field, payload: memoryview, index: tuple[memoryview, memoryview], gaps: bool
    ) -> None:
        self.field = field
        self._payload = payload
        self._raw = arrays.raw(payload)
        self.offsets, self.lengths = (arrays.index(one) for one in index)
        #: The same as memoryviews: their elements are plain `int`, which is quicker row by row.
        self._starts, self._sizes = (
            one.cast("I") if len(one) else memoryview(b"") for one in index
        )
        itemsize, letter = SCALARS[field.scalar]
        text = field.scalar in ("bytes", "utf8")
        self._shape: tuple[int, ...] = () if text else field.shape
        self._unit = itemsize * math.prod(size or 1 for size in self._shape)
        self._size: int | None = None if text or 0 in self._shape else self._unit
        self._itemsize = itemsize
        self._letter = letter
        self._check(len(payload), gaps)
        self._absent: Any = arrays.absent(self.offsets) if gaps else ()
        self._cell = self._make_cell()

    def _check(self, limit: int, gaps: bool) -> None:
        rows = arrays.unsound(self.offsets, self.lengths, limit, self._unit, self._size, gaps)
        if len(rows):
            row = int(rows[0])
            must = f"multiple of {self._unit}" if self._size is None else f"length of {self._size}"
            raise ProtocolError(
                f"field {self.field.name!r} of row {row} is said to be {self._sizes[row]} bytes "
                f"at {self._starts[row]}; the payload has {limit}, and the field's type asks for a "
                f"{must}; {REMEDY}"
            )

    # --- one record

    def value(self, row: int) -> Any:
        """The field of one record; None where it is absent."""
        offset = self._starts[row]
        return None if offset == ABSENT else self._cell(offset, self._sizes[row])

    def values(self) -> Iterator[Any]:
        """The field of each record, in order."""
        starts, sizes = self._starts, self._sizes
        if len(self._absent):
            return map(self.value, range(len(starts)))
        if self.field.scalar == "bytes":  # the same as below without a Python call a record
            return map(self._payload.__getitem__, map(slice, starts, map(add, starts, sizes)))
        return starmap(self._cell, zip(starts, sizes))

    def _make_cell(self) -> Callable[[int, int], Any]:
        payload, scalar = self._payload, self.field.scalar
        if scalar == "bytes":
            return lambda offset, length: payload[offset : offset + length]
        if scalar == "utf8":
            return lambda offset, length: str(payload[offset : offset + length], "utf-8")
        if not self._shape:
            unpack = struct.Struct("<" + self._letter).unpack_from
            return lambda offset, length: unpack(payload, offset)[0]
        raw, shape, itemsize, one = self._raw, self._shape, self._itemsize, arrays.one
        # No reference to `self` in here: a cycle would keep the memory until the next collection.
        return lambda offset, length: one(raw, offset, scalar, _told(shape, itemsize, length))

    # --- all records

    def all(self, absent: Any) -> Any:
        """What `Batch.column` returns."""
        gaps = len(self._absent)
        if self._size is None:
            return self._listed(absent)
        if not gaps:
            return self._rows(self._size, self._shape)
        if absent is MISSING:
            self._no_array()
        return arrays.filled(
            self._raw, self.offsets, self._size, self.field.scalar, self._shape, absent
        )

    def _listed(self, absent: Any) -> list[Any]:
        values = list(self.values())
        if absent is not MISSING:
            for row in self._absent:
                values[row] = absent
        return values

    def dense(self) -> Any:
        """What `Batch.dense` returns."""
        if len(self._absent):
            self._no_array()
        if self._size is not None:
            return self._rows(self._size, self._shape)
        if not len(self._sizes):
            return self._rows(0, self._shape or (0,))
        size = self._sizes[0]
        other = next((row for row, one in enumerate(self._sizes) if one != size), None)
        if other is not None:
            self._uneven(other)
        shape = (size,) if not self._shape else _told(self._shape, self._itemsize, size)
        return self._rows(size, shape)

    def _no_array(self) -> NoReturn:
        name, gaps = self.field.name, len(self._absent)
        if self._size is None:
            remedy = f"take the list, batch[{name!r}], where it is None"
        else:
            remedy = (
                f"say what to put there, batch.column({name!r}, absent=...), or go through the "
                "records, where it is None"
            )
        raise AbsentError(
            f"field {name!r} is absent in {gaps} of {len(self._starts)} records (the first is row "
            f"{int(self._absent[0])} of the batch), so it has no array; {remedy}"
        )

    def _uneven(self, row: int) -> NoReturn:
        raise ValueError(
            f"field {self.field.name!r} is not equally long in all records: {self._sizes[0]} bytes "
            f"in row 0, {self._sizes[row]} in row {int(row)}; take the list, "
            f"batch[{self.field.name!r}], and pad or cut it"
        )

    def _rows(self, size: int, shape: tuple[int, ...]) -> Any:
        return arrays.rows(self._raw, self.offsets, size, self.field.scalar, shape)


def _told(shape: tuple[int, ...], itemsize: int, length: int) -> tuple[int, ...]:
    """The shape of a field that is `length` bytes long."""
    if 0 not in shape:
        return shape
    if shape.count(0) > 1:
        return (length // itemsize,)  # which dimension is how long is not told
    return tuple(size or length // (itemsize * math.prod(filter(None, shape))) for size in shape)
