"""Arrow's buffers from spans of a payload, with numpy. `plain_buffers` has the same functions
without it.

`offsets` and `lengths` are those of a column: `uint32`. An absent row has the offset ABSENT and the
length 0. `raw` is the payload.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ..numpy_arrays import pieces_of
from ..protocol import ABSENT

#: Strings of at most this many bytes are in the view itself.
_INLINE = 12
_CELL = f"V{_INLINE}"
_MASKS = (255 * np.tri(_INLINE + 1, _INLINE, -1, "u1")).view("<u4")
#: If the mean length of values is above this many bytes, they are copied one by one.
_FEW_BYTES = 64
#: The whole payload is checked at once if the texts of a field are at least 1/32 of it.
_PART = 32
#: If the mean length of texts is above this many bytes, they are checked one by one: to join them
#: saves no time then.
_MAX_MEAN = 1024


def from_bytes(data: bytes | bytearray) -> Any:
    """The data as a buffer."""
    return np.frombuffer(data, "u1")


def adjacent(offsets: Any, lengths: Any) -> bool:
    """Whether each value begins at the end of the one before, and none is absent."""
    return bool((offsets[1:] == offsets[:-1] + lengths[:-1]).all()) and ABSENT not in offsets[:1]


def valid_bits(offsets: Any) -> Any:
    """One bit for each row: whether it is not absent."""
    return np.packbits(offsets != ABSENT, bitorder="little")


def pack_bits(data: Any) -> Any:
    """One bit for each byte that is not 0."""
    return np.packbits(data, bitorder="little")


def gather_steps(raw: Any, first: int, step: int, count: int, size: int) -> Any:
    """The values of `size` bytes one after the other, of which one begins each `step` bytes."""
    kind = f"<u{size}" if size in (1, 2, 4, 8) else f"V{size}"
    return np.ascontiguousarray(np.ndarray(count, kind, raw, first, (step,))).view("u1")


def gather_fixed(raw: Any, offsets: Any, size: int) -> Any:
    """The values of `size` bytes, adjacent. Absent ones are 0."""
    pieces = pieces_of(offsets, size, len(raw))
    if pieces is not None:
        kind = f"<u{size}" if size in (1, 2, 4, 8) else f"V{size}"
        gathered = np.empty(len(offsets), kind)
        for row, end, first, step in pieces:
            gathered[row:end] = np.ndarray(end - row, kind, raw, first, (step,))
        return gathered.view("u1")
    is_present = offsets != ABSENT
    if len(offsets) and is_present.all():
        return _windows(raw, f"V{size}")[offsets].view("u1")
    present = np.flatnonzero(is_present)
    out = np.zeros(len(offsets), f"V{size}")
    if len(present):
        out[present] = _windows(raw, out.dtype)[offsets[present]]
    return out.view("u1")


def gather(raw: Any, offsets: Any, lengths: Any) -> Any:
    """The values of any length, adjacent."""
    sum = total(lengths)
    if sum <= _FEW_BYTES * len(offsets):
        # Byte i of the result is byte i + shift of the payload.
        shifts = offsets - (np.cumsum(lengths, dtype="i8") - lengths)
        return raw[np.repeat(shifts, lengths) + np.arange(sum)]
    starts, ends = offsets.tolist(), (offsets + lengths).tolist()
    # An absent row gives an empty slice.
    parts = list(map(memoryview(raw).__getitem__, map(slice, starts, ends)))
    return from_bytes(b"".join(parts))


def _windows(raw: Any, kind: Any) -> Any:
    """For each byte of `raw`, the value of this type that begins there."""
    kind = np.dtype(kind)
    return np.ndarray(len(raw) - kind.itemsize + 1, kind, raw, 0, (1,))


def counts(lengths: Any, unit: int) -> Any:
    """The number of elements of each value."""
    return lengths // unit


def repeated(numbers: Any, times: int) -> Any:
    """Each number repeated `times` times."""
    return np.repeat(numbers, times) if times > 1 else numbers


def total(numbers: Any) -> int:
    """The sum of the numbers."""
    return int(numbers.sum(dtype="i8"))


def ends(numbers: Any) -> Any:
    """0 and the sums of the first number, of the first two, and so on, as int32. The caller has
    checked that they fit."""
    out = np.zeros(len(numbers) + 1, "<i4")
    np.cumsum(numbers, dtype="i4", out=out[1:])
    return out


def extent(offsets: Any, lengths: Any) -> tuple[int, int]:
    """The first byte of all values that are not empty, and the byte after their last one."""
    some = np.flatnonzero(lengths)
    firsts = offsets[some]
    return int(firsts.min()), int((firsts.astype("i8") + lengths[some]).max())


def widen_bfloat16(data: Any) -> Any:
    """The float32 of each bfloat16."""
    return data.view("<u2").astype("<u4") << 16


def narrow_int64(data: Any) -> tuple[Any, int | None]:
    """The int32 of each int64, and the number of the first that is out of range."""
    wide = data.view("<i8")
    narrow = wide.astype("<i4")
    wrong = np.flatnonzero(narrow != wide)
    return narrow, int(wrong[0]) if len(wrong) else None


def longest(lengths: Any) -> int:
    """The largest length; 0 if there is none."""
    return int(lengths.max()) if len(lengths) else 0


class Texts:
    """Checks whether strings of a payload are UTF-8. The result for the whole payload serves all
    fields."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._whole: str | None = None

    def are_sound(self, offsets: Any, lengths: Any) -> bool:
        """Whether each string is UTF-8."""
        some = np.flatnonzero(lengths)
        if not len(some):
            return True
        starts, sizes = offsets[some], lengths[some]
        sum = total(sizes)
        if sum * _PART >= len(self._raw):
            whole = self._kind_of_whole()
            if whole == "ASCII":
                return True
            if whole == "UTF-8":
                ends = starts + sizes
                ends = ends[ends < len(self._raw)]
                return not (self._is_inside(starts) or self._is_inside(ends))
        return self._are_each_sound(starts, sizes, sum)

    def _kind_of_whole(self) -> str:
        """The kind of all bytes of the payload, including those between the strings."""
        if self._whole is None:
            if int(self._raw.max()) < 0x80:
                self._whole = "ASCII"
            else:
                try:
                    str(self._raw, "utf-8")
                    self._whole = "UTF-8"
                except UnicodeDecodeError:
                    self._whole = "other"
        return self._whole

    def _is_inside(self, places: Any) -> bool:
        """Whether one of these offsets is inside of a character."""
        return bool((self._raw[places] & 0xC0 == 0x80).any())

    def _are_each_sound(self, starts: Any, sizes: Any, sum: int) -> bool:
        raw = self._raw
        first, last = extent(starts, sizes)
        if last - first <= 2 * sum and int(raw[first:last].max()) < 0x80:
            return True  # ASCII, including the bytes between the strings
        try:
            if sum > _MAX_MEAN * len(starts):
                bytes_of = memoryview(raw)
                for start, size in zip(starts.tolist(), sizes.tolist()):
                    str(bytes_of[start : start + size], "utf-8")
                return True
            str(gather(raw, starts, sizes), "utf-8")
        except UnicodeDecodeError:
            return False
        # All strings together are UTF-8. So each of them is, if none begins inside of a character.
        return not self._is_inside(starts)


