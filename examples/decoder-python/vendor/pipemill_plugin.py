"""The contract of a decoder, in Python. Nothing here depends on WebAssembly, so a decoder also runs
natively."""

from __future__ import annotations

import builtins
import struct
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Mapping, NoReturn, Sequence

BYTES, UTF8, BOOLEAN = "bytes", "utf8", "boolean"
INT8, INT16, INT32, INT64 = "int8", "int16", "int32", "int64"
UINT8, UINT16, UINT32, UINT64 = "uint8", "uint16", "uint32", "uint64"
FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = "float16", "bfloat16", "float32", "float64"
"""Types of one element of a field. Numbers are little-endian, a boolean is one byte, 0 or 1."""

DEBUG, INFO, WARN, ERROR = range(1, 5)
"""The severities of a log line."""


@dataclass(frozen=True)
class OptionSpec:
    """An option that the operator may set. `kind` is "string", "bool", "int", "choice:a|b|c",
    "list" (words, separated by commas) or "file" (see `Decoder.prepare`; the value is "sha256:" and
    a digest). With `required`, the operator must set it, and it has no default."""

    name: str
    kind: str
    default: str | None
    help: str
    required: bool = False


class Options(dict[str, str]):
    """The operator's values, and the defaults of the other options."""

    prepared: Any = None
    """The result of `Decoder.prepare`."""

    def text(self, name: str) -> str:
        """The value of an option; the empty string if it has none."""
        return self.get(name, "")

    def is_on(self, name: str) -> bool:
        """Whether an option is `true`."""
        return self.get(name) == "true"

    def int(self, name: str) -> builtins.int | None:
        """The value of an option as a number; None if it has no value."""
        return int(self[name]) if name in self else None

    def list(self, name: str) -> builtins.list[str]:
        """The words of a "list", without the spaces around them; empty words are left out."""
        words = [word.strip() for word in self.text(name).split(",")]
        return [word for word in words if word]


@dataclass(frozen=True)
class Field:
    """One field of every record. `shape` is empty for a single element. A dimension of 0 means any
    size: it follows from the length of each value. BYTES and UTF8 with one dimension are lists: see
    `Records.list`.

    A record may lack a field only if it is `nullable`. `logical` is the meaning of the values, such
    as "timestamp[us]". If `categories` is not empty, the values are indices into this list.
    `metadata` has more facts for the consumer."""

    name: str
    scalar: str = BYTES
    shape: Sequence[int] = ()
    nullable: bool = False
    logical: str = ""
    categories: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StreamInfo:
    """The context of a stream. `max_record` is the largest record that the channel accepts, in
    bytes. `size` is the number of stored bytes of the object, if it is known; a compressed object
    has more bytes. `content_type` and `etag` are there if the object's store has them.
    `extensions` has more facts; ignore the keys that you don't know."""

    channel: str
    epoch: int
    object: str
    max_record: int
    size: int | None = None
    content_type: str | None = None
    etag: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)

    def is_planned(self) -> bool:
        """Whether the stream is shown the parts of a plan: see `Decoder.plan`."""
        return "planned" in self.extensions

    def companions(self) -> list[int]:
        """The sizes of the object's companions in bytes, in their order, for `Decoder.plan`."""
        return [int(size) for size in self.extensions.get("companions", "").split()]


@dataclass(frozen=True)
class Progress:
    """The result of `decode`: `consumed` bytes of the chunk are finished. `need` is the smallest
    number of bytes, counted from the first unconsumed one, with which the next call can make
    progress; 0 if that is not known. With `more`, the bytes after the consumed ones have more
    records than were emitted: `decode` is called again with exactly these bytes. Such a call must
    have emitted a record or consumed something. It is for compressed blocks."""

    consumed: int
    need: int = 0
    more: bool = False


@dataclass(frozen=True)
class Resync:
    """The result of `resync`: no record starts in the `consumed` bytes. `found` says whether a
    record starts right after them."""

    consumed: int
    found: bool


