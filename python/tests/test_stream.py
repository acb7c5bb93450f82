"""Epochs and batches in order, and when ACK and RELEASE are said."""

from __future__ import annotations

import contextlib
import threading

import pytest
from fakehost import PATIENCE, FakeHost, Peer, Rows

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
            assert (stream.channel, stream.credits, stream.mode) == ("train", 2, "share")
            for epoch in stream.epochs():
                batches = [(b.epoch, b.number, b.first_record, bytes(next(iter(b)))) for b in epoch]
                assert (epoch.batches, epoch.records) == (len(batches), len(batches))
                assert epoch.ended_early is False
                seen.append((epoch.number, batches))
        peer = host.peers[0]
        peer.until(lambda: True)
    assert seen == [
        (0, [(0, i, i, b"record %d" % i) for i in range(3)]),
        (1, []),
        (2, [(2, 3 + i, i, b"record %d" % i) for i in range(2)]),
    ]
    assert peer.hello["protocol"] == 1 and peer.hello["channel"] == "train"
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


def test_connect_waits_for_a_socket_that_is_not_there_yet(path: str) -> None:
    host = FakeHost(path, epochs(1))
    late = threading.Timer(0.1, host.__enter__)
    late.start()
    with pipemill.connect("train", path) as stream:
        assert len(list(stream)) == 1
    late.join()
    host.__exit__(None)


def test_a_batch_is_acked_when_the_next_is_asked_for_and_not_before(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        for batch in some(2):
            peer.grant(batch)
        peer.until(lambda: peer.acked == [0])
        peer.linger()
        assert peer.acked == [0], "leaving the loop is no ACK"

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        for batch in stream:
            if batch.number == 1:
                break


@pytest.mark.parametrize("waits", [False, True])
def test_a_batch_that_is_still_viewed_is_acked_all_the_same(path: str, waits: bool) -> None:
    acked = threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome()
        peer.grant(some(1)[0])
        if waits:  # the reader waits for the next batch: it must not keep the ACK until then
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
        assert acked.wait(PATIENCE) and bytes(view) == b"record 0"
        del view


def test_the_batch_in_hand_is_not_acked_by_a_failure(path: str) -> None:
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


def test_ack_can_be_said_by_hand(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.grant(some(1)[0])
        peer.until(lambda: peer.acked == [0])
        peer.linger()

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        batch = next(stream)
        batch.ack()
        batch.ack()


def test_with_batch_gives_it_back_at_once(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        for number, batch in enumerate(some(6)):
            peer.grant(batch)
            peer.until(lambda n=number: peer.released == list(range(n + 1)))
        peer.epoch_end()
        peer.stream_end()
        peer.linger()
        assert peer.messages == 1 + 6, "HELLO, and one RELEASE a batch"

    with FakeHost(path, script), pipemill.connect("train", path, credits=1) as stream:
        for batch in stream:
            with batch:
                assert len(batch) == 1
            with pytest.raises(pipemill.ClosedError, match="batch . of epoch 0 was given back"):
                batch["x"]
            batch.ack(), batch.release()


def test_with_batch_keeps_it_where_the_work_fails(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.grant(some(1)[0])
        peer.linger()
        assert peer.acked == []

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        with pytest.raises(RuntimeError), next(stream):
            raise RuntimeError("work failed")


def test_end_leaves_out_the_rest_of_the_epoch(path: str) -> None:
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
            epoch.end()  # over: nothing happens
        assert seen == {0: 5, 1: 3}
    assert host.peers[0].ended == [0]


def test_leaving_an_epoch_reads_over_its_rest(path: str) -> None:
    with FakeHost(path, epochs(20, 3)) as host, pipemill.connect("train", path) as stream:
        seen = []
        for epoch in stream.epochs():
            for batch in epoch:
                seen.append((epoch.number, batch.first_record))
                if epoch.number == 0:
                    break
            del batch
        assert seen == [(0, 0), (1, 0), (1, 1), (1, 2)]
        assert list(epoch) == [], "an epoch that is over has no more batches"
    assert sorted(host.peers[0].released) == list(range(23))


def test_fields_are_told_before_the_first_batch(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome([("a", "utf8", []), ("b", "float32", [2, 3])])
        peer.grant(Rows([(b"x", bytes(24))]))
        peer.epoch_end()
        peer.stream_end()
        peer.linger()

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        assert stream.fields == (("a", "utf8", ()), ("b", "float32", (2, 3)))
        assert stream.fields[1] == pipemill.Field("b", "float32", (2, 3))
        assert [len(batch) for batch in stream] == [1]


def test_a_stream_can_close_with_a_grant_unread(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.grant(Rows([(b"x",)], own=True))
        peer.linger()
        assert peer.acked == []

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        assert stream.fields == (("x", "bytes", ()),)


def test_batches_with_memory_of_their_own(path: str) -> None:
    big = bytes(range(256)) * 1024

    def script(peer: Peer) -> None:
        peer.welcome()
        peer.epoch(0, [Rows([(big,)], own=i % 2 == 0) for i in range(5)])
        peer.stream_end()
        peer.linger()

    with FakeHost(path, script, slot_bytes=1 << 20), pipemill.connect("train", path) as stream:
        assert all(bytes(record) == big for batch in stream for record in batch)


def test_a_ring_without_slots_has_only_such_batches(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome(credits=2)
        peer.epoch(0, [Rows([(b"%d" % i,)], own=True) for i in range(5)])
        peer.stream_end()
        peer.linger()

    with FakeHost(path, script, slots=0), pipemill.connect("train", path) as stream:
        assert [bytes(record) for batch in stream for record in batch] == [
            b"%d" % i for i in range(5)
        ]


def test_a_timeout_is_no_end(path: str) -> None:
    asked = threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome()
        assert asked.wait(PATIENCE)
        peer.epoch(0, some(1))
        peer.stream_end()
        peer.linger()

    with FakeHost(path, script), pipemill.connect("train", path, timeout=0.05) as stream:
        with pytest.raises(pipemill.StreamTimeout, match="nothing came .* 0 batches"):
            next(stream)
        asked.set()
        batches, is_over = 0, False
        while not is_over:
            with contextlib.suppress(pipemill.StreamTimeout):
                for _ in stream:
                    batches += 1
                is_over = True
        assert batches == 1


def test_texts_for_a_person(path: str) -> None:
    with FakeHost(path, epochs(1)), pipemill.connect("train", path) as stream:
        batch = next(stream)
        assert repr(batch) == "<pipemill batch 0 of epoch 0: 1 records (x)>"
        assert repr(stream) == "<pipemill stream of channel 'train': 1 batches, 1 records read>"
        with pytest.raises(KeyError, match="no field 'y'; the records of this channel have 'x'"):
            batch["y"]
        assert list(stream) == []
