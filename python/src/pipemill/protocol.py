"""Messages and slot headers as docs/ring.md describes them, version 2. Every number is checked."""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple, Tuple  # noqa: UP035

from .errors import BY_KIND, DecodeError, ProtocolError, Refused

VERSION = 2
#: The longest message, in bytes.
MAX_MESSAGE = 196_608

HELLO, ACK, RELEASE, END_EPOCH, VIEWS = 1, 2, 3, 4, 6
WELCOME, REFUSED, SCHEMA, GRANT, EPOCH_END, STREAM_END, ERROR = 16, 17, 18, 19, 20, 21, 22
LARGER_SLOTS = 24

TYPE = struct.Struct("<I")
GRANTS = struct.Struct("<IQ")  # ACK or RELEASE of one grant
EPOCH = struct.Struct("<II")
#: A GRANT from its type on.
GRANT_MESSAGE = struct.Struct("<IQQQII")
#: LARGER_SLOTS from its type on: the size of a slot, the number of the first one, and how many.
LARGER_SLOTS_MESSAGE = struct.Struct("<IQII")
EPOCH_END_BODY = struct.Struct("<4xQQII")
#: A flag of EPOCH_END.
ENDED_EARLY = 1

#: The `slot` of a GRANT whose batch lies in a dedicated buffer.
DEDICATED = 0xFFFFFFFF

MAGIC = 0x33424D50
HEADER_BYTES = 128
HEADER = struct.Struct("<IIQIIIIQQQIIQQIIIIQQQII")
#: The same header in few parts: most of it is left as bytes.
HEAD = struct.Struct("<8sQII40s16s16s24s8s")
#: A header as `HEAD` reads it: magic and length, batch, epoch, flags, the places of the parts, and
#: then in turn the numbers of the first record.
Head = Tuple[bytes, int, int, int, bytes, bytes, bytes, bytes, bytes]
#: Flags of the header.
SOME_ABSENT = 1
#: The identity is the list of the places of a mix's inputs, as JSON.
HAS_INPUTS = 2
#: The views of all strings follow the index.
HAS_VIEWS = 4
#: The offset of a field that its record does not have.
ABSENT = 0xFFFFFFFF
#: Bytes of a field's entry in the table of the index.
ENTRY_BYTES = 8
#: The second number of the entry of a field that has lists.
LISTED = 0xFFFFFFFF


class Welcome(NamedTuple):
    """The host's answer to HELLO."""

    host: str
    mode: str
    slots: int
    slot_bytes: int
    credits: int
    #: Where the host's run resumes, if it resumed a state: a state without its settings.
    resumed: dict[str, Any] | None
    #: The settings that a state depends on.
    settings: dict[str, str]
    #: Whether the host understands VIEWS.
    views: bool = False
    #: The length of each epoch, if it is known and the same for all.
    length: Length | None = None


class Length(NamedTuple):
    """The length of each epoch of a channel."""

    #: Records that the channel reads, of all its consumers.
    records: int
    #: Batches of this rank, or of all consumers if these are no ranks.
    batches: int | None
    #: If the objects are divided into parts: as `batches`, of the part that has the fewest.
    least: int | None


class Grant(NamedTuple):
    """Slot ``slot`` holds batch ``batch``. ``kind`` is the type of the message."""

    kind: int
    grant: int
    batch: int
    bytes: int
    slot: int
    epoch: int

    @property
    def fd(self) -> int | None:
        """The descriptor of the dedicated buffer, if there is one."""
        return None


class DedicatedGrant(Grant):
    """A GRANT of a dedicated buffer, whose descriptor is not part of the message's body."""

    descriptor: int

    @property
    def fd(self) -> int:
        """The descriptor of the dedicated buffer."""
        return self.descriptor


class EpochEnd(NamedTuple):
    """The end of an epoch. The counts are those of the channel, not of this consumer."""

    batches: int
    records: int
    epoch: int
    flags: int


class Header(NamedTuple):
    """A slot's header. `check_header` checks that every part is within the batch's memory."""

    magic: int
    header_bytes: int
    batch: int
    epoch: int
    flags: int
    records: int
    fields: int
    payload_at: int
    payload_bytes: int
    index_at: int
    object_at: int
    object_bytes: int
    first_record: int
    object_offset: int
    metadata_at: int
    metadata_bytes: int
    padding: int
    restart_header: int
    object_number: int
    restart_offset: int
    restart_records: int
    identity_at: int
    identity_bytes: int


