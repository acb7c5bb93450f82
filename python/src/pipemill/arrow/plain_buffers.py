"""Arrow's buffers from spans of a payload, without numpy.

This has the same functions as `numpy_buffers`, and makes the same bytes in Python.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, repeat
from operator import add, eq
from typing import Any

from ..list_column import Unsound, bounds_of
from ..protocol import ABSENT

_INLINE = 12
_SHORT = struct.Struct("<I12s")
_LONG = struct.Struct("<I4sII")


def from_bytes(data: bytes | bytearray) -> Any:
    """The data as a buffer."""
    return memoryview(bytearray(data))


def adjacent(offsets: Any, lengths: Any) -> bool:
    """As in `numpy_buffers`."""
    return ABSENT not in offsets[:1] and all(map(eq, map(add, offsets, lengths), offsets[1:]))


def valid_bits(offsets: Any) -> Any:
    """As in `numpy_buffers`."""
    return pack_bits([offset != ABSENT for offset in offsets])


def pack_bits(data: Sequence[int]) -> Any:
    """As in `numpy_buffers`."""
    digits = "".join("1" if one else "0" for one in reversed(data))
    return from_bytes(int(digits or "0", 2).to_bytes((len(data) + 7) // 8, "little"))


def gather_steps(raw: Any, first: int, step: int, count: int, size: int) -> Any:
    """As in `numpy_buffers`."""
    return gather_fixed(raw, range(first, first + step * count, step), size)


def gather_fixed(raw: Any, offsets: Any, size: int) -> Any:
    """As in `numpy_buffers`."""
    blank = bytes(size)
    parts = [blank if offset == ABSENT else raw[offset : offset + size] for offset in offsets]
    return from_bytes(b"".join(parts))


def gather(raw: Any, offsets: Any, lengths: Any) -> Any:
    """As in `numpy_buffers`."""
    pairs = zip(offsets, lengths)
    return from_bytes(b"".join([raw[offset : offset + length] for offset, length in pairs]))


def counts(lengths: Any, unit: int) -> Any:
    """As in `numpy_buffers`."""
    return [length // unit for length in lengths]


def repeated(numbers: Iterable[int], times: int) -> Any:
    """As in `numpy_buffers`."""
    return list(chain.from_iterable(map(repeat, numbers, repeat(times))))


def total(numbers: Iterable[int]) -> int:
    """As in `numpy_buffers`."""
    return sum(numbers)


def ends(numbers: Iterable[int]) -> Any:
    """As in `numpy_buffers`."""
    return from_bytes(array("i", accumulate(numbers, initial=0)).tobytes())


def widen_bfloat16(data: Any) -> Any:
    """As in `numpy_buffers`."""
    wide = bytearray(2 * len(data))
    wide[2::4], wide[3::4] = bytes(data[::2]), bytes(data[1::2])
    return memoryview(wide)


def narrow_int64(data: Any) -> tuple[Any, int | None]:
    """As in `numpy_buffers`."""
    numbers = array("q", bytes(data))
    for number, value in enumerate(numbers):
        if not -(1 << 31) <= value < 1 << 31:
            return data, number
    return from_bytes(array("i", numbers).tobytes()), None


def longest(lengths: Any) -> int:
    """As in `numpy_buffers`."""
    return max(lengths, default=0)


class Texts:
    """As in `numpy_buffers`."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def are_sound(self, offsets: Any, lengths: Any) -> bool:
        """As in `numpy_buffers`."""
        try:
            for offset, length in zip(offsets, lengths):
                str(self._raw[offset : offset + length], "utf-8")
        except UnicodeDecodeError:
            return False
        return True


def views(raw: Any, offsets: Any, lengths: Any, span: int) -> Any:
    """As in `numpy_buffers`."""
    out = bytearray(16 * len(offsets))
    for row, (offset, length) in enumerate(zip(offsets, lengths)):
        if length > _INLINE:
            first = bytes(raw[offset : offset + 4])
            _LONG.pack_into(out, 16 * row, length, first, *divmod(offset, span))
        elif length:
            _SHORT.pack_into(out, 16 * row, length, bytes(raw[offset : offset + length]))
    return memoryview(out)


def list_elements(raw: Any, offsets: Any, lengths: Any, length: int) -> tuple[Any, Any, Any] | None:
    """As in `numpy_buffers`."""
    found, starts, sizes = [], [], []
    for offset, size in zip(offsets, lengths):
        if offset == ABSENT:
            found.append(0)
            continue
        try:
            bounds = bounds_of(raw[offset : offset + size], length)
        except Unsound:
            return None
        found.append(len(bounds) - 1)
        starts += [offset + bound for bound in bounds[:-1]]
        sizes += [end - start for start, end in zip(bounds, bounds[1:])]
    return found, starts, sizes
