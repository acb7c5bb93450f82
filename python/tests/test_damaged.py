"""Slots with random damage: the reader says what is wrong, or returns what the bytes say. It never
reads outside of the batch, and fails in no other way. The expected values are read here from
docs/ring.md alone."""

from __future__ import annotations

import os
import struct
import tempfile
from typing import Any

from fakehost import LISTED, FakeHost, Peer, Rows, list_value, up
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pipemill

FIELDS = [
    ("blob", "bytes", [], {"nullable": True}),
    ("text", "utf8", []),
    ("pair", "float32", [2]),
    ("open", "int16", [0]),
    ("list", "bytes", [0]),
    ("kind", "uint8", [], {"categories": ["a", "b"]}),
    ("flag", "boolean", []),
]
ROWS: list[tuple[bytes | None, ...]] = [
    (b"abc", "ä".encode(), bytes(8), b"\1\0", list_value([b"x", b"yz"]), b"\0", b"\1"),
    (None, b"", bytes(8), b"\1\0\2\0", list_value([]), b"\1", b"\0"),
    (b"", b"text", bytes(8), b"", list_value([b""]), b"\0", b"\1"),
]
#: Bytes of a batch of these rows, and some after it.
SIZE = 824
#: The damage: bytes of any kind; numbers that are near a limit.
NUMBERS = st.sampled_from([0, 1, 3, 4, 127, 128, 129, 2**16, 2**31, 2**32 - 1, 2**32, 2**64 - 1])
PARTS = st.one_of(
    st.binary(min_size=1, max_size=8),
    NUMBERS.map(lambda number: struct.pack("<Q", number)),
    NUMBERS.map(lambda number: struct.pack("<I", number % 2**32)),
)
#: Fields of the header begin at multiples of 4, and so do the index's entries.
PLACES = st.one_of(
    st.integers(0, 18).map(lambda at: 4 * at),
    st.integers(0, SIZE // 4).map(lambda at: 4 * at),
    st.integers(0, SIZE),
)
DAMAGE = st.lists(st.tuples(PLACES, PARTS), min_size=1, max_size=3)


def read(batch: pipemill.Batch) -> None:
    """Uses all of the batch."""
    assert isinstance(batch.object, str)
    tried(lambda: batch.metadata)
    for name, *_ in FIELDS:
        tried(lambda name=name: list(batch[name]))
        tried(lambda name=name: batch.column(name, absent=b""))
    for record in batch:
        for name, *_ in FIELDS:
            tried(lambda record=record, name=name: record[name])


def tried(use: Any) -> Any:
    """The values of the reader; None if it refuses the batch in one of the ways that the
    documentation names.
    """
    try:
        return use()
    except (pipemill.PipemillError, UnicodeDecodeError):
        return None


def check_blobs(batch: pipemill.Batch) -> None:
    """The first field has the values that the bytes say."""
    found = tried(lambda: batch["blob"])
    if found is not None:
        assert [None if one is None else bytes(one) for one in found] == blobs(bytes(batch._memory))


def blobs(data: bytes) -> list[bytes | None]:
    """The first field of each record, by the layout."""
    (records,) = struct.unpack_from("<I", data, 24)
    (payload_at,) = struct.unpack_from("<Q", data, 32)
    (index_at,) = struct.unpack_from("<Q", data, 48)
    (fields,) = struct.unpack_from("<I", data, 28)
    lists, size = struct.unpack_from("<II", data, index_at)
    if size != LISTED:
        offsets, lengths = [lists + size * row for row in range(records)], [size] * records
    else:
        lists_at = index_at + up(8 * fields) + 2 * lists * up(4 * records)
        offsets = struct.unpack_from(f"<{records}I", data, lists_at)
        lengths = struct.unpack_from(f"<{records}I", data, lists_at + up(4 * records))
    return [
        None if offset == 0xFFFFFFFF else data[payload_at + offset :][:length]
        for offset, length in zip(offsets, lengths)
    ]


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(DAMAGE, st.booleans(), st.booleans())
@example([], False, False)
@example([], False, True)
@example([(24, struct.pack("<I", 2**32 - 1))], True, True)
def test_a_damaged_slot_is_read_as_it_is_or_refused(
    damage: list[tuple[int, bytes]], dedicated: bool, even: bool
) -> None:
    def script(peer: Peer) -> None:
        peer.welcome(FIELDS)
        facts = b'{"k": "v"}'
        peer.grant(Rows(ROWS, even=even, dedicated=dedicated, metadata=facts, damage=damage))
        peer.linger()

    with tempfile.TemporaryDirectory(prefix="pipemill-") as folder:
        path = os.path.join(folder, "host.sock")
        with FakeHost(path, script), pipemill.connect("train", path) as stream:
            batch = tried(lambda: next(stream))
            assert damage or batch is not None, "a batch without damage is read"
            if batch is not None:
                check_blobs(batch)
                read(batch)
            del batch
