"""Makes Arrow's arrays of a batch. Values stay in the slot if Arrow can refer to them there.
docs/libraries.md lists the values that are copied."""

from __future__ import annotations

import ctypes
import math
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from ..column import Column
from ..even import Even
from ..protocol import SOME_ABSENT
from ..schema import SCALARS, STRINGS, Field
from ..spans import arrays as spans
from .host_views import VIEW_BYTES, host_views
from .types import is_uuid, list_type, plain_type, types_of

if TYPE_CHECKING:
    from ..batch import Batch
    from .copies import Copies

buffers: ModuleType
try:
    from . import numpy_buffers as buffers
except ImportError:
    from . import plain_buffers as buffers

#: Strings of at most this many bytes lie in their views.
INLINE = 12
#: The largest value of a 32-bit offset or length of Arrow.
_MAX = (1 << 31) - 1
#: Bytes of the payload from one data buffer of strings to the next. An offset in a view has 31
#: bits, so a larger payload is several buffers.
_SPAN = 1 << 30
#: The whole payload is copied if the strings of a table then take at most this many times the memory
#: that they take with a copy for each field: it is a single copy, while a field's is one of each
#: string.
_SMALL_MULTIPLE = 4 / 3

#: Memory of Arrow's usual pool is cleared in huge pages first, which takes longer than the copies.
_POOL = pa.system_memory_pool()


def record_batch(batch: Batch, copies: Copies | None = None) -> Any:
    """The batch as a ``pyarrow.RecordBatch``. It holds the batch's memory as long as one of its
    buffers lives, unless all of them are `copies`.

    Raises :class:`UnicodeDecodeError` if text is not UTF-8, :class:`ProtocolError` if the
    host's offsets or codes are wrong, and :class:`ValueError` if Arrow can't hold a value.
    """
    columns = _Columns(batch, copies)
    arrays = [columns.array(number) for number in range(len(batch.fields))]
    return pa.RecordBatch.from_arrays(arrays, schema=columns.types.schema)


def plain_arrays(batch: Batch, copies: Copies) -> tuple[Any, list[Any]]:
    """The schema of `record_batch`, and an array of each field, in memory of its own. Strings have
    Arrow's plain types, `string` and `binary`: each is copied once.

    Raises the same errors.
    """
    columns = _Columns(batch, copies, plain=True)
    arrays = [columns.array(number) for number in range(len(batch.fields))]
    return columns.types.schema, arrays


