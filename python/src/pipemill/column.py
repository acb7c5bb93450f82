"""One field of one batch: its checked spans. The subclasses make values and arrays from them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from typing import Any, Callable, NoReturn

from . import protocol
from .absent import fitting
from .errors import AbsentError
from .protocol import ABSENT
from .schema import MISSING, Field
from .spans import Spans, arrays


class Column:
    """The values of one field. It is made when the program first asks for the field."""

    def __init__(self, field: Field, payload: memoryview, spans: Spans, memory: memoryview) -> None:
        """`memory`: that of the whole batch, for error texts."""
        self.field = field
        self.spans = spans
        self.absent, self._size = spans.absent, spans.size
        self._payload = payload
        self._memory = memory
        self._raw: Any = None
        self._row_access: tuple[Any, Any, Callable[[int, int], Any]] | None = None

    @staticmethod
    def sizes(field: Field) -> tuple[int, int | None]:
        """Two numbers of bytes: the length of each value is a multiple of the first. The second is
        the length itself, if it is the same for all values of the field, otherwise None."""
        return 1, None

    def check(self) -> None:
        """Checks the values, and not their places."""

    def over(self, payload: memoryview, raw: Any) -> Column:
        """The same field over this view of the same payload. `raw` is the array of that view."""
        other = type(self)(self.field, payload, self.spans, self._memory)
        other._raw = raw
        return other

    @property
    def offsets(self) -> Any:
        """The offset of each value in the payload, as an array of u32."""
        return self.spans.offsets

    @property
    def lengths(self) -> Any:
        """The length of each value, as an array of u32."""
        return self.spans.lengths

    @property
    def raw(self) -> Any:
        """The payload as an array."""
        if self._raw is None:
            self._raw = arrays.payload_array(self._payload)
        return self._raw

    # --- one record

    def value(self, row: int) -> Any:
        """The field of one record; None if it is absent."""
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
        """Offsets and lengths as sequences of `int`, and a function that makes a value of one of
        each."""
        starts, sizes = self.spans.rows()
        self._row_access = starts, sizes, self._make_cell()
        return self._row_access

    def _make_cell(self) -> Callable[[int, int], Any]:
        """A function that makes a value of its offset and length. It must not refer to `self`: a
        cycle would keep the memory until the next collection."""
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
        `absent` in the rows where the field is absent. Only numbers of one shape can have such
        rows."""
        if absent is MISSING or self._size is None or not len(self.absent):
            return self.dense()
        value = fitting(self.field, absent)
        scalar, shape = self.field.scalar, self.field.shape
        return arrays.filled(self.raw, self.offsets, self._size, scalar, shape, value)

    def is_even(self) -> bool:
        """Whether all records have the field, equally long. False if there is none."""
        return self.spans.is_even()

    def _even_length(self) -> int:
        """The length of each value in bytes; 0 if there is no record.

        Raises :class:`AbsentError` if a value is absent, and :class:`ValueError` if lengths differ.
        """
        if self.spans.is_even():
            return self.spans.first_length()
        if len(self.absent):
            self.raise_absent()
        if self.spans.count:
            row = int(arrays.uneven_rows(self.lengths)[0])
            raise ValueError(
                f"field {self.field.name!r} is not equally long in all records: "
                f"{self.lengths[0]} bytes in row 0, {self.lengths[row]} in row {row}; take the "
                f"list, batch[{self.field.name!r}], and pad or cut it"
            )
        return 0

    def _dense(self, size: int, scalar: str, shape: tuple[int, ...]) -> Any:
        """The array of all records, which all have the field with `size` bytes."""
        spans = self.spans
        place = spans.place(size)
        if spans.recipe is None:
            spans.recipe = arrays.recipe(spans.count, size, scalar, shape, place)
        return arrays.dense_array(self.raw, spans.starts, size, scalar, shape, place)

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
            f"field {name!r} is absent in {count} of {self.spans.count} records (the first is row "
            f"{int(self.absent[0])} of {self._place()}), so it has no array; {remedy}"
        )

    def _place(self) -> str:
        """The origin of the batch. Its records may belong to other objects than the first one
        does."""
        memory = self._memory
        header = protocol.header_of(protocol.HEAD.unpack_from(memory))
        name = memory[header.object_at : header.object_at + header.object_bytes]
        return (
            f"batch {header.batch} of epoch {header.epoch}, which begins with record "
            f"{header.first_record} of {str(name, 'utf-8', 'replace')!r}"
        )