class DecodeError(Exception):
    """A record that can't be decoded: raise it from `decode`. `offset` is the start of the bad
    record. With `resume_at`, decoding continues there. With `search_from`, `resync` searches for
    the next record from there on. Without both, decoding can't continue in this object. `refused`
    says that the decoder does not support the input, or that it does not fit the options: the
    channel then fails, regardless of the operator's policy for bad records. All offsets count from
    the start of the chunk."""

    def __init__(
        self,
        offset: int,
        message: str,
        *,
        resume_at: int | None = None,
        search_from: int | None = None,
        refused: bool = False,
    ) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message
        self.resume_at = resume_at
        self.search_from = search_from
        self.refused = refused


@dataclass(frozen=True)
class Range:
    """`length` bytes from byte `offset` on: of the object if `of` is 0, else of its companion with
    this number, from 1."""

    offset: int
    length: int
    of: int = 0


@dataclass(frozen=True)
class Piece:
    """Bytes that the host has read for a plan: those of a `Range`."""

    of: int
    offset: int
    bytes: builtins.bytes


@dataclass(frozen=True)
class Companion:
    """An object whose name ends with `object`, such as ".bin", has a companion whose name has the
    end `companion`, such as ".idx", in place of it."""

    object: str
    companion: str


@dataclass(frozen=True)
class Part:
    """Bytes that a stream is shown one after the other: the context, which is your own and has all
    that `decode` must know of the directory, and then those of the ranges. Let the context begin
    with a mark. A stream may begin at any part.

    `records` is the number of records that `decode` emits of these bytes, if the directory says it.
    The host counts them, and another number is an error. `decode` then consumes all bytes of the
    part when it is shown them, without a byte of the next one."""

    context: bytes
    ranges: Sequence[Range]
    records: int | None = None


@dataclass(frozen=True)
class Read:
    """Call `Decoder.plan` again with these, too: 1 to 64 in a step, 32 MiB and 32 steps for an
    object."""

    ranges: Sequence[Range]


@dataclass(frozen=True)
class Parts:
    """The plan. With no parts, the object has no records."""

    parts: Sequence[Part]


class Decoder:
    """A decoder of one stream: one object, or one epoch of a FIFO. Derive one class from it.

    However the input is split into chunks, the records and the errors must be the same. Keep no
    part of a record between calls: leave its bytes unconsumed. The host passes them again, followed
    by more bytes.
    """

    OPTIONS: Sequence[OptionSpec] = ()
    """The options that the operator may set."""

    def __init__(self, options: Options, info: StreamInfo) -> None:
        """Starts a stream. `options` has the operator's values and the defaults. Raise a ValueError
        with a text for the operator: what is wrong and what would be right."""

    def schema(self) -> Sequence[Field] | None:
        """The fields of every record. Return None if only the input shows them: then call
        `out.set_schema` before the first record."""
        raise NotImplementedError

    def decode(self, chunk: bytes, end: bool, out: Records) -> Progress:
        """Emits the records that are completely in the chunk, and returns how many bytes are
        finished. With `end`, no byte follows the chunk; unconsumed bytes are then reported as an
        input that ends inside a record. For an empty object it is called once, with no bytes and
        `end`."""
        raise NotImplementedError

    def resync(self, chunk: bytes, end: bool) -> Resync:
        """Searches for the next record after an error with `search_from`. `chunk` starts there."""
        return Resync(len(chunk), False)

    # --- Optional: what a class does not define, the host does not ask for. docs/interface.md has
    # the rules of each.

    @classmethod
    def plan(cls, options: Options, info: StreamInfo, seen: Sequence[Piece]) -> Read | Parts | None:
        """Chooses the bytes of an object that `decode` is shown, in steps: `seen` has the ranges
        that earlier steps have asked for, in their order; nothing in the first one. The object has
        `info.size` bytes. None shows it as without a plan. The answer depends on nothing but the
        arguments. Objects that can't be read at any place (pipes, compressed files) have no plan:
        `decode` is shown them as they are.

        A ValueError is for an object that the decoder refuses; the channel fails. For one that is
        damaged, make a part whose context says so, and let `decode` report it."""
        raise NotImplementedError

    @classmethod
    def companions(cls, options: Options) -> Sequence[Companion]:
        """Objects beside each object that belong to it, at most 4. With `plan` only."""
        return ()

    @classmethod
    def prepare(cls, options: Options, files: Mapping[str, bytes]) -> Any:
        """Makes what all streams of a channel have in common: they find it in `options.prepared`.
        `files` has the content of the files that options of the kind "file" name. It is called
        before the first stream; a host that knows only an earlier version of the interface never
        does. It depends on nothing but its arguments. Raise a ValueError with a text for the
        operator."""
        raise NotImplementedError

    def save(self) -> bytes | None:
        """What another stream must know to go on after the bytes that the last call of `decode`
        consumed: at most 64 KiB, better a few hundred bytes, which begin with a version of your
        own. None: it can't go on there. The call changes nothing."""
        return None

    @classmethod
    def load(cls, options: Options, info: StreamInfo, saved: bytes) -> Decoder:
        """Makes a decoder that gets the bytes after the place at which another one was saved, and
        emits the same records as that one. `saved` may have been changed by others, so check it.
        Raise a ValueError with a text for the operator."""
        raise NotImplementedError


