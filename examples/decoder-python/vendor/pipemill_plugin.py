"""The contract of a decoder, in Python. Nothing here depends on WebAssembly, so a decoder also runs
natively."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

BYTES, UTF8, BOOLEAN, INT32, INT64, FLOAT32, FLOAT64 = range(7)
"""Types of one element of a field. Numbers are little-endian, a boolean is one byte, 0 or 1."""

DEBUG, INFO, WARN, ERROR = range(1, 5)
"""The severities of a log line."""


@dataclass(frozen=True)
class Option:
    """An option that the operator may set. `kind` is "string", "bool", "int" or "choice:a|b|c"."""

    name: str
    kind: str
    default: str | None
    help: str


@dataclass(frozen=True)
class Field:
    """One field of every record. `shape` is empty for a single element. A dimension of 0 means any
    size: it follows from the length of each value."""

    name: str
    scalar: int = BYTES
    shape: Sequence[int] = ()


@dataclass(frozen=True)
class StreamInfo:
    """The context of a stream. `max_record` is the largest record that the channel accepts, in
    bytes."""

    channel: str
    epoch: int
    object: str
    max_record: int


@dataclass(frozen=True)
class Progress:
    """The result of `decode`: `consumed` bytes of the chunk are done with. `need` is the least
    number of bytes, counted from the first unconsumed one, with which the next call can get
    further; 0 if that is not known."""

    consumed: int
    need: int = 0


@dataclass(frozen=True)
class Resync:
    """The result of `resync`: no record starts in the `consumed` bytes. `found` says whether a
    record starts right after them."""

    consumed: int
    found: bool


class DecodeError(Exception):
    """A record that can't be decoded: raise it from `decode`. `offset` is where the bad record
    starts. With `resume_at`, decoding goes on there. With `search_from`, `resync` searches for the
    next record from there on. Without both, decoding can't go on in this object. `refused` says that
    the decoder does not support the input, or that it does not fit the options: then the channel
    fails, whatever the operator chose for bad records. All offsets count from the start of the
    chunk."""

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


class Decoder:
    """A decoder of one stream: one object, or one epoch of a FIFO. Derive one class from it.

    However the input is split into chunks, the records and the errors must be the same. Keep no
    part of a record between calls: leave its bytes unconsumed. They are shown again, followed by
    more bytes.
    """

    OPTIONS: Sequence[Option] = ()
    """The options that the operator may set."""

    def __init__(self, options: dict[str, str], info: StreamInfo) -> None:
        """Starts a stream. `options` has the operator's values and the defaults. Raise a ValueError
        with a text for the operator: what is wrong and what would be right."""

    def schema(self) -> Sequence[Field] | None:
        """The fields of every record. Return None if only the input tells them: then call
        `out.set_schema` before the first record."""
        raise NotImplementedError

    def decode(self, chunk: bytes, end: bool, out: Records) -> Progress:
        """Emits the records that lie whole in the chunk, and returns how many bytes are done with.
        With `end`, no byte follows the chunk; unconsumed bytes are then reported as an input that
        ends inside a record."""
        raise NotImplementedError

    def resync(self, chunk: bytes, end: bool) -> Resync:
        """Looks for the next record after an error with `search_from`. `chunk` starts there."""
        return Resync(len(chunk), False)


# The bit of a span that is set if the bytes are in the payload, and the span of an absent field.
IN_PAYLOAD = 1 << 63
ABSENT = (1 << 64) - 1
# Number of spans, and bytes of payload, at which they are passed to the host.
FLUSH_SPANS = 4096
FLUSH_PAYLOAD = 64 << 10


class Records:
    """The records that a decoder emits. They are passed to the host a few thousand at a time.

    A record of one field is one call, of `span` or `made`. A record of several fields is one call
    of `field`, `field_made` or `absent` for each field, in the order of the schema, then
    `end_record`. Offsets count from the start of the chunk; `start` is where the record begins, its
    framing included.
    """

    def __init__(self, host: Any, offsets: bool) -> None:
        self._host = host
        self._offsets = offsets
        self._clear()

    def _clear(self) -> None:
        self._spans: list[int] = []
        self._payload = bytearray()
        self._starts: list[int] = []
        self._whole_spans = self._whole_payload = self._whole_records = 0

    def set_schema(self, fields: Sequence[Field]) -> None:
        """Sets the fields of every record: once, before the first record. See `Decoder.schema`."""
        self._host.set_schema(fields)

    def span(self, start: int, begin: int, end: int) -> None:
        """Emits a record of one field: the bytes of the chunk from `begin` up to `end`, without
        `end`."""
        # The same as `field` and `end_record`, without the cost of two calls.
        self._spans.append(begin << 32 | end - begin)
        if self._offsets:
            self._starts.append(start)
        self._whole_records += 1
        self._whole_spans = spans = len(self._spans)
        if spans >= FLUSH_SPANS:
            self.flush()

    def made(self, start: int, value: bytes) -> None:
        """Emits a record of one field whose bytes the decoder made."""
        self.field_made(value)
        self.end_record(start)

    def field(self, begin: int, end: int) -> None:
        """Adds the next field of the record: a part of the chunk."""
        self._spans.append(begin << 32 | end - begin)

    def field_made(self, value: bytes) -> None:
        """Adds the next field of the record: bytes that the decoder made."""
        self._spans.append(IN_PAYLOAD | len(self._payload) << 32 | len(value))
        self._payload += value

    def absent(self) -> None:
        """Adds the next field of the record, without a value."""
        self._spans.append(ABSENT)

    def end_record(self, start: int) -> None:
        """Ends the record, after its last field."""
        if self._offsets:
            self._starts.append(start)
        self._whole_records += 1
        self._whole_spans = spans = len(self._spans)
        self._whole_payload = payload = len(self._payload)
        if spans >= FLUSH_SPANS or payload >= FLUSH_PAYLOAD:
            self.flush()

    def flush(self) -> None:
        """Passes the records to the host, except one that was not ended. You need not call this."""
        spans, payload = self._whole_spans, self._whole_payload
        if spans:
            made = bytes(self._payload[:payload])
            self._host.emit(self._whole_records, self._spans[:spans], made, self._starts)
        self._clear()

    def check_crc32c(self, spans: Sequence[tuple[int, int]], expected: Sequence[int]) -> int | None:
        """Index of the first span (begin, end) of the chunk whose CRC-32C differs from the expected
        one; None if all are as expected."""
        return self._host.check_crc32c([b << 32 | e - b for b, e in spans], list(expected))

    def log(self, level: int, message: str) -> None:
        """Writes a line to the host's log, for the operator."""
        self._host.log(level, message)