_new = tuple.__new__


def hello(channel: str, client: str, wishes: dict[str, Any]) -> bytes:
    """A HELLO. `wishes` are its other keys."""
    body: dict[str, Any] = {
        "protocol": VERSION,
        "channel": channel,
        "client": client,
        "larger_slots": True,
        **wishes,
    }
    try:
        text = json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        # Half of a character: the host reports the error.
        text = json.dumps(body).encode()
    message = TYPE.pack(HELLO) + text
    if len(message) > MAX_MESSAGE:
        raise ValueError(
            f"the state of channel {channel!r} takes {len(message)} bytes in a message, which "
            f"holds {MAX_MESSAGE}; it is none that state_dict() made"
        )
    return message


def parse_json(name: str, body: bytes) -> dict[str, Any]:
    """The JSON object that is the body of message `name`."""
    return _parse_object(f"the host's {name} message", body)


def parse_metadata(batch: str, data: bytes) -> dict[str, str]:
    """The facts in the slot of `batch`, which the error names."""
    value = _parse_object(f"the metadata of {batch}", data)
    if not is_text_map(value):
        raise ProtocolError(f"the metadata of {batch} does not map text to text: {value}; {REMEDY}")
    return value


def is_text_map(value: Any) -> bool:
    """Whether `value`, which was parsed from JSON, is an object whose values are all text."""
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def parse_welcome(body: bytes) -> Welcome:
    """A WELCOME. Its numbers are checked against what this reader can map."""
    value = parse_json("WELCOME", body)
    if value.get("protocol") != VERSION:
        raise ProtocolError(
            f"the host speaks version {value.get('protocol')!r} of the protocol, this package "
            f"speaks {VERSION}; install the Python package that came with the host "
            f"({value.get('host', 'of unknown version')})"
        )
    slots = _number("WELCOME", value, "slots", 0, DEDICATED - 1)
    slot_bytes = _number("WELCOME", value, "slot_bytes", HEADER_BYTES, 1 << 40)
    credits = _number("WELCOME", value, "credits", 1, 1 << 32)
    resumed = value.get("resumed")
    if resumed is not None:
        _check_resumed(resumed)
    settings = value.get("settings")
    if not isinstance(settings, dict) or not is_text_map(settings):
        raise ProtocolError(f"the host's WELCOME says settings = {settings!r}; {REMEDY}")
    host, mode = str(value.get("host")), str(value.get("mode"))
    views = value.get("views") is True
    length = _parse_length(value.get("length"))
    return Welcome(host, mode, slots, slot_bytes, credits, resumed, settings, views, length)


def _parse_length(value: Any) -> Length | None:
    if value is None:
        return None
    numbers = [value.get(key) for key in Length._fields] if isinstance(value, dict) else [None]
    if type(numbers[0]) is not int or any(type(one) not in (int, type(None)) for one in numbers):
        raise ProtocolError(f"the host's WELCOME says length = {value!r}; {REMEDY}")
    return Length(*numbers)


#: The position in a state: the keys with their types.
POSITION_KEYS: dict[str, type] = {
    "epoch": int,
    "batch": int,
    "object_number": int,
    "object": str,
    "identity": str,
    "header": int,
    "offset": int,
    "records": int,
    "first_record": int,
    "inputs": list,
}

#: The keys of a state about the last batch that was delivered, with their types.
STATE_KEYS = {
    "schema": str,
    "rank": int,
    "world": int,
    "delivered": int,
    **POSITION_KEYS,
}
#: A key of a state that is left out if it is 0: the batches right after the last one that other ranks
#: were given before the number of ranks changed.
PASSED = "passed"


def _check_resumed(value: Any) -> None:
    if isinstance(value, dict) and all(
        type(value.get(key)) is kind for key, kind in STATE_KEYS.items()
    ):
        return
    raise ProtocolError(f"the host's WELCOME says resumed = {value!r}; {REMEDY}")


def parse_error(body: bytes, channel: str) -> DecodeError:
    """The exception for an ERROR message."""
    return error_of(parse_json("ERROR", body), channel)


