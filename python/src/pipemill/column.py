"""One field of one batch: its checked spans. The subclasses make values and arrays from them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from types import ModuleType
from typing import Any, Callable, NoReturn

from .absent import fitting
from .errors import AbsentError, ProtocolError
from .memory import view
from .protocol import ABSENT, REMEDY, Header
from .schema import MISSING, Field

arrays: ModuleType
try:
    from . import numpy_arrays as arrays
except ImportError:
    from . import plain_arrays as arrays


class Column:
    """The spans of one field. It is made when the program first asks for the field.

    Each value is `size` bytes long; where that is None, a multiple of `unit` bytes.
    """

    #: The header of the batch, for what errors say.
    header: Header | None = None

    def __init__(
        self,
        field: Field,
        payload: memoryview,
        index: tuple[memoryview, memoryview],
        some_absent: bool,
        unit: int = 1,
        size: int | None = None,
    ) -> None:
        self.field = field
        self._payload = payload
        self._raw: Any = None
        self._index = index
        self.offsets = arrays.index_array(index[0])
        self.lengths = arrays.index_array(index[1])
        self._size = size
        #: True where `is_even` has found it.
        self._is_even = False
        self._check(unit, some_absent)
        #: The rows that do not have the field.
        self.absent: Any = arrays.absent_rows(self.offsets) if some_absent else ()
        self._row_access: tuple[Any, Any, Callable[[int, int], Any]] | None = None

    def _check(self, unit: int, some_absent: bool) -> None:
        limit, size = len(self._payload), self._size
        rows = arrays.invalid_rows(self.offsets, self.lengths, limit, unit, size, some_absent)
        if len(rows):
            row = int(rows[0])
            must = f"multiple of {unit}" if size is None else f"length of {size}"
            raise ProtocolError(
                f"field {self.field.name!r} of row {row} is said to be {self.lengths[row]} bytes "
                f"at {self.offsets[row]}; the payload has {limit}, and the field's type asks for a "
                f"{must}; {REMEDY}"
            )

    def over(self, payload: memoryview, raw: Any) -> Column:
        """The same field, whose values are made of this view of the same payload, of which `raw` is
        the array."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._payload, other._raw, other._row_access = payload, raw, None
        return other

    @property
    def raw(self) -> Any:
        """The payload as an array."""
        if self._raw is None:
            self._raw = arrays.payload_array(self._payload)
        return self._raw

    # --- one record

    def value(self, row: int) -> Any:
        """The field of one record; None where it is absent."""
        starts, sizes, cell = self._row_access or self._make_row_access()
        offset = starts[row]
        return None if offset == ABSENT else cell(offset, sizes[row])

    def values(self) -> Iterator[Any]:
        """The field of each record, in order."""
        starts, sizes, cell = self._row_access or self._make_row_access()
        if len(self.absent):
            return map(self.value, range(len(starts)))
        return starmap(cell, zip(starts, sizes))

    def _make_row_access(self) -> tuple[Any, Any, Callable[[int, int], Any]]:
        """Offsets and lengths as sequences of `int`, and what makes a value of one of each."""
        starts, sizes = (one.cast("I") if len(one) else memoryview(b"") for one in self._index)
        self._row_access = starts, sizes, self._make_cell()
        return self._row_access

    def _make_cell(self) -> Callable[[int, int], Any]:
        """What makes a value of its offset and length. It must not refer to `self`: a cycle would
        keep the memory until the next collection."""
        raise NotImplementedError

    # --- all records

    def all(self, absent: Any) -> Any:
        """The result of `Batch.column`: here a list."""
        values = list(self.values())
        if absent is not MISSING:
            for row in self.absent:
                values[row] = absent
        return values

    def dense(self) -> Any:
        """The array of all records, which all have the field."""
        raise NotImplementedError

    def filled(self, absent: Any) -> Any:
        """The result of `Batch.dense`: the array of all records. It is a copy with the value
        `absent` where the field is absent, which only numbers of one shape can have."""
        if absent is MISSING or self._size is None or not len(self.absent):
            return self.dense()
        value = fitting(self.field, absent)
        scalar, shape = self.field.scalar, self.field.shape
        return arrays.filled(self.raw, self.offsets, self._size, scalar, shape, value)

    def is_even(self) -> bool:
        """Whether all records have the field, equally long. False where there is none."""
        if not self._is_even and len(self.lengths) and not len(self.absent):
            self._is_even = not len(arrays.uneven_rows(self.lengths))
        return self._is_even

    def _even_length(self) -> int:
        """The length of each value in bytes; 0 where there is no record.

        Raises :class:`AbsentError` where one is absent, :class:`ValueError` where they differ.
        """
        if self._is_even:
            return int(self.lengths[0])
        if len(self.absent):
            self.raise_absent()
        others = arrays.uneven_rows(self.lengths)
        if len(others):
            row = int(others[0])
            raise ValueError(
                f"field {self.field.name!r} is not equally long in all records: "
                f"{self.lengths[0]} bytes in row 0, {self.lengths[row]} in row {row}; take the "
                f"list, batch[{self.field.name!r}], and pad or cut it"
            )
        return int(self.lengths[0]) if len(self.lengths) else 0

    def raise_absent(self) -> NoReturn:
        """Raises the :class:`AbsentError` of a field that some records do not have."""
        name, count = self.field.name, len(self.absent)
        if self._size is None:
            remedy = (
                f"take the list, batch[{name!r}], where it is None; for TensorFlow, say what to "
                f"take there, absent={{{name!r}: ...}}"
            )
        else:
            call = "dense" if self.field.categories else "column"
            remedy = (
                f"say what to take there, absent={{{name!r}: ...}}, or in a loop over a stream "
                f"batch.{call}({name!r}, absent=...); or leave the field out"
            )
        raise AbsentError(
            f"field {name!r} is absent in {count} of {len(self.offsets)} records (the first is row "
            f"{int(self.absent[0])} of {self._place()}), so it has no array; {remedy}"
        )

    def _place(self) -> str:
        """Where the batch is from. Its records need not all be of the object of the first one."""
        header = self.header
        if header is None:
            return "the batch"
        memory = view(self._index[0].obj)
        name = memory[header.object_at : header.object_at + header.object_bytes]
        return (
            f"batch {header.batch} of epoch {header.epoch}, which begins with record "
            f"{header.first_record} of {str(name, 'utf-8', 'replace')!r}"
        )
