"""What handing over a batch costs, counted and not timed: calls of the kernel, calls of Python, and
threads. And that a batch which is like the one before is read as any other."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
from collections import Counter
from typing import Any, Callable

import pytest
from fakehost import FakeHost, Peer, Rows
from hypothesis import given, settings
from hypothesis import strategies as st

import pipemill

#: Calls of methods of sockets, and of other functions that call the kernel.
KERNEL = {
    "recv", "recv_into", "recvmsg", "recvmsg_into", "send", "sendmsg", "poll", "select", "getpid",
    "open", "read", "pread", "close", "mmap", "munmap", "stat", "start_new_thread", "settimeout",
}  # fmt: skip
WARM, COUNTED = 8, 16
PAIR = [("pair", "float32", [2])]


def pairs(count: int) -> list[Rows]:
    return [Rows([(bytes([n, row] * 4),) for row in range(16)]) for n in range(count)]


def calls(use: Callable[[Any], object], batches: list[Rows], fields: Any = PAIR) -> Counter[str]:
    """The calls, by name, for `COUNTED` batches that have come before they are asked for."""
    here = threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome(fields)
        for batch in batches:
            peer.grant(batch)
        here.set()
        peer.linger()

    found: Counter[str] = Counter()

    def note(frame: Any, event: str, function: Any) -> None:
        if event == "c_call":
            found[function.__name__] += 1
        elif event == "call":
            found["Python"] += 1

    with tempfile.TemporaryDirectory(prefix="pipemill-") as folder:
        path = os.path.join(folder, "host.sock")
        with FakeHost(path, script, slots=len(batches) + 1) as _:
            with pipemill.connect("train", path, credits=len(batches)) as stream:
                assert here.wait(60)
                steps = iter(lambda: use(stream), None)
                for _ in range(WARM):
                    next(steps)
                threads = threading.active_count()
                sys.setprofile(note)
                for _ in range(COUNTED):
                    next(steps)
                sys.setprofile(None)
                assert threading.active_count() == threads
    return found


def check(found: Counter[str], kernel: dict[str, int], most: int) -> None:
    """`kernel`: the calls of the kernel for each batch. `most`: all calls for each batch, which
    differ somewhat between versions of Python."""
    count = {name: number for name, number in found.items() if name in KERNEL}
    assert count == {name: number * COUNTED for name, number in kernel.items()}, found
    total = sum(found.values()) / COUNTED
    assert total <= most, (total, found)


#: A GRANT is received; an ACK is sent when the next batch is asked for, and a RELEASE when the last
#: view has died. These are three different moments.
USUAL = {"recvmsg_into": 1, "send": 2, "getpid": 1}


def test_a_batch_takes_three_calls_of_the_kernel_and_few_of_python() -> None:
    held: list[pipemill.Batch] = []

    def step(stream: pipemill.Stream) -> bool:
        held[:] = [next(stream)]
        return True

    check(calls(step, pairs(WARM + COUNTED)), USUAL, 42)


@pytest.mark.parametrize("field", ["pair", "data"])
def test_an_array_of_a_batch_like_the_one_before_takes_no_call_of_the_kernel(field: str) -> None:
    pytest.importorskip("numpy")
    held: list[Any] = []

    def step(stream: pipemill.Stream) -> bool:
        batch = next(stream)
        held[:] = [batch["pair"] if field == "pair" else batch.dense("data")]
        return True

    fields = PAIR if field == "pair" else [("data", "bytes", [])]
    check(calls(step, pairs(WARM + COUNTED), fields), USUAL, 50)


def test_a_batch_of_other_places_takes_no_more_calls_of_the_kernel() -> None:
    chance = random.Random(1)
    held: list[pipemill.Batch] = []

    def step(stream: pipemill.Stream) -> bool:
        held[:] = [next(stream)]
        held[0]["text"]
        return True

    batches = [
        Rows([(bytes(chance.randrange(9)),) for _ in range(16)]) for _ in range(WARM + COUNTED)
    ]
    check(calls(step, batches, [("text", "utf8", [])]), USUAL, 140)


def test_a_batch_that_is_left_out_takes_two_calls_of_the_kernel() -> None:
    def step(stream: pipemill.Stream) -> bool:
        epoch = stream._epoch or next(stream.epochs())
        return stream._skip_batch(epoch)

    found = calls(step, pairs(WARM + COUNTED))
    check(found, {"recvmsg_into": 1, "send": 1, "getpid": 1}, 34)


# --- batches like the ones before

#: What a batch may be like. Batches of the same number are laid out in the same way, but for their values.
KINDS: list[Callable[[random.Random], Rows]] = [
    lambda chance: Rows([(number(chance), number(chance)[:4], b"abc") for _ in range(16)]),
    lambda chance: Rows([(number(chance), number(chance)[:4], b"abc") for _ in range(5)]),
    lambda chance: Rows([(number(chance), None, b"abc") for _ in range(16)]),
    lambda chance: Rows([(number(chance), number(chance)[:4], b"a" * n) for n in range(16)]),
    lambda chance: Rows([(number(chance), b"", b"") for _ in range(16)], gap=b"gap"),
    lambda chance: Rows([(number(chance), b"1234", b"abc") for _ in range(16)], object="é" * 9),
    lambda chance: Rows(
        [(number(chance), b"1234", b"abc") for _ in range(16)], identity=b"list:1/2;etag:3",
        metadata=b'{"k": "v"}',
    ),
    lambda chance: Rows([(number(chance), b"1234", b"abc")] * 16, padding=3, first_record=7),
    lambda chance: Rows([(number(chance), b"1234", b"abc")] * 16, dedicated=True),
    # As many bytes as in the first one, but in other places.
    lambda chance: Rows(
        [(number(chance), b"1234", b"abcde"[: 1 + row % 2 * 4]) for row in range(16)]
    ),
    lambda chance: Rows([]),
]  # fmt: skip
MANY = [("n", "int64", []), ("list", "float32", [0], {"nullable": True}), ("data", "bytes", [])]


def number(chance: random.Random) -> bytes:
    return chance.randbytes(8)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(0, len(KINDS) - 1), min_size=1, max_size=12), st.integers(0, 1 << 30))
def test_each_batch_is_read_as_if_it_was_the_first(kinds: list[int], seed: int) -> None:
    chance = random.Random(seed)
    batches = [KINDS[kind](chance) for kind in kinds]

    def script(peer: Peer) -> None:
        peer.welcome(MANY)
        for batch in batches:
            peer.grant(batch)
        peer.linger()

    with tempfile.TemporaryDirectory(prefix="pipemill-") as folder:
        path = os.path.join(folder, "host.sock")
        with FakeHost(path, script), pipemill.connect("train", path) as stream:
            for expected, batch in zip(batches, stream):
                for _ in range(2):  # the second time is by what is known
                    check_batch(expected, batch)
                del batch


def check_batch(expected: Rows, batch: pipemill.Batch) -> None:
    rows = expected.rows
    assert len(batch) == len(rows) and batch.valid == len(rows) - expected.padding
    assert batch.object == expected.object and batch.first_record == expected.first_record
    assert batch.position.identity == expected.identity.decode()
    assert batch.metadata == ({"k": "v"} if expected.metadata else {})
    assert as_bytes(batch["n"], 8) == [row[0] for row in rows]
    assert as_bytes(batch.column("n"), 8) == [row[0] for row in rows]
    assert as_bytes(batch.dense("n"), 8) == [row[0] for row in rows]
    assert [None if one is None else bytes(one) for one in batch["list"]] == [row[1] for row in rows]
    assert [bytes(one) for one in batch["data"]] == [row[2] for row in rows]
    assert [int(one) for one in batch.lengths("data")] == [len(row[2] or b"") for row in rows]
    for name, at in (("list", 1), ("data", 2)):
        sizes = {None if row[at] is None else len(row[at] or b"") for row in rows}
        if sizes == {None} or None in sizes:
            with pytest.raises(pipemill.AbsentError):
                batch.dense(name)
        elif len(sizes) > 1:
            with pytest.raises(ValueError, match="not equally long"):
                batch.dense(name)
        elif sizes and sizes != {0}:
            size = sizes.pop() or 0
            assert as_bytes(batch.dense(name), size) == [row[at] for row in rows]


def as_bytes(array: Any, size: int) -> list[bytes]:
    data = array.tobytes()
    return [data[at : at + size] for at in range(0, len(data), size)]


def test_a_known_index_does_not_reach_beyond_a_shorter_payload(path: str) -> None:
    """The second batch has the first one's index, but says that its payload is shorter."""

    def script(peer: Peer) -> None:
        peer.welcome(PAIR)
        peer.grant(pairs(1)[0])
        peer.grant(Rows(pairs(1)[0].rows, lies={"payload_bytes": 127}))
        peer.linger()

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        assert len(next(stream)["pair"]) == 16
        batch = next(stream)
        for read in (batch.__getitem__, batch.dense, batch.offsets):
            with pytest.raises(pipemill.ProtocolError, match="row 15 is said to be 8 bytes at 120"):
                read("pair")


