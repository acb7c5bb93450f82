"""One field of one batch: its checked spans, and the values and arrays made from them."""

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

#: Stands for an argument that was not given, where None is a value.
MISSING: Any = object()


class Column:
    """The spans of one field. It is made when the program first asks for the field."""

    def __init__(
        self,
        field: Field,
        payload: memoryview,
        index: tuple[memoryview, memoryview],
        some_absent: bool,
    ) -> None:
        self.field = field
        self._payload = payload
        self._raw = arrays.payload_array(payload)
        self._index = index
        self.offsets = arrays.index_array(index[0])
        self.lengths = arrays.index_array(index[1])
        itemsize, letter = SCALARS[field.scalar]
        text = field.scalar in ("bytes", "utf8")
        self._shape: tuple[int, ...] = () if text else field.shape
        self._unit = itemsize * math.prod(size or 1 for size in self._shape)
        self._size: int | None = None if text or 0 in self._shape else self._unit
        self._itemsize = itemsize
        self._letter = letter
        self._check(len(payload), some_absent)
        self._absent: Any = arrays.absent_rows(self.offsets) if some_absent else ()
        self._row_access: tuple[Any, Any, Callable[[int, int], Any]] | None = None

    def _check(self, limit: int, some_absent: bool) -> None:
        rows = arrays.invalid_rows(
            self.offsets, self.lengths, limit, self._unit, self._size, some_absent
        )
        if len(rows):
            row = int(rows[0])
            must = f"multiple of {self._unit}" if self._size is None else f"length of {self._size}"
            raise ProtocolError(
                f"field {self.field.name!r} of row {row} is said to be {self.lengths[row]} bytes "
                f"at {self.offsets[row]}; the payload has {limit}, and the field's type asks for a "
                f"{must}; {REMEDY}"
            )

    # --- one record

    def value(self, row: int) -> Any:
        """The field of one record; None where it is absent."""
        starts, sizes, cell = self._row_access or self._make_row_access()
        offset = starts[row]
        return None if offset == ABSENT else cell(offset, sizes[row])

    def values(self) -> Iterator[Any]:
        """The field of each record, in order."""
        starts, sizes, cell = self._row_access or self._make_row_access()
        if len(self._absent):
            return map(self.value, range(len(starts)))
        if self.field.scalar == "bytes":  # as below, without a Python call for each record
            return map(self._payload.__getitem__, map(slice, starts, map(add, starts, sizes)))
        return starmap(cell, zip(starts, sizes))

    def _make_row_access(self) -> tuple[Any, Any, Callable[[int, int], Any]]:
        """Offsets and lengths as sequences of `int`, and what makes a value of one of each."""
        starts, sizes = (one.cast("I") if len(one) else memoryview(b"") for one in self._index)
        self._row_access = starts, sizes, self._make_cell()
        return self._row_access

    def _make_cell(self) -> Callable[[int, int], Any]:
        payload, scalar = self._payload, self.field.scalar
        if scalar == "bytes":
            return lambda offset, length: payload[offset : offset + length]
        if scalar == "utf8":
            return lambda offset, length: str(payload[offset : offset + length], "utf-8")
        if not self._shape:
            unpack = struct.Struct("<" + self._letter).unpack_from
            return lambda offset, length: unpack(payload, offset)[0]
        raw, shape, itemsize, row_array = self._raw, self._shape, self._itemsize, arrays.row_array
        # Without a reference to `self`: a cycle would keep the memory until the next collection.
        return lambda offset, length: row_array(
            raw, offset, scalar, _shape_of(shape, itemsize, length)
        )

    # --- all records

    def all(self, absent: Any) -> Any:
        """The result of `Batch.column`."""
        if self._size is None:
            numbers = self._shape and not len(self._absent)
            if numbers and any(self.lengths[:1]) and not len(arrays.uneven_rows(self.lengths)):
                return self.dense()
            return self._listed(absent)
        if len(self._absent) and absent is not MISSING:
            scalar = self.field.scalar
            return arrays.filled(self._raw, self.offsets, self._size, scalar, self._shape, absent)
        return self.dense()

    def _listed(self, absent: Any) -> list[Any]:
        values = list(self.values())
        if absent is not MISSING:
            for row in self._absent:
                values[row] = absent
        return values

    def dense(self) -> Any:
        """The result of `Batch.dense`."""
        if len(self._absent):
            self._raise_absent()
        size, shape = self._size, self._shape
        if size is None:
            others = arrays.uneven_rows(self.lengths)
            if len(others):
                self._raise_uneven(int(others[0]))
            size = int(self.lengths[0]) if len(self.lengths) else 0
            shape = _shape_of(shape or (0,), self._itemsize, size)
        return arrays.dense_array(self._raw, self.offsets, size, self.field.scalar, shape)

    def _raise_absent(self) -> NoReturn:
        name, count = self.field.name, len(self._absent)
        if self._size is None:
            remedy = f"take the list, batch[{name!r}], where it is None"
        else:
            remedy = (
                f"say what to put there, batch.column({name!r}, absent=...), or go through the "
                "records, where it is None"
            )
        raise AbsentError(
            f"field {name!r} is absent in {count} of {len(self.offsets)} records (the first is row "
            f"{int(self._absent[0])} of the batch), so it has no array; {remedy}"
        )

    def _raise_uneven(self, row: int) -> NoReturn:
        raise ValueError(
            f"field {self.field.name!r} is not equally long in all records: {self.lengths[0]} "
            f"bytes in row 0, {self.lengths[row]} in row {row}; take the list, "
            f"batch[{self.field.name!r}], and pad or cut it"
        )


def _shape_of(shape: tuple[int, ...], itemsize: int, length: int) -> tuple[int, ...]:
    """The shape of a field that is `length` bytes long."""
    if 0 not in shape:
        return shape
    if shape.count(0) > 1:
        return (length // itemsize,)  # the length alone does not give several dimensions
    return tuple(size or length // (itemsize * math.prod(filter(None, shape))) for size in shape)