class _Columns:
    """Makes the arrays of one batch."""

    def __init__(self, batch: Batch, copies: Copies | None, plain: bool = False) -> None:
        self.types = types_of(batch.fields)
        self._batch = batch
        self._copies = copies
        self._plain = plain
        self._payload = batch.payload
        self._raw = spans.payload_array(self._payload)
        self._texts = buffers.Texts(self._raw)
        self._views = host_views(batch)
        self._whole: list[Any] | None = None
        self._is_whole: bool | None = None
        window: Any = self._payload.obj
        self._memory_address = ctypes.addressof(window)
        self._address = self._memory_address + batch._layout.payload_at

    def array(self, number: int) -> Any:
        """The array of a field."""
        field = self._batch.fields[number]
        kind, shape = self.types.elements[number], self.types.shapes[number]
        if number in self._views:
            return self._extended(number, self._viewed(number, kind))
        column = self._batch._column(number)
        nulls = len(column.absent)
        valid = pa.py_buffer(buffers.valid_bits(column.offsets)) if nulls else None
        if field.scalar in STRINGS:
            if shape:
                return self._lists(column, kind, nulls, valid)
            self._check_texts(column, column.offsets, column.lengths)
            views = buffers.views(self._raw, column.offsets, column.lengths, _SPAN)
            array = self._strings(field, kind, views, column.lengths, nulls, valid)
            return self._extended(number, array)
        if field.categories:
            codes = self._numbers(column, kind, (), nulls, valid)
            categories = self.types.categories(number)
            return pa.DictionaryArray.from_arrays(codes, categories, safe=False)
        if is_uuid(field):
            data = self._data(column, 16, 1)
            uuids = pa.Array.from_buffers(pa.binary(16), column.spans.count, [valid, data], nulls)
            return self._extended(number, uuids)
        return self._numbers(column, kind, shape, nulls, valid)

    def _extended(self, number: int, storage: Any) -> Any:
        """The array of a field's type, of which `storage` may be the storage."""
        kind = self.types.schema.field(number).type
        if self._plain or kind == storage.type:
            return storage
        return pa.ExtensionArray.from_storage(kind, storage)

    def _in_slot(self, first: int, size: int) -> Any:
        """A part of the payload as a buffer, which keeps the slot."""
        return pa.foreign_buffer(self._address + first, size, self._payload)

    # --- numbers

    def _numbers(
        self, column: Column, kind: Any, shape: tuple[int, ...], nulls: int, valid: Any
    ) -> Any:
        size = SCALARS[column.field.scalar][0]
        unit = size * math.prod(one or 1 for one in shape)
        data = self._elements(column, kind, unit, size)
        # From the outermost dimension on: the number of lists, and the buffer of their offsets
        # where they have any length.
        levels: list[tuple[int, int, list[Any]]] = []
        length, each = column.spans.count, 1
        for one in shape:
            if one:
                levels.append((one, length, []))
                length, each = length * one, each * one
            else:
                counts = buffers.repeated(buffers.counts(column.lengths, unit), each)
                total = buffers.total(counts)
                if total > _MAX:
                    self._refuse(column.field, f"has {total} elements")
                levels.append((0, length, [pa.py_buffer(buffers.ends(counts))]))
                length = total
        if not levels:
            return pa.Array.from_buffers(kind, length, [valid, data], nulls)
        array = pa.Array.from_buffers(kind, length, [None, data], 0)
        for one, length, parts in reversed(levels[1:]):
            kind = list_type(kind, one)
            array = pa.Array.from_buffers(kind, length, [None, *parts], 0, children=[array])
        one, length, parts = levels[0]
        kind = list_type(kind, one)
        return pa.Array.from_buffers(kind, length, [valid, *parts], nulls, children=[array])

    def _elements(self, column: Column, kind: Any, unit: int, size: int) -> Any:
        """The buffer of all elements of a column, in the form that Arrow has."""
        if kind == pa.bool_():
            return pa.py_buffer(buffers.pack_bits(self._joined(column, unit)[0]))
        if column.field.scalar == "bfloat16":
            return pa.py_buffer(buffers.widen_bfloat16(_copied(self._joined(column, unit)[0])))
        if pa.types.is_time32(kind):
            narrow, wrong = buffers.narrow_int64(_copied(self._joined(column, unit)[0]))
            if wrong is not None:
                self._refuse(column.field, "has a value that is no time of a day")
            return pa.py_buffer(narrow)
        return self._data(column, unit, size)

    def _data(self, column: Column, unit: int, alignment: int) -> Any:
        """The buffer of all values of a column, which are adjacent."""
        data, first = self._joined(column, unit)
        if self._copies is not None:
            return self._copies.wrap(data) if first is None else self._copies.add(data)
        if first is None:
            return pa.py_buffer(data)
        if (self._address + first) % alignment:
            return pa.py_buffer(_copied(data))
        return self._in_slot(first, len(data))

    def _joined(self, column: Column, unit: int) -> tuple[Any, int | None]:
        """The bytes of all values, and their offset in the payload, if they are not a copy. A value
        has `unit` bytes, or a multiple of it."""
        if not column.spans.count:
            return buffers.from_bytes(b""), None
        if column._size is not None:
            count, step = column.spans.count, 0
            if not len(column.absent):
                first, step = column.spans.place(unit)
            if step == unit:
                return self._raw[first : first + unit * count], first
            if step:
                return buffers.gather_steps(self._raw, first, step, count, unit), None
            return buffers.gather_fixed(self._raw, column.offsets, unit), None
        offsets, lengths = column.offsets, column.lengths
        if buffers.adjacent(offsets, lengths):
            first = int(offsets[0])
            return self._raw[first : int(offsets[-1]) + int(lengths[-1])], first
        return buffers.gather(self._raw, offsets, lengths), None

    # --- strings

    def _viewed(self, number: int, kind: Any) -> Any:
        """The array of a field whose views the host has written."""
        batch, nulls, valid = self._batch, 0, None
        if batch._head[3] & SOME_ABSENT:
            place = batch._place(number)
            if not isinstance(place, Even):
                offsets = spans.index_array(place[0])
                nulls = len(spans.absent_rows(offsets))
                valid = pa.py_buffer(buffers.valid_bits(offsets)) if nulls else None
        count = len(batch)
        address = self._memory_address + self._views[number]
        views = pa.foreign_buffer(address, VIEW_BYTES * count, self._payload)
        if self._copies is None:
            return pa.Array.from_buffers(kind, count, [valid, views, *self._whole_parts()], nulls)
        lengths = self._lengths(number)
        return self._strings(batch.fields[number], kind, views, lengths, nulls, valid)

    def _lengths(self, number: int) -> Any:
        """The length of each string of a field."""
        place = self._batch._place(number)
        if isinstance(place, Even):
            return self._batch._column(number).lengths
        return spans.index_array(place[1])

    def _strings(
        self, field: Field, kind: Any, views: Any, lengths: Any, nulls: int, valid: Any
    ) -> Any:
        """The array of strings whose views are of the payload."""
        parts = []
        longest = buffers.longest(lengths)
        if longest > _MAX:
            self._refuse(field, f"has a value of {longest} bytes")
        if self._plain:
            return self._joined_strings(kind, views, lengths, nulls, valid)
        if longest > INLINE:  # otherwise all lie in their views
            if self._copies is not None and not self._copies_whole():
                return self._packed(kind, views, lengths, nulls, valid)
            parts = self._whole_parts()
        if self._copies is None:
            views = pa.py_buffer(views)
        elif isinstance(views, pa.Buffer):  # those of the slot
            views = self._copies.add(views)
        else:
            views = self._copies.wrap(views)
        return pa.Array.from_buffers(kind, len(lengths), [valid, views, *parts], nulls)

    @staticmethod
    def _parts(data: Any) -> list[Any]:
        """The data buffers of strings, of a buffer with the payload."""
        return [data.slice(start) for start in range(0, data.size, _SPAN)]

    def _whole_parts(self) -> list[Any]:
        """The data buffers of strings of the whole payload, or of a copy of it."""
        if self._whole is None:
            if self._copies is None:
                payload = self._in_slot(0, len(self._raw))
            else:
                payload = self._copies.add(self._payload)
            self._whole = self._parts(payload)
        return self._whole

    def _copies_whole(self) -> bool:
        """Whether a copy of the payload takes little more memory than the strings that do not fit
        their views, or these are more than one data buffer has."""
        if self._is_whole is None:
            total = sum(self._long_bytes(number) for number in range(len(self.types.fields)))
            strings = sum(field.scalar in STRINGS for field in self.types.fields)
            views = VIEW_BYTES * len(self._batch) * strings
            whole = len(self._raw) + views
            self._is_whole = total > _MAX or whole <= _SMALL_MULTIPLE * (total + views)
        return self._is_whole

    def _long_bytes(self, number: int) -> int:
        """Bytes of the strings of a field, if some do not fit their views."""
        if self.types.fields[number].scalar not in STRINGS:
            return 0
        place = self._batch._place(number)
        if isinstance(place, Even):
            return place.size * place.records if place.size > INLINE else 0
        lengths = spans.index_array(place[1])
        return buffers.total(lengths) if buffers.longest(lengths) > INLINE else 0

    def _packed(self, kind: Any, views: Any, lengths: Any, nulls: int, valid: Any) -> Any:
        """The array of the strings, with a copy that has nothing but them."""
        joined = self._joined_strings(pa.binary_view(), views, lengths, nulls, valid)
        packed = joined.cast(pa.binary_view(), memory_pool=_POOL)
        return pa.Array.from_buffers(kind, len(lengths), packed.buffers(), nulls)

    def _joined_strings(self, kind: Any, views: Any, lengths: Any, nulls: int, valid: Any) -> Any:
        """The array of copies of the strings, one after the other, of the plain type."""
        parts = self._parts(self._in_slot(0, len(self._raw)))
        kept = [valid, pa.py_buffer(views), *parts]
        strings = pa.Array.from_buffers(kind, len(lengths), kept, nulls)
        return strings.cast(plain_type(kind), memory_pool=_POOL)

    def _lists(self, column: Column, kind: Any, nulls: int, valid: Any) -> Any:
        size = column.field.shape[0]
        found = buffers.list_elements(self._raw, column.offsets, column.lengths, size)
        if found is None:
            list(column.values())  # raises, and names the wrong list
            raise AssertionError(f"the lists of field {column.field.name!r} are sound")
        counts, offsets, lengths = found
        self._check_texts(column, offsets, lengths)
        views = buffers.views(self._raw, offsets, lengths, _SPAN)
        strings = self._strings(column.field, kind, views, lengths, 0, None)
        parts = [valid, pa.py_buffer(buffers.ends(counts))]
        return pa.Array.from_buffers(
            list_type(strings.type, 0), column.spans.count, parts, nulls, children=[strings]
        )

    def _check_texts(self, column: Column, offsets: Any, lengths: Any) -> None:
        """Refuses bytes that are not UTF-8: programs that read Arrow rely on it."""
        if column.field.scalar == "utf8" and not self._texts.are_sound(offsets, lengths):
            for row in range(column.spans.count):
                try:
                    column.value(row)
                except UnicodeDecodeError as error:
                    error.reason += f" (field {column.field.name!r}, row {row} of {self._name()})"
                    raise

    # --- errors

    def _name(self) -> str:
        return self._batch._name()

    def _refuse(self, field: Field, why: str) -> NoReturn:
        raise ValueError(
            f"field {field.name!r} of {self._name()} {why}, which Arrow can't hold; take "
            "the field without Arrow, or ask for smaller batches"
        )


def _copied(data: Any) -> Any:
    return buffers.from_bytes(bytes(data))
