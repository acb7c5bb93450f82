"""Arrays over a batch's payload where numpy is not installed: memoryviews, with their own shape.

The same functions as `numpy_arrays`. A memoryview has no strides to choose, so only rows without a
gap between them are a view; all others are joined into one copy.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import add
from typing import Any

from .protocol import ABSENT, SCALARS


def raw(payload: memoryview) -> Any:
    """The payload as the functions below take it."""
    return payload


def index(view: memoryview) -> Any:
    """One array of the index, as u32."""
    return view.cast("I") if len(view) else memoryview(b"")


def unsound(
    offsets: Any, lengths: Any, limit: int, unit: int, size: int | None, gaps: bool
) -> Sequence[int]:
    """As in `numpy_arrays`."""
    if (
        size is None
        and unit == 1
        and (not len(offsets) or max(map(add, offsets, lengths)) <= limit)
    ):
        return ()
    return [
        row
        for row, (offset, length) in enumerate(zip(offsets, lengths))
        if not (gaps and offset == ABSENT and length == 0)
        and (offset + length > limit or (length % unit if size is None else length != size))
    ]


def absent(offsets: Any) -> Sequence[int]:
    """Rows that do not have the field."""
    return [row for row, offset in enumerate(offsets) if offset == ABSENT]


def uneven(lengths: Any) -> Sequence[int]:
    """Rows that are not as long as the first."""
    return [row for row, length in enumerate(lengths) if length != lengths[0]]


def one(raw: memoryview, offset: int, scalar: str, shape: tuple[int, ...]) -> Any:
    """One record's array: a view."""
    return _shaped(raw, offset, scalar, shape)


def rows(raw: memoryview, offsets: Any, size: int, scalar: str, shape: tuple[int, ...]) -> Any:
    """The array of all rows: a view where they follow each other without a gap, else a copy."""
    n = len(offsets)
    start = offsets[0] if n else 0
    if all(offset == start + row * size for row, offset in enumerate(offsets)):
        return _shaped(raw, start, scalar, (n, *shape))
    joined = b"".join([raw[offset : offset + size] for offset in offsets])
    return _shaped(memoryview(joined), 0, scalar, (n, *shape))


def filled(
    raw: memoryview, offsets: Any, size: int, scalar: str, shape: tuple[int, ...], value: Any
) -> Any:
    """As `rows`, with `value` in the rows that are absent: a copy."""
    itemsize, letter = SCALARS[scalar]
    blank = struct.pack("<" + letter, value) * (size // itemsize)
    parts = [blank if offset == ABSENT else raw[offset : offset + size] for offset in offsets]
    return _shaped(memoryview(b"".join(parts)), 0, scalar, (len(offsets), *shape))


def _shaped(raw: memoryview, offset: int, scalar: str, shape: tuple[int, ...]) -> Any:
    itemsize, letter = SCALARS[scalar]
    count = 1
    for size in shape:
        count *= size
    if count == 0:  # a memoryview has no shape with a 0 in it
        return memoryview(b"")
    flat: Any = raw[offset : offset + count * itemsize]
    return flat.cast(letter) if len(shape) < 2 else flat.cast(letter, list(shape))