def views(raw: Any, offsets: Any, lengths: Any, span: int) -> Any:
    """The view of each string: its length, and its bytes if they are at most 12, else the first 4
    of them, the number of the data buffer, and the offset in it. Buffer i begins at byte i * `span`
    of the payload."""
    if 0 < len(offsets) and len(raw) <= span:
        found = _views_of_ordered(raw, offsets, lengths)
        if found is not None:
            return found
    out = np.zeros((len(offsets), 4), "<u4")
    out[:, 0] = lengths
    short = np.flatnonzero(lengths <= _INLINE)
    rows: Any = slice(None)
    if len(short) == len(offsets):
        if len(offsets):
            out[:, 1:] = _first_bytes(raw, offsets, lengths)
        return out.reshape(-1).view("u1")
    if len(short):
        out[short, 1:] = _first_bytes(raw, offsets[short], lengths[short])
        rows = np.flatnonzero(lengths > _INLINE)
    starts = offsets[rows]
    out[rows, 1] = _windows(raw, "<u4")[starts]
    if len(raw) > span:
        out[rows, 2], out[rows, 3] = np.divmod(starts, np.uint32(span))
    else:
        out[rows, 3] = starts
    return out.reshape(-1).view("u1")


def _views_of_ordered(raw: Any, offsets: Any, lengths: Any) -> Any:
    """The views of strings that follow each other in the payload; None where they do not. Arrow
    makes them faster than numpy, of an array of the strings and of what lies between them."""
    pairs = np.empty((len(offsets), 2), "<i4")
    pairs[:, 0] = offsets
    np.add(offsets, lengths, out=pairs[:, 1], casting="unsafe")
    bounds = pairs.reshape(-1)
    if not (bounds[:-1] <= bounds[1:]).all() or bounds[0] < 0:
        return None
    parts = [None, pa.py_buffer(bounds), pa.py_buffer(raw)]
    pieces = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, parts, 0)
    views = np.frombuffer(pieces.cast(pa.binary_view()).buffers()[1], "V16")
    return np.ascontiguousarray(views[::2]).view("u1")


