"""Arrays over a batch's payload without numpy: memoryviews, with their own shape.

This has the same functions as `numpy_arrays`. A memoryview can't have other strides, so only rows
without a gap between them are a view; other rows are joined into one copy. Before Python 3.12, a
memoryview has no half precision either, so float16 becomes a copy as float32 in all versions.
bfloat16 stays as its 16 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from operator import add
from typing import Any

from .bfloat16 import to_bits
from .protocol import ABSENT
from .schema import SCALARS


def payload_array(payload: memoryview) -> Any:
    """The payload in the form that the functions below take."""
    return payload


def index_array(view: memoryview | bytes) -> Any:
    """One array of the index, as u32."""
    return memoryview(view).cast("I") if len(view) else memoryview(b"")


def numbers_of(numbers: range) -> Any:
    """As in `numpy_arrays`."""
    return _of_u32(struct.pack(f"<{len(numbers)}I", *numbers))


def same_numbers(number: int, count: int) -> Any:
    """As in `numpy_arrays`."""
    return _of_u32(struct.pack("<I", number) * count)


def _of_u32(data: bytes) -> Any:
    return memoryview(data).cast("I") if data else memoryview(b"")


def invalid_rows(
    offsets: Any, lengths: Any, limit: int, unit: int, size: int | None, some_absent: bool
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
        if not (some_absent and offset == ABSENT and length == 0)
        and (offset + length > limit or (length % unit if size is None else length != size))
    ]


def absent_rows(offsets: Any) -> Sequence[int]:
    """Rows that do not have the field."""
    return [row for row, offset in enumerate(offsets) if offset == ABSENT]


def uneven_rows(lengths: Any) -> Sequence[int]:
    """Rows whose field has another length than in the first row."""
    return [row for row, length in enumerate(lengths) if length != lengths[0]]


def near_rows(
    offsets: Any, lengths: Any, count: int, some_absent: bool
) -> Iterator[tuple[int, int, list[int], list[int]]]:
    """As in `numpy_arrays`."""
    for at in range(0, len(offsets), count):
        part = offsets[at : at + count]
        first = min(part)
        starts = [0 if some_absent and one == ABSENT else one - first for one in part]
        ends = list(map(add, starts, lengths[at : at + count]))
        yield first, first + max(ends), starts, ends


def rows_from(raw: Any, offsets: Any, size: int, scalar: str, limit: int) -> Sequence[int]:
    """As in `numpy_arrays`."""
    unpack = struct.Struct("<" + SCALARS[scalar][1]).unpack_from
    return [
        row
        for row, offset in enumerate(offsets)
        if offset != ABSENT and unpack(raw, offset)[0] >= limit
    ]


def row_array(raw: memoryview, offset: int, scalar: str, shape: tuple[int, ...]) -> Any:
    """One record's array: a view."""
    return _shaped(raw, offset, scalar, shape)


def place_of(offsets: Any, size: int) -> tuple[int, int]:
    """As in `numpy_arrays`."""
    start = offsets[0] if len(offsets) else 0
    near = all(offset == start + row * size for row, offset in enumerate(offsets))
    return start, size if near else 0


def recipe(
    count: int, size: int, scalar: str, shape: tuple[int, ...], place: tuple[int, int]
) -> None:
    """There is none: memoryviews are made as fast as they can be."""


def dense_array(
    raw: memoryview,
    offsets: Any,
    size: int,
    scalar: str,
    shape: tuple[int, ...],
    place: tuple[int, int] | None = None,
) -> Any:
    """The array of all rows: a view if there is no gap between them, otherwise one copy."""
    n = len(offsets)
    start, step = place or place_of(offsets, size)
    if step or not size:
        return _shaped(raw, start, scalar, (n, *shape))
    joined = b"".join([raw[offset : offset + size] for offset in offsets])
    return _shaped(memoryview(joined), 0, scalar, (n, *shape))


def filled(
    raw: memoryview, offsets: Any, size: int, scalar: str, shape: tuple[int, ...], value: Any
) -> Any:
    """As `dense_array`, with `value` in the rows that are absent: a copy."""
    itemsize, letter = SCALARS[scalar]
    if scalar == "bfloat16":
        value = to_bits(value)
    blank = struct.pack("<" + letter, value) * (size // itemsize)
    parts = [blank if offset == ABSENT else raw[offset : offset + size] for offset in offsets]
    return _shaped(memoryview(b"".join(parts)), 0, scalar, (len(offsets), *shape))


def _shaped(raw: memoryview, offset: int, scalar: str, shape: tuple[int, ...]) -> Any:
    itemsize, letter = SCALARS[scalar]
    count = 1
    for size in shape:
        count *= size
    if count == 0:  # a memoryview's shape can't have a 0
        return memoryview(b"")
    flat: Any = raw[offset : offset + count * itemsize]
    if scalar == "float16":
        numbers, letter = struct.unpack(f"<{count}e", flat), "f"
        flat = memoryview(struct.pack(f"{count}f", *numbers))
    return flat.cast(letter) if len(shape) < 2 else flat.cast(letter, list(shape))
