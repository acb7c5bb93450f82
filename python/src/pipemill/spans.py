"""The places of the values of one field in a batch's payload, from its index and checked."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from .errors import ProtocolError
from .even import Even
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
        "index", "even", "count", "some_absent", "limit", "absent", "size", "_offsets", "_lengths",
        "_is_even", "_place", "_rows", "recipe",
    )  # fmt: skip

    def __init__(
        self,
        field: Field,
        place: tuple[Any, Any] | Even,
        limit: int,
        some_absent: bool,
        unit: int,
        size: int | None,
    ) -> None:
        """`place`: the bytes of the offsets and of the lengths, or even values. `limit`: the bytes
        of the payload. Each value has `size` bytes, or a multiple of `unit` bytes if `size` is
        None.

        Raises `ProtocolError` if a value has another length, or is outside of the payload.
        """
        self.limit, self.some_absent, self.size = limit, some_absent, size
        #: The place of even values. `index` has the lists of others.
        self.even: Even | None = None
        self.index: tuple[Any, Any] | None = None
        self._offsets: Any = None
        self._lengths: Any = None
        #: The rows that do not have the field.
        self.absent: Any = ()
        if isinstance(place, Even):
            self.even, self.count = place, place.records
            self._check_even(field, place, unit)
        else:
            self.index = place
            self._offsets, self._lengths = map(arrays.index_array, place)
            self.count = len(self._offsets)
            self._check_lists(field, unit)
        self._is_even: bool | None = None
        self._place: tuple[int, int] | None = None
        self._rows: tuple[Sequence[int], Sequence[int]] | None = None
        #: How the array of all records is made, if that is known: see `arrays.recipe`.
        self.recipe: tuple[Any, ...] | None = None

    def _check_even(self, field: Field, even: Even, unit: int) -> None:
        is_good = even.size % unit == 0 if self.size is None else even.size == self.size
        if not even.size or even.records and not (is_good and even.end <= self.limit):
            self._raise_wrong(field, 0, even.first, even.size, unit)

    def _check_lists(self, field: Field, unit: int) -> None:
        offsets, lengths, some_absent = self._offsets, self._lengths, self.some_absent
        rows = arrays.invalid_rows(offsets, lengths, self.limit, unit, self.size, some_absent)
        if len(rows):
            row = int(rows[0])
            self._raise_wrong(field, row, offsets[row], lengths[row], unit)
        if some_absent:
            self.absent = arrays.absent_rows(offsets)

    def _raise_wrong(self, field: Field, row: int, offset: Any, length: Any, unit: int) -> None:
        must = f"multiple of {unit}" if self.size is None else f"length of {self.size}"
        all_of_them = f", and so {self.count} values," if self.even is not None else ""
        raise ProtocolError(
            f"field {field.name!r} of row {row} is said to be {length} bytes at {offset}"
            f"{all_of_them}; the payload has {self.limit}, and the field's type asks for a {must}; "
            f"{REMEDY}"
        )

    @property
    def offsets(self) -> Any:
        """The offset of each value, as an array of u32."""
        if self._offsets is None:
            self._offsets = arrays.numbers_of(self.starts)
        return self._offsets

    @property
    def lengths(self) -> Any:
        """The length of each value, as an array of u32."""
        if self._lengths is None:
            assert self.even is not None
            self._lengths = arrays.same_numbers(self.even.size, self.count)
        return self._lengths

    @property
    def starts(self) -> Any:
        """The offset of each value: a `range` if they are even, otherwise as `offsets`."""
        return self._offsets if self.even is None else self.even.offsets()

    def copy(self) -> Spans:
        """A copy that holds no memory of the batch."""
        if self.index is None:
            return self
        other = copy.copy(self)
        other.index = self.index[0].tobytes(), self.index[1].tobytes()
        other._offsets, other._lengths = map(arrays.index_array, other.index)
        other._rows = None
        return other

    def are_of(self, place: tuple[Any, Any] | Even, limit: int, some_absent: bool) -> bool:
        """Whether a batch with this place and a payload of `limit` bytes has the same spans. These
        spans must be a `copy`. Then nothing has to be checked again."""
        if self.limit > limit or self.some_absent != some_absent:
            return False
        if isinstance(place, Even) or self.index is None:
            return self.even == place
        return bool(
            self.index[0] == place[0].tobytes() and self.index[1] == place[1].tobytes()
        )

    def rows(self) -> tuple[Sequence[int], Sequence[int]]:
        """Offsets and lengths as sequences of `int`."""
        if self._rows is None:
            if self.even is not None:
                self._rows = self.even.offsets(), [self.even.size] * self.count
            else:
                assert self.index is not None
                offsets, lengths = (
                    memoryview(one).cast("I") if len(one) else memoryview(b"") for one in self.index
                )
                self._rows = offsets, lengths
        return self._rows

    def is_even(self) -> bool:
        """Whether all records have the field, equally long. False if there is none."""
        if self._is_even is None:
            self._is_even = self.count > 0 and (
                self.even is not None
                or (not len(self.absent) and not len(arrays.uneven_rows(self.lengths)))
            )
        return self._is_even

    def first_length(self) -> int:
        """The length of the first value. There must be one."""
        return self.even.size if self.even is not None else int(self._lengths[0])

    def place(self, size: int) -> tuple[int, int]:
        """The first record's offset, and the bytes from each to the next: 0 if these differ. All
        records must have the field, with `size` bytes. The size must be the same in each call."""
        if self._place is None:
            if self.even is not None and self.count and self.even.size == size:
                self._place = self.even.first, size
            else:
                self._place = arrays.place_of(self.offsets, size)
        return self._place