def _first_bytes(raw: Any, offsets: Any, lengths: Any) -> Any:
    """The bytes of strings of at most 12, as 3 uint32."""
    offsets = np.where(lengths, offsets, 0)  # nothing is read for an absent row
    cells: Any = np.empty(len(offsets), _CELL)
    late = offsets > len(raw) - _INLINE  # fewer than 12 bytes follow there
    if late.any():
        at = max(0, len(raw) - _INLINE)
        tail = np.concatenate((raw[at:], np.zeros(_INLINE, "u1")))
        cells[late] = _windows(tail, _CELL)[offsets[late] - at]
        early = np.flatnonzero(~late)
        if len(early):
            cells[early] = _windows(raw, _CELL)[offsets[early]]
    else:
        cells = _windows(raw, _CELL)[offsets]
    # For each length, the bytes that belong to the string.
    return cells.view("<u4").reshape(-1, 3) & _MASKS[lengths]


def list_elements(raw: Any, offsets: Any, lengths: Any, length: int) -> tuple[Any, Any, Any] | None:
    """The number of elements of each list, and the offset and the length of each element. None if
    the bytes of a list are not sound. A `length` other than 0 is the number of elements of each
    list."""
    present = np.flatnonzero(offsets != ABSENT)
    starts, sizes = offsets[present].astype("i8"), lengths[present].astype("i8")
    if len(starts) == 0:
        empty = np.empty(0, "<u4")
        return np.zeros(len(offsets), "i8"), empty, empty
    if int(sizes.min()) < 4:
        return None
    words = _windows(raw, "<u4")
    heads = words[starts].astype("i8")
    if ((heads % 4 != 0) | (heads < 4) | (heads > sizes)).any():
        return None
    known = heads // 4 - 1
    # The table of a list has one word more than the list has elements.
    words_each = known + 1
    lists = np.repeat(np.arange(len(starts)), words_each)
    within = np.arange(len(lists)) - np.repeat(np.cumsum(words_each) - words_each, words_each)
    bounds = words[starts[lists] + 4 * within].astype("i8")
    last = np.cumsum(words_each) - 1
    inner = np.ones(len(bounds), bool)
    inner[last] = False
    steps = bounds[1:] - bounds[:-1]
    if (bounds[last] != sizes).any() or (steps[inner[:-1]] < 0).any():
        return None
    if length and (known != length).any():
        return None
    found = np.zeros(len(offsets), "i8")
    found[present] = known
    first = np.flatnonzero(inner)
    at = (starts[lists] + bounds)[first]
    return found, at.astype("<u4"), steps[first].astype("<u4")
