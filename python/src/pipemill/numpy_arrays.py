"""Arrays over a batch's payload, with numpy. `plain_arrays` has the same functions without it.

Every array is read-only, whether it is a view or a copy. So no program depends on which of the two
it got.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

from .bfloat16 import to_bits
from .protocol import ABSENT
from .schema import Field

#: To find a type by its name takes a third of the time of an array.
_U1 = np.dtype("u1")
_DTYPES = {
    "boolean": np.dtype("?"),
    "int8": np.dtype("i1"),
    "int16": np.dtype("<i2"),
    "int32": np.dtype("<i4"),
    "int64": np.dtype("<i8"),
    "uint8": np.dtype("u1"),
    "uint16": np.dtype("<u2"),
    "uint32": np.dtype("<u4"),
    "uint64": np.dtype("<u8"),
    "float16": np.dtype("<f2"),
    "float32": np.dtype("<f4"),
    "float64": np.dtype("<f8"),
}


def dtype_of(scalar: str) -> Any:
    """The numpy type of a scalar. That of bfloat16 is in the package ml_dtypes, which is imported
    at the first such field. Without it, the type is that of the 16 bits."""
    if scalar not in _DTYPES:
        try:
            _DTYPES[scalar] = np.dtype(import_module("ml_dtypes").bfloat16)
        except ImportError:
            _DTYPES[scalar] = _DTYPES["uint16"]
    return _DTYPES[scalar]


def array_of(field: Field, value: Any) -> Any:
    """The array of one value, of bytes or of numbers, that a program has given."""
    if field.scalar == "bytes":
        return np.frombuffer(value, "u1").copy()
    dtype = dtype_of(field.scalar)
    if field.scalar == "bfloat16" and dtype == _DTYPES["uint16"]:
        array = np.array([to_bits(one) for one in np.ravel(value).tolist()], dtype)
    else:
        array = np.array(value, dtype)
    shape = [-1] if field.shape.count(0) > 1 else [size or -1 for size in field.shape]
    return array.reshape(shape)


def payload_array(payload: memoryview) -> Any:
    """The payload in the form that the functions below take. An array over it can't be made
    writable. An array directly over the memoryview could, because numpy uses the memoryview's
    object, and writing to it would crash the process."""
    return np.frombuffer(payload, _U1) if len(payload) else np.empty(0, _U1)


def index_array(view: memoryview | bytes) -> Any:
    """One array of the index, as u32."""
    return np.frombuffer(view, "<u4") if len(view) else np.empty(0, "<u4")


def numbers_of(numbers: range) -> Any:
    """These numbers as an array of u32."""
    return _frozen(np.arange(numbers.start, numbers.stop, numbers.step).astype(np.uint32))


def same_numbers(number: int, count: int) -> Any:
    """An array of u32 that has a number `count` times."""
    return np.broadcast_to(np.array(number, np.uint32), count)


def invalid_rows(
    offsets: Any, lengths: Any, limit: int, unit: int, size: int | None, some_absent: bool
) -> Any:
    """Rows whose span is not within the payload of `limit` bytes, or has the wrong length. The
    length must be `size`, or a multiple of `unit` if `size` is None. Absent rows are valid if
    `some_absent`."""
    if not len(offsets):
        return offsets
    usual = int(lengths[0])
    if (usual % unit == 0 if size is None else usual == size) and _is_series(lengths, 0):
        largest = offsets[-1] if _step(offsets, usual) else offsets.max()
        if int(largest) + usual <= limit:
            return ()  # the usual case: all equally long
    bad = offsets.astype(np.int64) + lengths > limit
    if size is not None:
        bad |= lengths != size
    elif unit > 1:
        bad |= lengths % unit != 0
    if some_absent and bad.any():
        bad &= (offsets != ABSENT) | (lengths != 0)
    return np.flatnonzero(bad)


def absent_rows(offsets: Any) -> Any:
    """Rows that do not have the field."""
    return np.flatnonzero(offsets == ABSENT)


def uneven_rows(lengths: Any) -> Any:
    """Rows whose field has another length than in the first row."""
    return np.flatnonzero(lengths != lengths[:1]) if len(lengths) else lengths


def near_rows(
    offsets: Any, lengths: Any, count: int, some_absent: bool
) -> Iterator[tuple[int, int, list[int], list[int]]]:
    """Groups of `count` rows that follow each other. For each: the first byte of their spans in the
    payload, the byte after their last one, and where each span starts and ends, counted from the
    first byte. An absent row has an empty span there."""
    for at in range(0, len(offsets), count):
        starts = offsets[at : at + count].astype(np.int64)
        first = starts.min()  # ABSENT is larger than any other offset
        if some_absent:
            starts = np.where(starts == ABSENT, first, starts)
        starts -= first
        ends = starts + lengths[at : at + count]
        yield int(first), int(first + ends.max()), starts.tolist(), ends.tolist()


def rows_from(raw: Any, offsets: Any, size: int, scalar: str, limit: int) -> Any:
    """Rows whose number, of `size` bytes, is `limit` or more. Absent rows have no number."""
    if isinstance(offsets, range):
        return np.flatnonzero(dense_array(raw, offsets, size, scalar, ()) >= limit)
    present = np.flatnonzero(offsets != ABSENT)
    return present[dense_array(raw, offsets[present], size, scalar, ()) >= limit]


def row_array(raw: Any, offset: int, scalar: str, shape: tuple[int, ...]) -> Any:
    """One record's array: a view."""
    if 0 in shape:  # there may be no byte at `offset`
        return _frozen(np.empty(shape, dtype_of(scalar)))
    return np.ndarray(shape, dtype_of(scalar), raw, offset)