def error_of(value: dict[str, Any], channel: str) -> DecodeError:
    """The exception for a failure of a channel, as ERROR and STATUS have it."""
    kind = str(value.get("kind"))
    text = str(value.get("message") or f"the host ended channel {channel!r}: {kind} error")
    where = {key: value.get(key) for key in ("epoch", "object", "offset", "record", "decoder")}
    return BY_KIND.get(kind, DecodeError)(text, kind=kind, channel=channel, **where)


def parse_refused(body: bytes, channel: str) -> Refused:
    """The exception for a REFUSED message."""
    reason = parse_json("REFUSED", body).get("message")
    return Refused(f"the host refused channel {channel!r}: {reason}")


def parse_epoch_end(message: memoryview, size: int) -> EpochEnd:
    """An EPOCH_END, the first `size` bytes of `message`."""
    if size != EPOCH_END_BODY.size:
        raise ProtocolError(f"the host's EPOCH_END has {size} bytes, not 28; {REMEDY}")
    return EpochEnd(*EPOCH_END_BODY.unpack_from(message))


def header_of(head: Head) -> Header:
    """All numbers of a header."""
    # Header(*values) takes three times as long.
    return _new(Header, HEADER.unpack(HEAD.pack(*head)))


def check_header(head: Head, grant: Grant, fields: int) -> Header:
    """All numbers of a header of the batch that belongs to `grant` and must have `fields` fields.

    Raises `ProtocolError` if a part of the batch is outside of its `grant.bytes` bytes.
    """
    header = header_of(head)
    (
        magic, header_bytes, batch, epoch, _, n, k, payload_at, payload_bytes, index_at, object_at,
        object_bytes, _, _, metadata_at, metadata_bytes, padding, _, _, _, _, identity_at,
        identity_bytes,
    ) = header  # fmt: skip
    limit = grant.bytes
    if magic != MAGIC or header_bytes != HEADER_BYTES:
        wrong = f"starts with {magic:#x} and {header_bytes}, not {MAGIC:#x} and {HEADER_BYTES}"
    elif batch != grant.batch or epoch != grant.epoch:
        wrong = f"says that it is batch {batch} of epoch {epoch}"
    elif k != fields:
        wrong = f"has {k} fields, but the schema has {fields}"
    elif payload_at % 64 or payload_at < HEADER_BYTES or payload_at + payload_bytes > limit:
        wrong = f"has its payload at {payload_at}, {payload_bytes} bytes"
    elif index_at % 64 or index_at < HEADER_BYTES or index_at + ENTRY_BYTES * k > limit:
        wrong = f"has its index at {index_at}, for {k} fields"
    elif object_bytes and (object_at < HEADER_BYTES or object_at + object_bytes > limit):
        wrong = f"has its object's name at {object_at}, {object_bytes} bytes"
    elif metadata_bytes and (metadata_at < HEADER_BYTES or metadata_at + metadata_bytes > limit):
        wrong = f"has its metadata at {metadata_at}, {metadata_bytes} bytes"
    elif identity_bytes and (identity_at < HEADER_BYTES or identity_at + identity_bytes > limit):
        wrong = f"has its object's identity at {identity_at}, {identity_bytes} bytes"
    elif padding > n:
        wrong = f"has {n} records, of which {padding} are copies"
    else:
        return header
    raise ProtocolError(
        f"batch {grant.batch} of epoch {grant.epoch} in slot {grant.slot} ({limit} bytes) is not "
        f"laid out as version {VERSION} says: it {wrong}; {REMEDY}"
    )


def up(size: int) -> int:
    """The first multiple of 64 from `size` on: the parts of the index begin at one."""
    return (size + 63) // 64 * 64


REMEDY = "check that the host and this package are of the same version, and report it if they are"


def _parse_object(what: str, data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(str(data, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"{what} is not JSON: {error}; {REMEDY}") from None
    if not isinstance(value, dict):
        raise ProtocolError(f"{what} is not a JSON object; {REMEDY}")
    return value


def _number(name: str, value: dict[str, Any], key: str, minimum: int, maximum: int) -> int:
    number = value.get(key)
    if type(number) is not int or not minimum <= number <= maximum:
        raise ProtocolError(f"the host's {name} says {key} = {number!r}; {REMEDY}")
    return number
