"""What a decoder is, in Python. Nothing here knows of WebAssembly: decoders can be tried natively."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

BYTES, UTF8, BOOLEAN, INT32, INT64, FLOAT32, FLOAT64 = range(7)
"""Types of one element of a field. Numbers are little-endian, a boolean is one byte, 0 or 1."""

DEBUG, INFO, WARN, ERROR = range(1, 5)
"""How loud a line in the log is."""


@dataclass(frozen=True)
class Option:
    """An option that the operator may set. `kind` is "string", "bool", "int" or "choice:a|b|c"."""

    name: str
    kind: str
    default: str | None
    help: str


@dataclass(frozen=True)
class Field:
    """One field of every record. `shape` is empty for a single element; a dimension of 0 is told by
    the length of each field."""

    name: str
    scalar: int = BYTES
    shape: Sequence[int] = ()


@dataclass(frozen=True)
class StreamInfo:
    """What stream is opened. `max_record`, in bytes, is the largest record that the channel takes."""

    channel: str
    epoch: int
    object: str
    max_record: int


@dataclass(frozen=True)
class Progress:
    """How far a call came: `consumed` bytes of the chunk are done with. `need` is the least number of
    bytes, counted from there, with which the next call can get further; 0 if that is not known."""

    consumed: int
    need: int = 0


@dataclass(frozen=True)
class Resync:
    """`consumed` bytes hold no start of a record; `found` says that one starts right behind them."""

    consumed: int
    found: bool


class DecodeError(Exception):
    """A place that can't be decoded: raise it from `decode`. `offset` is where in the chunk the bad
    record starts. Without `resume_at` or `search_from`, decoding can't go on in this object; with the
    first it goes on there, with the second where `resync` finds a record from there on. Both count
    from the start of the chunk."""

    def __init__(
        self,
        offset: int,
        message: str,
        *,
        resume_at: int | None = None,
        search_from: int | None = None,
    ) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message
        self.resume_at = resume_at
        self.search_from = search_from


class Decoder:
    """A decoder of one stream: one object, or one epoch of a FIFO. Derive one class from it.

    However the input is split into chunks, the records must be the same. Keep no part of a record
    between calls: leave its bytes unconsumed, and they are shown again with more behind them.
    """

    OPTIONS: Sequence[Option] = ()
    """The options that the operator may set."""

    def __init__(self, options: dict[str, str], info: StreamInfo) -> None:
        """Starts a stream. `options` has the operator's values and the defaults. A ValueError is for
        the operator: say what is wrong and what would be right."""

    def schema(self) -> Sequence[Field] | None:
        """The fields of every record. None where only the input tells them: then call
        `out.set_schema` before the first record."""
        raise NotImplementedError

    def decode(self, chunk: bytes, end: bool, out: Records) -> Progress:
        """Emits the records that lie whole in the chunk and says how far it came. With `end`, no byte
        follows the chunk; what is left unconsumed then is reported as an input that ends inside a
        record."""
        raise NotImplementedError

    def resync(self, chunk: bytes, end: bool) -> Resync:
        """After an error with `search_from`: looks for the next record, in the bytes from there on."""
        return Resync(len(chunk), False)


MADE = 1 << 63
ABSENT = (1 << 64) - 1
FLUSH_SPANS = 4096
FLUSH_PAYLOAD = 64 << 10


class Records:
    """The records of a stream, on their way to the host, a few thousand at a time.

    A record of one field is one call, `span` or `made`. A record of several is a call of `field`,
    `field_made` or `absent` for each, in the order of the schema, then `end_record`. Places are
    counted from the start of the chunk; `start` is where the record begins, its framing included.
    """

    def __init__(self, host: Any, offsets: bool) -> None:
        self._host = host
        self._offsets = offsets
        self._forget()

    def _forget(self) -> None:
        self._spans: list[int] = []
        self._payload = bytearray()
        self._starts: list[int] = []
        self._whole_spans = self._whole_payload = 0

    def set_schema(self, fields: Sequence[Field]) -> None:
        """Says the fields of every record: once, before the first. See `Decoder.schema`."""
        self._host.set_schema(fields)

    def span(self, start: int, begin: int, end: int) -> None:
        """A record of one field that lies in the chunk, from `begin` to before `end`."""
        # As `field` and `end_record`, without the time of two calls.
        self._spans.append(begin << 32 | end - begin)
        if self._offsets:
            self._starts.append(start)
        self._whole_spans = spans = len(self._spans)
        if spans >= FLUSH_SPANS:
            self.flush()

    def made(self, start: int, value: bytes) -> None:
        """A record of one field whose bytes the decoder made."""
        self.field_made(value)
        self.end_record(start)

    def field(self, begin: int, end: int) -> None:
        """The next field of the record: bytes of the chunk."""
        self._spans.append(begin << 32 | end - begin)

    def field_made(self, value: bytes) -> None:
        """The next field of the record: bytes that the decoder made."""
        self._spans.append(MADE | len(self._payload) << 32 | len(value))
        self._payload += value

    def absent(self) -> None:
        """The next field of the record has no value."""
        self._spans.append(ABSENT)

    def end_record(self, start: int) -> None:
        """The record is whole."""
        if self._offsets:
            self._starts.append(start)
        self._whole_spans = spans = len(self._spans)
        self._whole_payload = payload = len(self._payload)
        if spans >= FLUSH_SPANS or payload >= FLUSH_PAYLOAD:
            self.flush()

    def flush(self) -> None:
        """Hands over what was gathered, but for a record that was not ended. Called by itself."""
        spans, payload = self._whole_spans, self._whole_payload
        if spans:
            self._host.emit(self._spans[:spans], bytes(self._payload[:payload]), self._starts)
        self._forget()

    def check_crc32c(self, spans: Sequence[tuple[int, int]], expected: Sequence[int]) -> int | None:
        """Index of the first span (begin, end) of the chunk whose CRC-32C is not the one expected."""
        return self._host.check_crc32c([b << 32 | e - b for b, e in spans], list(expected))

    def log(self, level: int, message: str) -> None:
        """A line for the operator, in the host's log."""
        self._host.log(level, message)
