"""Epochs and batches in order, and when ACK and RELEASE are sent."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest
from fakehost import HANG_TIMEOUT, LARGER_BYTES, SEALS, FakeHost, Memory, Peer, Rows

import pipemill


def some(n: int, first: int = 0) -> list[Rows]:
    return [Rows([(b"record %d" % i,)], first_record=i) for i in range(first, first + n)]


def epochs(*sizes: int):
    def script(peer: Peer) -> None:
        peer.welcome()
        for number, size in enumerate(sizes):
            peer.epoch(number, some(size))
        peer.stream_end()
        peer.linger()

    return script


def test_epochs_and_their_batches_come_in_order(path: str) -> None:
    seen = []
    with FakeHost(path, epochs(3, 0, 2)) as host:
        with pipemill.connect("train", path) as stream:
            assert (stream.channel, stream.credits, stream.mode) == ("train", 4, "share")
            for epoch in stream.epochs():
                batches = [(b.epoch, b.number, b.first_record, bytes(next(iter(b)))) for b in epoch]
                assert (epoch.batches, epoch.records) == (len(batches), len(batches))
                assert epoch.ended_early is False
                seen.append((epoch.number, batches))
    peer = host.peers[0]
    assert seen == [
        (0, [(0, i, i, b"record %d" % i) for i in range(3)]),
        (1, []),
        (2, [(2, 3 + i, i, b"record %d" % i) for i in range(2)]),
    ]
    assert peer.hello["protocol"] == 2 and peer.hello["channel"] == "train"
    assert peer.hello["client"].startswith("python 3.")
    assert peer.released == [0, 1, 2, 3, 4]


def test_a_stream_is_all_batches_of_all_epochs(path: str) -> None:
    with FakeHost(path, epochs(3, 0, 2)), pipemill.connect("train", path) as stream:
        assert [batch.number for batch in stream] == [0, 1, 2, 3, 4]
        assert list(stream) == []


def test_the_socket_is_found_in_the_environment(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEMILL_SOCKET", path)
    with FakeHost(path, epochs(1)), pipemill.connect(channel="train") as stream:
        assert len(list(stream)) == 1


def test_connect_waits_for_a_host_that_is_not_there_yet(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep = time.sleep

    def start_host(seconds: float) -> None:
        if not started:  # the first attempt has failed
            started.append(hosts.enter_context(FakeHost(path, epochs(1))))
        sleep(seconds)

    started: list[FakeHost] = []
    monkeypatch.setattr("pipemill.handshake.time.sleep", start_host)
    with contextlib.ExitStack() as hosts:
        with pipemill.connect("train", path) as stream:
            assert len(list(stream)) == 1
    assert started


def test_a_batch_is_acked_when_the_next_is_asked_for_and_not_before(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        for batch in some(2):
            peer.grant(batch)
        peer.until(lambda: peer.acked == [0])
        peer.linger()
        assert peer.acked == [0], "the end of the loop sends no ACK"

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        for batch in stream:
            if batch.number == 1:
                break


@pytest.mark.parametrize("waits", [False, True])
def test_a_batch_is_acked_while_a_view_of_it_lives(path: str, waits: bool) -> None:
    acked = threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome()
        peer.grant(some(1)[0])
        if waits:  # the reader must send the ACK before it waits for the next batch
            peer.until(lambda: peer.acked == [0])
        peer.grant(some(1, first=1)[0])
        peer.until(lambda: peer.acked == [0])
        assert peer.released == []
        acked.set()
        peer.linger()
        assert (peer.acked, peer.released) == ([0], [0])

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        view = next(stream).payload
        batch = next(stream)
        assert bytes(batch.payload) == b"record 1"
        assert acked.wait(HANG_TIMEOUT) and bytes(view) == b"record 0"
        del view


def test_an_exception_does_not_ack_the_current_batch(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        for batch in some(2):
            peer.grant(batch)
        peer.linger()
        assert (peer.acked, peer.released) == ([0], [0])

    def work(stream: pipemill.Stream) -> None:
        for number, batch in enumerate(stream):
            batch["x"]
            if number == 1:
                raise RuntimeError("work failed")

    with FakeHost(path, script), pytest.raises(RuntimeError), pipemill.connect("a", path) as stream:
        work(stream)


def test_ack_sends_an_ack_once(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.grant(some(1)[0])
        peer.until(lambda: peer.acked == [0])
        peer.linger()  # fails on a second ACK

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        batch = next(stream)
        batch.ack()
        batch.ack()


def test_with_batch_releases_the_batch_at_its_end(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        for number, batch in enumerate(some(6)):
            peer.grant(batch)
            peer.until(lambda n=number: peer.released == list(range(n + 1)))
        peer.epoch_end()
        peer.stream_end()
        peer.linger()
        assert peer.messages == 1 + 6, "HELLO, and one RELEASE per batch"

    with FakeHost(path, script), pipemill.connect("train", path, credits=1) as stream:
        for batch in stream:
            with batch:
                assert len(batch) == 1
            with pytest.raises(pipemill.ClosedError, match="batch . of epoch 0 was given back"):
                batch["x"]
            batch.ack(), batch.release()


def test_with_batch_does_not_ack_where_it_ends_with_an_exception(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.grant(some(1)[0])
        peer.linger()
        assert peer.acked == []

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        with pytest.raises(RuntimeError), next(stream):
            raise RuntimeError("work failed")


def test_end_skips_the_rest_of_the_epoch(path: str) -> None:
    with FakeHost(path, epochs(50, 3)) as host, pipemill.connect("train", path) as stream:
        seen = {}
        for epoch in stream.epochs():
            seen[epoch.number] = 0
            for batch in epoch:
                seen[epoch.number] += 1
                if epoch.number == 0 and batch.first_record == 4:
                    epoch.end()
                    epoch.end()
            if epoch.number == 0:
                assert epoch.ended_early is True
                assert epoch.batches is not None and 5 <= epoch.batches < 10
            epoch.end()  # without effect: it has ended
        assert seen == {0: 5, 1: 3}
    assert host.peers[0].ended == [0]


def test_an_epoch_that_the_program_leaves_is_released_unread(path: str) -> None:
    with FakeHost(path, epochs(20, 3)) as host, pipemill.connect("train", path) as stream:
        seen = []
        for epoch in stream.epochs():
            for batch in epoch:
                seen.append((epoch.number, batch.first_record))
                if epoch.number == 0:
                    break
            del batch
        assert seen == [(0, 0), (1, 0), (1, 1), (1, 2)]
        assert list(epoch) == [], "an epoch that has ended has no more batches"
    assert sorted(host.peers[0].released) == list(range(23))


def test_fields_are_known_before_the_first_batch(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome([("a", "utf8", []), ("b", "float32", [2, 3], {"nullable": True})])
        peer.grant(Rows([(b"x", bytes(24))]))
        peer.epoch_end()
        peer.stream_end()
        peer.linger()

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        a, b = stream.fields
        assert a == pipemill.Field("a", "utf8", ())
        assert b == pipemill.Field("b", "float32", (2, 3), nullable=True)
        assert [len(batch) for batch in stream] == [1]


def test_a_stream_can_close_with_a_grant_unread(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.grant(Rows([(b"x",)], dedicated=True))
        peer.linger()
        assert peer.acked == []

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        assert stream.fields == (pipemill.Field("x", "bytes", ()),)


def test_batches_in_dedicated_buffers(path: str) -> None:
    big = bytes(range(256)) * 1024

    def script(peer: Peer) -> None:
        peer.welcome()
        peer.epoch(0, [Rows([(big,)], dedicated=i % 2 == 0) for i in range(5)])
        peer.stream_end()
        peer.linger()

    with FakeHost(path, script, slot_bytes=1 << 20), pipemill.connect("train", path) as stream:
        assert all(bytes(record) == big for batch in stream for record in batch)


def test_batches_in_larger_slots_that_the_host_makes_later(path: str) -> None:
    """They are mapped once. What the program holds stays, also after the stream is closed."""
    big = [bytes([i]) * (1 << 18) for i in range(9)]

    def script(peer: Peer) -> None:
        peer.welcome(credits=3)
        peer.epoch(0, [Rows([(big[i],)], dedicated=True) for i in range(2)])
        peer.make_larger(slots=3)
        mixed = [Rows([(b"%d" % i,)]) for i in range(3)]
        peer.epoch(1, [*mixed, *(Rows([(one,)], larger=True) for one in big[2:])])
        peer.stream_end()
        peer.linger()
        peer.overwrite_all()

    with FakeHost(path, script) as host:
        with pipemill.connect("train", path, credits=3) as stream:
            found, kept = [], []
            for batch in stream:
                found.append(bytes(batch.payload))
                kept = [*kept[-1:], batch]
                # Nobody else sees what a program writes.
                batch._writable_payload()[:1] = b"w"
            views = [batch.payload for batch in kept]
        assert [bytes(view) for view in views] == big[-2:]
        del views, kept, batch
    assert found == [*big[:2], b"0", b"1", b"2", *big[2:]]
    # The last two were held when the stream was closed.
    assert len(host.peers[0].released) == 10


CAN_NOT_BE = "LARGER_SLOTS says .* bytes from .* on expected"


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ({"first": 3}, CAN_NOT_BE),
        ({"first": 2**32 - 2}, CAN_NOT_BE),
        ({"number": 0}, CAN_NOT_BE),
        ({"number": 2**32 - 1}, CAN_NOT_BE),
        ({"slot_bytes": 0}, CAN_NOT_BE),
        ({"slot_bytes": 100}, CAN_NOT_BE),
        ({"slot_bytes": 1 << 52}, CAN_NOT_BE),
        ({"slot_bytes": LARGER_BYTES + 4096}, "has 2097152 bytes of the 2105344 announced"),
        ({"number": 3}, "has 2097152 bytes of the 3145728 announced"),
        ({"seals": 0}, "is not sealed"),
        ({"cut": 15}, "LARGER_SLOTS has 19 bytes and a descriptor, not 20 and one"),
        ({"fds": 0}, "LARGER_SLOTS has 20 bytes and no descriptor, not 20 and one"),
        ({"fds": 2}, "a message with 2 descriptors, at most one expected"),
        ({"times": 2}, "LARGER_SLOTS twice"),
    ],
)
def test_larger_slots_that_can_not_be(path: str, lie: dict[str, int], said: str) -> None:
    lie = {"times": 1, "seals": SEALS, **lie}

    def script(peer: Peer) -> None:
        peer.welcome()
        times, memory = lie.pop("times"), Memory(2 * LARGER_BYTES, lie.pop("seals"))
        for _ in range(times):
            peer.make_larger(memory=memory, **lie)
        peer.linger()

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        with pytest.raises(pipemill.ProtocolError, match=said):
            next(stream)


def test_a_ring_without_slots_has_only_dedicated_buffers(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome(credits=2)
        peer.epoch(0, [Rows([(b"%d" % i,)], dedicated=True) for i in range(5)])
        peer.stream_end()
        peer.linger()

    with FakeHost(path, script, slots=0), pipemill.connect("train", path) as stream:
        assert [bytes(record) for batch in stream for record in batch] == [
            b"%d" % i for i in range(5)
        ]


def test_a_stream_goes_on_after_a_timeout(path: str) -> None:
    timed_out = threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome()
        assert timed_out.wait(HANG_TIMEOUT)
        peer.epoch(0, some(1))
        peer.stream_end()
        peer.linger()

    with FakeHost(path, script), pipemill.connect("train", path, timeout=0.05) as stream:
        with pytest.raises(pipemill.StreamTimeout, match="nothing came .* 0 batches"):
            next(stream)
        timed_out.set()
        count = 0
        while True:
            try:
                next(stream)
            except pipemill.StreamTimeout:
                continue  # a slow machine may time out at each message
            except StopIteration:
                break
            count += 1
        assert count == 1


def test_reprs_and_the_error_for_an_unknown_field(path: str) -> None:
    with FakeHost(path, epochs(1)), pipemill.connect("train", path) as stream:
        batch = next(stream)
        assert repr(batch) == "<pipemill batch 0 of epoch 0: 1 records (x)>"
        assert repr(stream) == "<pipemill stream of channel 'train': 1 batches, 1 records read>"
        with pytest.raises(KeyError, match="no field 'y'; the records of this channel have 'x'"):
            batch["y"]
        assert list(stream) == []