def place_of(offsets: Any, size: int) -> tuple[int, int]:
    """The first row's offset, and the bytes from one row to the next, if `dense_array` makes a view
    of rows of `size` bytes. Otherwise the second number is 0."""
    if not size or not len(offsets):
        return 0, 0
    step = offsets.step if isinstance(offsets, range) else _step(offsets, size)
    return int(offsets[0]), step


#: The array of a recipe: it has the recipe's shape, type and strides, over an array of the payload,
#: from the place of the first row on.
view_of = np.ndarray


def recipe(
    count: int, size: int, scalar: str, shape: tuple[int, ...], place: tuple[int, int]
) -> tuple[Any, ...] | None:
    """The shape, the type, the place of the first row and the strides of the array of
    `dense_array`, if that is a view. It is the same for other rows at the same places."""
    first, step = place
    if not count or not size or not step:
        return None
    dtype = dtype_of(scalar)
    strides = None if step == size else (step, *_strides(shape, dtype.itemsize))
    return (count, *shape), dtype, first, strides


def dense_array(
    raw: Any,
    offsets: Any,
    size: int,
    scalar: str,
    shape: tuple[int, ...],
    place: tuple[int, int] | None = None,
) -> Any:
    """The array of all rows: a view if they are evenly spaced, otherwise one copy. `place`: the
    result of `place_of`, if it was called."""
    dtype, n = dtype_of(scalar), len(offsets)
    if n == 0 or size == 0:
        return _frozen(np.empty((n, *shape), dtype))
    view = recipe(n, size, scalar, shape, place or place_of(offsets, size))
    if view is not None:
        rows, dtype, first, strides = view
        return view_of(rows, dtype, raw, first, strides)
    if (pieces := pieces_of(offsets, size, len(raw))) is not None:
        array = np.empty((n, *shape), dtype)
        inner = _strides(shape, dtype.itemsize)
        for row, end, first, step in pieces:
            array[row:end] = view_of((end - row, *shape), dtype, raw, first, (step, *inner))
        return _frozen(array)
    if not shape and (rest := _common_rest(offsets, size)) is not None:
        # Numbers among absent ones: an array of all of them.
        numbers = np.ndarray((len(raw) - rest) // size, dtype, raw, rest)
        return _frozen(numbers[offsets // size])
    windows = np.ndarray((len(raw) - size + 1, size), "u1", raw, 0, (1, 1))
    return _frozen(windows[offsets].view(dtype).reshape((n, *shape)))


def pieces_of(offsets: Any, size: int, limit: int) -> list[tuple[int, int, int, int]] | None:
    """The pieces of rows that are evenly spaced, if there are few: the number of the first row, and
    of the row after the last one, the first row's offset, and the bytes from one row to the next.
    None if a row does not lie within `limit` bytes."""
    n = len(offsets)
    if n < 2 * _FEW_PIECES or int(offsets.max()) + size > limit:
        return None
    steps = offsets[1:] - offsets[:-1]
    step = int(steps[0])
    if step < size:
        return None
    breaks = np.flatnonzero(steps != step)
    if len(breaks) > _FEW_PIECES:
        return None
    ends = (breaks + 1).tolist()
    firsts = offsets[[0, *ends]].tolist()
    lasts = offsets[[*breaks.tolist(), n - 1]].tolist()
    pieces = [(*one, step) for one in zip([0, *ends], [*ends, n], firsts)]
    # The steps are those modulo 2**32.
    if any(one[2] + step * (one[1] - one[0] - 1) != last for one, last in zip(pieces, lasts)):
        return None
    return pieces


#: A copy of at most this many pieces is faster than that of row by row.
_FEW_PIECES = 64


def _common_rest(offsets: Any, size: int) -> int | None:
    """The rest of each offset divided by `size`, if it is the same for all."""
    rests = offsets % size
    rest = int(rests[0])
    return rest if bool((rests == rest).all()) else None


@lru_cache(1024)
def _strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Bytes from one number to the next, in each dimension of one row."""
    return tuple(itemsize * prod(shape[at + 1 :]) for at in range(len(shape)))


def filled(
    raw: Any, offsets: Any, size: int, scalar: str, shape: tuple[int, ...], value: Any
) -> Any:
    """As `dense_array`, with `value` in the rows that are absent: a copy."""
    dtype = dtype_of(scalar)
    if scalar == "bfloat16" and dtype == _DTYPES["uint16"]:
        value = to_bits(value)
    array = np.full((len(offsets), *shape), value, dtype)
    present = np.flatnonzero(offsets != ABSENT)
    array[present] = dense_array(raw, offsets[present], size, scalar, shape)
    return _frozen(array)


def _step(offsets: Any, size: int) -> int:
    """Bytes from one row to the next, if that is the same for all rows, otherwise 0."""
    n = len(offsets)
    if n == 1:
        return size
    step = int(offsets[1]) - int(offsets[0])
    if step < size or int(offsets[-1]) != int(offsets[0]) + step * (n - 1):
        return 0
    return step if _is_series(offsets, step) else 0


def _is_series(numbers: Any, step: int) -> bool:
    """Whether each of these u32 is `step` more than the one before it, modulo 2**32. There must be
    at least one."""
    n = len(numbers)
    if n <= _SHORT:
        # To compare bytes takes a fifth of the time of numpy's operations.
        same: bool = numbers.tobytes() == _series(int(numbers[0]), step, n)
        return same
    if step == 0:
        return bool((numbers == numbers[0]).all())
    return bool((numbers[1:] - numbers[:-1] == step).all())


#: Arrays of the index up to this length are compared with one that is kept.
_SHORT = 4096


@lru_cache(64)
def _series(first: int, step: int, count: int) -> bytes:
    return (np.arange(count) * step + first).astype("<u4").tobytes()


def _frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array
