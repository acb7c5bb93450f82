"""The places of the values of one field in a batch's payload, from its index and checked."""

from __future__ import annotations

import copy
from types import ModuleType
from typing import Any

from .errors import ProtocolError
from .protocol import REMEDY
from .schema import Field

arrays: ModuleType
try:
    from . import numpy_arrays as arrays
except ImportError:
    from . import plain_arrays as arrays


class Spans:
    """The offset and the length of each record's value."""

    __slots__ = (
        "index", "some_absent", "limit", "offsets", "lengths", "absent", "size", "_is_even",
        "_place", "_rows", "recipe",
    )  # fmt: skip

    def __init__(
        self,
        field: Field,
        index: tuple[Any, Any],
        limit: int,
        some_absent: bool,
        unit: int,
        size: int | None,
    ) -> None:
        """`index`: the bytes of the offsets and of the lengths. `limit`: the bytes of the payload.
        Each value has `size` bytes, or a multiple of `unit` bytes if `size` is None.

        Raises `ProtocolError` if a value has another length, or is outside of the payload.
        """
        self.index, self.limit, self.some_absent = index, limit, some_absent
        self.size = size
        self.offsets = arrays.index_array(index[0])
        self.lengths = arrays.index_array(index[1])
        rows = arrays.invalid_rows(self.offsets, self.lengths, limit, unit, size, some_absent)
        if len(rows):
            row = int(rows[0])
            must = f"multiple of {unit}" if size is None else f"length of {size}"
            raise ProtocolError(
                f"field {field.name!r} of row {row} is said to be {self.lengths[row]} bytes "
                f"at {self.offsets[row]}; the payload has {limit}, and the field's type asks for a "
                f"{must}; {REMEDY}"
            )
        #: The rows that do not have the field.
        self.absent: Any = arrays.absent_rows(self.offsets) if some_absent else ()
        self._is_even: bool | None = None
        self._place: tuple[int, int] | None = None
        self._rows: tuple[Any, Any] | None = None
        #: How the array of all records is made, if that is known: see `arrays.recipe`.
        self.recipe: tuple[Any, ...] | None = None

    def copy(self) -> Spans:
        """A copy that holds no memory of the batch."""
        other = copy.copy(self)
        other.index = self.index[0].tobytes(), self.index[1].tobytes()
        other.offsets, other.lengths = map(arrays.index_array, other.index)
        other._rows = None
        return other

    def are_of(
        self, offsets: memoryview, lengths: memoryview, limit: int, some_absent: bool
    ) -> bool:
        """Whether a batch with this index and a payload of `limit` bytes has the same spans. These
        spans must be a `copy`. Then nothing has to be checked again."""
        return (
            self.index[0] == offsets.tobytes()
            and self.index[1] == lengths.tobytes()
            and self.limit <= limit
            and self.some_absent == some_absent
        )

    def rows(self) -> tuple[Any, Any]:
        """Offsets and lengths as sequences of `int`."""
        if self._rows is None:
            offsets, lengths = (
                memoryview(one).cast("I") if len(one) else memoryview(b"") for one in self.index
            )
            self._rows = offsets, lengths
        return self._rows

    def is_even(self) -> bool:
        """Whether all records have the field, equally long. False if there is none."""
        if self._is_even is None:
            self._is_even = (
                len(self.lengths) > 0
                and not len(self.absent)
                and not len(arrays.uneven_rows(self.lengths))
            )
        return self._is_even

    def place(self, size: int) -> tuple[int, int]:
        """The first record's offset, and the bytes from each to the next: 0 if these differ. All
        records must have the field, with `size` bytes. The size must be the same in each call."""
        if self._place is None:
            self._place = arrays.place_of(self.offsets, size)
        return self._place