@pytest.mark.parametrize("lie", ["batch", "epoch", "magic", "fields", "index_at", "padding"])
def test_a_header_is_checked_after_one_that_was_right(path: str, lie: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome(PAIR)
        peer.grant(pairs(1)[0])
        peer.grant(Rows(pairs(1)[0].rows, lies={lie: 77_777}))
        peer.linger()

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        next(stream)
        with pytest.raises(pipemill.ProtocolError, match="is not laid out as version 2 says"):
            next(stream)


def test_arrays_of_a_batch_given_back_are_refused_though_it_is_like_the_one_before(
    path: str,
) -> None:
    def script(peer: Peer) -> None:
        peer.welcome(PAIR)
        for batch in pairs(3):
            peer.grant(batch)
        peer.linger()

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        for batch in stream:
            batch["pair"]
            batch.release()
            for read in (batch.__getitem__, batch.dense, batch.column):
                with pytest.raises(pipemill.ClosedError):
                    read("pair")
            if batch.number == 2:
                break


def test_an_index_of_the_same_offsets_and_other_lengths_is_another_one(path: str) -> None:
    batches = [
        Rows([(b"ab",)] * 16, gap=b"----"),
        Rows([(b"abcd",)] * 16, gap=b"--"),
        Rows([(b"abcdef",)] * 16),
    ]

    def script(peer: Peer) -> None:
        peer.welcome()
        for batch in batches:
            peer.grant(batch)
        peer.linger()

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        for expected, batch in zip(batches, stream):
            value = expected.rows[0][0] or b""
            assert [bytes(one) for one in batch["x"]] == [value] * 16
            assert as_bytes(batch.dense("x"), len(value)) == [value] * 16
            del batch


def test_an_absent_value_is_refused_where_the_header_says_that_none_is_absent(path: str) -> None:
    rows: list[tuple[bytes | None, ...]] = [(bytes(8),), (None,), (bytes(8),)]

    def script(peer: Peer) -> None:
        peer.welcome([("pair", "float32", [2], {"nullable": True})])
        peer.grant(Rows(rows))
        peer.grant(Rows(rows, lies={"flags": 0}))
        peer.linger()

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        assert len(next(stream).column("pair", absent=0)) == 3
        with pytest.raises(pipemill.ProtocolError, match="row 1 is said to be 0 bytes at 42949672"):
            next(stream).column("pair", absent=0)


def test_a_batch_like_the_one_before_is_refused_where_less_is_granted(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome(PAIR)
        peer.grant(pairs(1)[0])
        peer.grant(pairs(1)[0], bytes=256)
        peer.linger()

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        next(stream)
        with pytest.raises(pipemill.ProtocolError, match="is not laid out as version 2 says"):
            next(stream)