@dataclass(frozen=True)
class Block:
    """Decompressed bytes. `last` says whether the block ends with them."""

    bytes: builtins.bytes
    last: bool
    # Their start in the payload of the call.
    base: int


@dataclass(frozen=True)
class Made:
    """A place in the bytes that the decoder made, for a `Column`."""

    begin: int
    end: int


@dataclass(frozen=True)
class Column:
    """The values of one field of many records, for `Records.columns`. A place is `pack(begin, end)`
    in the chunk, `Made(begin, end)`, or `Records.span_in(block, begin, end)`.

    `values` lie one after the other; a record that lacks the field has one, too. `offsets` says
    where each value begins and ends in them: one more 32-bit little-endian number than there are
    records, none less than the one before it; None if all have the size of the field's type.
    `present` has a bit for each record, the lowest one first, set if it has the field; None if all
    have it."""

    values: int | Made
    offsets: int | Made | None = None
    present: int | Made | None = None


def pack(begin: int, end: int) -> int:
    """The span of the bytes of the chunk from `begin` up to `end`."""
    return begin << 32 | end - begin


# The bit of a span that is set if the bytes are in the payload, and the span of an absent field.
IN_PAYLOAD = 1 << 63
ABSENT = (1 << 64) - 1
# Number of spans, and bytes of payload, at which they are passed to the host.
FLUSH_SPANS = 4096
FLUSH_PAYLOAD = 64 << 10
# Largest number of bytes for which `decompress` can ask.
MAX_BYTES = (1 << 32) - 1


class Records:
    """The records that a decoder emits. They are passed to the host a few thousand at a time.

    A record of one field is one call, of `span` or `bytes`. A record of several fields is one call
    for each field, in the order of the schema, then `end_record`. Offsets count from the start of
    the chunk; `start` is the start of the record, including its framing.
    """

    def __init__(self, host: Any, offsets: bool) -> None:
        self._host = host
        self._offsets = offsets
        self._schema: Sequence[Field] = ()
        self._fields = 0
        self.begin_call()

    def begin_call(self) -> None:
        """For pipemill_guest.py: begins a call of `decode`."""
        # The bytes that this call has passed to the host, or received from it.
        self._base = 0
        self._clear()

    def _clear(self) -> None:
        self._spans: builtins.list[int] = []
        self._payload = bytearray()
        self._starts: builtins.list[int] = []
        self._whole_spans = self._whole_payload = self._whole_records = 0

    def set_schema(self, fields: Sequence[Field]) -> None:
        """Sets the fields of every record: once, before the first record. See `Decoder.schema`."""
        if self._schema:
            raise RuntimeError("the schema was set twice")
        self._schema = fields
        self._fields = len(fields)
        self._host.set_schema(fields)

    def set_metadata(self, key: str, value: str) -> None:
        """Reports a fact about the object to the consumers, before the first record.

        The key "pipemill.restart" is for the host, at any time: with the value "0", decoding can
        restart at the end of the bytes that this and later calls consume. With a header of N bytes,
        which must be passed first, it is N."""
        self._host.set_metadata(key, value)

    # --- Records of one field

    def span(self, start: int, begin: int, end: int) -> None:
        """Emits a record of one field: the bytes of the chunk from `begin` up to `end`, without
        `end`."""
        # The same as `field` and `end_record`, without the cost of two calls.
        self._spans.append(begin << 32 | end - begin)
        spans = len(self._spans)
        if spans - self._whole_spans != self._fields:
            self._wrong_fields()
        if self._offsets:
            self._starts.append(start)
        self._whole_records += 1
        self._whole_spans = spans
        if spans >= FLUSH_SPANS:
            self.flush()

    def bytes(self, start: int, value: builtins.bytes) -> None:
        """Emits a record of one field whose bytes the decoder made."""
        self.field_bytes(value)
        self.end_record(start)

    # --- The next field of a record of several

    def field(self, begin: int, end: int) -> None:
        """Adds a part of the chunk."""
        self._spans.append(begin << 32 | end - begin)

    def field_in(self, block: Block, begin: int, end: int) -> None:
        """Adds a part of a decompressed block. It is not copied again."""
        self._spans.append(self.span_in(block, begin, end))

    def field_bytes(self, value: builtins.bytes) -> None:
        """Adds bytes that the decoder made."""
        self._spans.append(IN_PAYLOAD | self._base + len(self._payload) << 32 | len(value))
        self._payload += value

    def text(self, value: str) -> None:
        """Adds text."""
        self.field_bytes(value.encode())

    def list(self, elements: Sequence[builtins.bytes | str]) -> None:
        """Adds a list of bytes or text."""
        parts = [part.encode() if isinstance(part, str) else part for part in elements]
        first = 4 * (len(parts) + 1)
        offsets = accumulate(map(len, parts), initial=first)
        self.field_bytes(struct.pack(f"<{len(parts) + 1}I", *offsets) + b"".join(parts))

    def absent(self) -> None:
        """Adds the field without a value; the field must be nullable."""
        index = self.fields_so_far()
        if index < self._fields and not self._schema[index].nullable:
            name = self._schema[index].name
            raise RuntimeError(f"field `{name}` is absent, but it is not declared nullable")
        self._spans.append(ABSENT)

    def bool(self, value: builtins.bool) -> None:
        """Adds a boolean. The methods below add one number each."""
        self.field_bytes(b"\1" if value else b"\0")

    def i8(self, value: int) -> None:
        self.field_bytes(struct.pack("<b", value))

    def i16(self, value: int) -> None:
        self.field_bytes(struct.pack("<h", value))

    def i32(self, value: int) -> None:
        self.field_bytes(struct.pack("<i", value))

    def i64(self, value: int) -> None:
        self.field_bytes(struct.pack("<q", value))

    def u8(self, value: int) -> None:
        self.field_bytes(struct.pack("<B", value))

    def u16(self, value: int) -> None:
        self.field_bytes(struct.pack("<H", value))

    def u32(self, value: int) -> None:
        self.field_bytes(struct.pack("<I", value))

    def u64(self, value: int) -> None:
        self.field_bytes(struct.pack("<Q", value))

    def f32(self, value: float) -> None:
        self.field_bytes(struct.pack("<f", value))

    def f64(self, value: float) -> None:
        self.field_bytes(struct.pack("<d", value))

    def i8s(self, values: Sequence[int]) -> None:
        """Adds several numbers, as the methods below."""
        self.field_bytes(struct.pack(f"<{len(values)}b", *values))

    def i16s(self, values: Sequence[int]) -> None:
        self.field_bytes(struct.pack(f"<{len(values)}h", *values))

    def i32s(self, values: Sequence[int]) -> None:
        self.field_bytes(struct.pack(f"<{len(values)}i", *values))

    def i64s(self, values: Sequence[int]) -> None:
        self.field_bytes(struct.pack(f"<{len(values)}q", *values))

    def u8s(self, values: Sequence[int]) -> None:
        self.field_bytes(struct.pack(f"<{len(values)}B", *values))

    def u16s(self, values: Sequence[int]) -> None:
        self.field_bytes(struct.pack(f"<{len(values)}H", *values))

    def u32s(self, values: Sequence[int]) -> None:
        self.field_bytes(struct.pack(f"<{len(values)}I", *values))

    def u64s(self, values: Sequence[int]) -> None:
        self.field_bytes(struct.pack(f"<{len(values)}Q", *values))

    def f32s(self, values: Sequence[float]) -> None:
        self.field_bytes(struct.pack(f"<{len(values)}f", *values))

    def f64s(self, values: Sequence[float]) -> None:
        self.field_bytes(struct.pack(f"<{len(values)}d", *values))

    def end_record(self, start: int) -> None:
        """Ends the record, after its last field."""
        spans = len(self._spans)
        if spans - self._whole_spans != self._fields:
            self._wrong_fields()
        if self._offsets:
            self._starts.append(start)
        self._whole_records += 1
        self._whole_spans = spans
        self._whole_payload = payload = len(self._payload)
        if spans >= FLUSH_SPANS or payload >= FLUSH_PAYLOAD:
            self.flush()

    def fields_so_far(self) -> int:
        """Number of fields of the unfinished record."""
        return len(self._spans) - self._whole_spans

    def abandon_record(self) -> None:
        """Removes the fields of the unfinished record."""
        del self._spans[self._whole_spans :], self._payload[self._whole_payload :]

    def flush(self) -> None:
        """Passes the records to the host, and abandons an unfinished one. You need not call
        this."""
        self.abandon_record()
        if self._whole_records:
            payload = builtins.bytes(self._payload)
            self._host.emit(self._whole_records, self._spans, payload, self._starts)
            self._base += len(payload)
        self._clear()

    def _wrong_fields(self) -> NoReturn:
        given, fields = self.fields_so_far(), self._fields
        if not fields:
            raise RuntimeError("a record was emitted before the schema was set: see set_schema")
        if given < fields:
            name = self._schema[given].name
            raise RuntimeError(
                f"a record was ended after {given} of its {fields} fields: `{name}` is missing; "
                "call absent for a field without a value"
            )
        raise RuntimeError(
            f"a record was ended after {given} values, but the schema has {fields} fields; the "
            f"last one is `{self._schema[-1].name}`"
        )

    # --- Many records, field by field

    def columns(
        self,
        records: int,
        columns: Sequence[Column],
        made: builtins.bytes = b"",
        start: int = 0,
    ) -> None:
        """Emits many records at once: one column for each field of the schema. `made` has the bytes
        that you made. Let a column of them begin at a multiple of 64, so that consumers need not
        copy it. All records begin at `start`, as those of a compressed block do. Emit thousands of
        records in a call: this is much faster than a call for each value."""
        if self.fields_so_far():
            raise RuntimeError("columns was called inside a record")
        if len(columns) != self._fields:
            raise RuntimeError(f"{len(columns)} columns for {self._fields} fields")
        self.flush()
        if made:
            # The host puts it at a multiple of 64 bytes.
            self._base = -(-self._base // 64) * 64

        def span(place: int | Made | None) -> int:
            if isinstance(place, Made):
                return IN_PAYLOAD | pack(self._base + place.begin, self._base + place.end)
            return place or 0

        spans = [(span(it.values), span(it.offsets), span(it.present)) for it in columns]
        self._host.emit_columns(records, spans, made, start)
        self._base += len(made)

    # --- Bad places, compressed blocks, checksums, log

    def bad(self, begin: int, end: int, message: str) -> None:
        """Reports that the bytes of the chunk from `begin` up to `end` can't be decoded. An
        unfinished record is abandoned. After this, continue at `end`. If the host says that the
        stream ends here, this raises the DecodeError."""
        self.flush()
        if not self._host.bad(begin, end, message):
            raise DecodeError(begin, message, resume_at=end)

    def decompress(self, codec: str, begin: int, end: int) -> Block:
        """Decompresses a block: the bytes of the chunk from `begin` up to `end`. The codec is
        "deflate" (without a header), "zlib", "gzip", "zstd", "lz4" (a frame), "lz4-block" (one block
        without framing), "brotli" or "snappy" (one block without framing). Raises a ValueError that says what is wrong with the block. Don't call it
        between the fields of a record.

        If `Block.last` is false, the block has more bytes than `limits.output` leaves for this
        call."""
        return self.decompress_part(codec, begin, end, 0, MAX_BYTES)

    def decompress_part(self, codec: str, begin: int, end: int, skip: int, max: int) -> Block:
        """As `decompress`: at most `max` of the decompressed bytes, after the first `skip`, for
        blocks of any size. Emit the records that are complete in a part. The next part begins at
        the first record that was not complete. After some parts return a `Progress` with `more`.
        Always ask for the same `max`, so that the parts do not depend on how the input was
        split."""
        if self.fields_so_far():
            raise RuntimeError("decompress was called inside a record")
        self.flush()
        base = self._base
        data, last = self._parts(self._host.decompress, codec, begin, end, skip, max)
        self._base += len(data)
        return Block(data, last, base)

    def read_block(
        self, codec: str, begin: int, end: int, skip: int = 0, max: int = MAX_BYTES
    ) -> tuple[builtins.bytes, builtins.bool]:
        """As `decompress_part`, for decoders that make other values of the bytes: no field can
        refer to them, and they don't count against `limits.output`. Returns them, and whether the
        block ends with them."""
        return self._parts(self._host.read_block, codec, begin, end, skip, max)

    @staticmethod
    def _parts(
        read: Any, codec: str, begin: int, end: int, skip: int, max: int
    ) -> tuple[builtins.bytes, builtins.bool]:
        parts, size, last = [], 0, False
        # The host returns a part of the block at a time.
        while size < max and not last:
            data, last = read(codec, pack(begin, end), skip + size, max - size)
            if not data and not last:
                break
            parts.append(data)
            size += len(data)
        return b"".join(parts), last

    def check_crc32c(self, spans: Sequence[int], expected: Sequence[int]) -> int | None:
        """Index of the first span whose CRC-32C differs from the expected one; None if all are as
        expected. A span is `pack(begin, end)` in the chunk, or one of `span_in`."""
        index: int | None = self._host.check_crc32c(list(spans), list(expected))
        return index

    def check_crc32(self, spans: Sequence[int], expected: Sequence[int]) -> int | None:
        """As `check_crc32c`, with the CRC-32 of gzip and PNG."""
        index: int | None = self._host.check_crc32(list(spans), list(expected))
        return index

    @staticmethod
    def span_in(block: Block, begin: int, end: int) -> int:
        """The span of the bytes of a block from `begin` up to `end`."""
        if not 0 <= begin <= end <= len(block.bytes):
            raise ValueError(f"from {begin} to {end} of a block of {len(block.bytes)} bytes")
        return IN_PAYLOAD | block.base + begin << 32 | end - begin

    def log(self, level: int, message: str) -> None:
        """Writes a line to the host's log, for the operator."""
        self._host.log(level, message)
