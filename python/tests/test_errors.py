"""Errors: each raises its exception, and the text says what happened and what to do."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import struct
import subprocess
import sys
from typing import Any, Callable

import pytest
from fakehost import (
    DEDICATED,
    EPOCH_END,
    ERROR,
    GRANT,
    REFUSED,
    SCHEMA,
    STREAM_END,
    WELCOME,
    FakeHost,
    Memory,
    Peer,
    Rows,
)

import pipemill

# --- connect()


def test_connect_without_a_host(path: str) -> None:
    with pytest.raises(pipemill.ConnectError) as caught:
        pipemill.connect("train", path, wait=0.05)
    said = str(caught.value)
    assert path in said and "waited 0.05 s" in said and "pipemill run" in said


def test_connect_without_a_socket_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIPEMILL_SOCKET", raising=False)
    with pytest.raises(pipemill.ConnectError, match="PIPEMILL_SOCKET is not set"):
        pipemill.connect("train")


def test_connect_with_a_path_too_long_for_a_socket() -> None:
    with pytest.raises(pipemill.ConnectError, match="too long"):
        pipemill.connect("train", "/tmp/" + "x" * 200)


def test_connect_with_no_credits() -> None:
    with pytest.raises(ValueError, match="credits=0: 1 or more"):
        pipemill.connect("train", "/nowhere", credits=0)


def test_a_refusal_after_hello(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.until(lambda: bool(peer.hello))
        peer.say(REFUSED, message="no channel 'tarin'; there is 'train'")

    with FakeHost(path, script), pytest.raises(pipemill.Refused, match="there is 'train'"):
        pipemill.connect("tarin", path)


def test_a_refusal_before_hello_is_read(path: str) -> None:
    with FakeHost(path, lambda peer: peer.say(REFUSED, message="not you")):
        with pytest.raises(pipemill.Refused, match="not you"):
            pipemill.connect("train", path)


def test_a_host_that_does_not_answer(path: str) -> None:
    with FakeHost(path, lambda peer: peer.linger()):
        with pytest.raises(pipemill.ConnectError, match="did not answer within"):
            pipemill.connect("train", path, wait=0.05)


def test_a_host_that_hangs_up_without_an_answer(path: str) -> None:
    with FakeHost(path, lambda peer: None), pytest.raises(pipemill.ConnectError, match="hung up"):
        pipemill.connect("train", path)


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ({"protocol": 3}, "speaks version 3 .* this package speaks 2; install"),
        ({"slots": -1}, "slots = -1"),
        ({"slots": "4"}, "slots = '4'"),
        ({"slots": True}, "slots = True"),
        ({"slot_bytes": 0}, "slot_bytes = 0"),
        ({"credits": 0}, "credits = 0"),
        ({"slots": 5}, "memory has 262144 bytes of the 327680 announced"),
    ],
)
def test_a_welcome_with_an_invalid_value(path: str, lie: dict[str, Any], said: str) -> None:
    def script(peer: Peer) -> None:
        with contextlib.suppress(ConnectionError):
            peer.welcome(**lie)

    with FakeHost(path, script), pytest.raises(pipemill.ProtocolError, match=said):
        pipemill.connect("train", path)


def test_memory_that_could_shrink_is_not_mapped(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.ring.close()
        peer.ring = Memory(peer.slots * peer.slot_bytes, seals=0)
        with contextlib.suppress(ConnectionError):
            peer.welcome()

    with FakeHost(path, script), pytest.raises(pipemill.ProtocolError, match="is not sealed"):
        pipemill.connect("train", path)


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        (WELCOME, b"{}", "not a WELCOME with the ring's memory"),
        (WELCOME, b"\xff", "not a WELCOME with the ring's memory"),
        (REFUSED, b"[" * 10_000, "not JSON"),
        (REFUSED, b"[]", "not a JSON object"),
        (GRANT, b"", "not a WELCOME"),
    ],
)
def test_an_invalid_answer_to_hello(path: str, kind: int, body: bytes, said: str) -> None:
    with FakeHost(path, lambda peer: peer.send(kind, body)):
        with pytest.raises(pipemill.ProtocolError, match=said):
            pipemill.connect("train", path)


# --- the end of a channel


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("decode", pipemill.DecodeError),
        ("refused", pipemill.RefusedError),
        ("plugin", pipemill.PluginError),
        ("source", pipemill.SourceError),
        ("limit", pipemill.LimitError),
        ("host", pipemill.HostError),
        ("something new", pipemill.DecodeError),
    ],
)
def test_an_error_message_raises_the_exception_of_its_kind(
    path: str, kind: str, error: type[pipemill.DecodeError]
) -> None:
    text = "channel train, object a: record 17 is too short"

    def script(peer: Peer) -> None:
        peer.welcome()
        peer.grant(Rows([(b"good",)]))
        peer.until(lambda: peer.acked == [0])
        peer.say(
            ERROR, kind=kind, message=text, channel="train", epoch=0, object="a", offset=1234,
            record=17, decoder="tfrecord",
        )  # fmt: skip
        peer.linger()

    seen = []
    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        for _ in range(2):  # each call raises it again
            with pytest.raises(pipemill.DecodeError) as caught:
                seen += [bytes(record) for batch in stream for record in batch]
            e = caught.value
            assert type(e) is error and str(e) == text
            assert (e.kind, e.channel, e.epoch, e.object) == (kind, "train", 0, "a")
            assert (e.offset, e.record, e.decoder) == (1234, 17, "tfrecord")
    assert isinstance(e, pipemill.PipemillError)


def test_an_error_message_without_text_and_position(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.say(ERROR, kind="source", message=None, channel="train", epoch=None)
        peer.linger()

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        with pytest.raises(pipemill.SourceError, match="ended channel 'train': source error") as e:
            next(stream)
    assert e.value.epoch is None and e.value.object is None


def test_a_host_that_hangs_up_before_the_end(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.grant(Rows([(b"a",), (b"b",)]))
        peer.grant(Rows([(b"c",)]))

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        kept = [record for batch in [next(stream), next(stream)] for record in batch]
        for _ in range(2):
            with pytest.raises(pipemill.HostDied, match="after 2 batches with 3 records") as e:
                next(stream)
        assert (e.value.batches, e.value.records) == (2, 3)
        assert isinstance(e.value, ConnectionError)
        assert b"".join(kept) == b"abc", "views stay readable"


def test_what_a_killed_host_has_granted_is_still_read(path: str) -> None:
    """The reader receives the grants that were sent, and after them raises HostDied."""
    program = (
        "import sys, fakehost\n"
        "def script(peer):\n"
        "    peer.welcome()\n"
        "    for i in range(2): peer.grant(fakehost.Rows([(b'record %d' % i,)]))\n"
        "    print('granted', flush=True)\n"
        "    peer.linger()\n"
        "with fakehost.FakeHost(sys.argv[1], script): sys.stdin.read()\n"
    )
    env = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    host = subprocess.Popen(
        [sys.executable, "-c", program, path],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with host, pipemill.connect("train", path) as stream:
        assert host.stdout is not None and host.stdout.readline() == b"granted\n"
        view = next(stream).payload
        host.send_signal(signal.SIGKILL)
        host.wait()
        batch = next(stream)
        assert (bytes(view), bytes(batch.payload)) == (b"record 0", b"record 1")
        with pytest.raises(pipemill.HostDied, match="after 2 batches with 2 records"):
            next(stream)
        assert (bytes(view), bytes(batch.payload)) == (b"record 0", b"record 1")


# --- a host that breaks the protocol


def says(*messages: tuple[int, bytes]) -> Callable[[Peer], None]:
    def script(peer: Peer) -> None:
        peer.welcome()
        with contextlib.suppress(ConnectionError):
            for kind, body in messages:
                peer.send(kind, body)
            peer.linger()

    return script


def grant(grant: int = 0, batch: int = 0, size: int = 1 << 16, slot: int = 0, epoch: int = 0):
    return GRANT, struct.pack("<QQQII", grant, batch, size, slot, epoch)


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([(99, b"")], "a message of type 99 and 4 bytes"),
        ([(GRANT, b"short")], "GRANT has 9 bytes, not 36"),
        ([(EPOCH_END, b"")], "EPOCH_END has 4 bytes"),
        ([(SCHEMA, b"{}")], "no list of fields"),
        ([(SCHEMA, b'{"fields": []}')], "must have fields"),
        ([grant(slot=4)], "granted what it does not have"),
        ([grant(size=1 << 17)], "granted what it does not have"),
        ([grant(size=100)], "granted what it does not have"),
        ([grant(slot=DEDICATED)], "granted what it does not have"),
        ([grant()], "starts with 0x0 and 0"),
        ([(EPOCH_END, struct.pack("<QQII", 0, 0, 0, 0)), (STREAM_END, b""), (99, b"")], None),
    ],
)
def test_an_invalid_message(path: str, messages: list, said: str | None) -> None:
    with FakeHost(path, says(*messages)), pipemill.connect("train", path) as stream:
        if said is None:
            assert list(stream) == []
            return
        with pytest.raises(pipemill.ProtocolError, match=said):
            next(stream)


def test_a_grant_before_the_schema(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.schema = lambda fields: None  # type: ignore[method-assign]
        says(grant())(peer)

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        with pytest.raises(pipemill.ProtocolError, match="a GRANT before the SCHEMA"):
            next(stream)


def test_a_stream_that_ends_within_an_epoch(path: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.grant(Rows([(b"a",)]))
        peer.until(lambda: peer.acked == [0])
        peer.stream_end()
        peer.linger()

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        with pytest.raises(pipemill.ProtocolError, match="the end of the stream before the end of"):
            list(stream)


HUGE = 1 << 63


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ({"magic": 0}, "starts with 0x0"),
        ({"header_bytes": 64}, "and 64, not"),
        ({"batch": 7}, "says that it is batch 7"),
        ({"epoch": 7}, "batch 0 of epoch 7"),
        ({"fields": 2}, "has 2 fields, but the schema has 1"),
        ({"payload_at": 0}, "payload at 0"),
        ({"payload_at": 129}, "payload at 129"),
        ({"payload_at": HUGE}, "payload at"),
        ({"payload_bytes": HUGE}, "payload at 128"),
        ({"records": 0xFFFFFFFF}, "an index of 4294967295 records"),
        ({"index_at": HUGE}, "index at"),
        ({"index_at": 65536}, "index at 65536"),
        ({"index_at": 65536}, "index at 65536"),
        ({"records": 9999}, "an index of 9999 records"),
        ({"object_at": 0xFFFFFFFF}, "object's name at"),
        ({"object_bytes": 0xFFFFFFFF}, "object's name at"),
        ({"metadata_bytes": 1}, "metadata at 0, 1 bytes"),
        ({"metadata_at": 127, "metadata_bytes": 1}, "metadata at 127, 1 bytes"),
        ({"metadata_at": 0xFFFFFFFF, "metadata_bytes": 1}, "metadata at 4294967295"),
        ({"metadata_at": 128, "metadata_bytes": 0xFFFFFFFF}, "metadata at 128"),
    ],
)
@pytest.mark.parametrize("dedicated", [False, True])
def test_a_header_with_an_invalid_value(
    path: str, lie: dict[str, int], said: str, dedicated: bool
) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.grant(Rows([(b"record",)], lies=lie, dedicated=dedicated))
        peer.linger()
        assert peer.acked == []

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        with pytest.raises(pipemill.ProtocolError, match=said):
            next(stream)


@pytest.mark.parametrize(
    ("text", "said"),
    [(b"", "not JSON"), (b"[", "not JSON"), (b"{}", "no list"), (b"[1]", "no list"), (b"[" * 3000, "not JSON")],
    ids=["nothing", "cut off", "another value", "other elements", "deep"],
)
def test_places_of_inputs_that_have_another_form(path: str, text: bytes, said: str) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.grant(Rows([(b"record",)], identity=text, is_mix=True))
        peer.linger()

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        batch = next(stream)
        with pytest.raises(pipemill.ProtocolError, match=f"inputs of batch 0 .* {said}"):
            _ = batch.position


@pytest.mark.parametrize(
    ("scalar", "shape", "rows", "lie", "said"),
    [
        ("bytes", [], [b"abc"], {"payload_bytes": 2}, "is said to be 3 bytes at 0; .* has 2"),
        ("bytes", [], [b"a", None], {"flags": 0}, "row 1 is said to be 0 bytes at 4294967295"),
        ("int32", [], [b"abcd", b"abc"], {}, "row 1 is said to be 3 .* a length of 4"),
        ("float32", [2, 2], [bytes(12)], {}, "a length of 16"),
        ("float32", [0, 2], [bytes(12)], {}, "a multiple of 8"),
        ("bfloat16", [], [bytes(4)], {}, "a length of 2"),
        ("uint16", [0], [bytes(2), bytes(3)], {}, "row 1 .* a multiple of 2"),
        ("utf8", [0], [bytes(4)], {"payload_bytes": 3}, "is said to be 4 bytes at 0; .* has 3"),
    ],
)
def test_an_index_with_an_invalid_span(
    path: str, scalar: str, shape: list[int], rows: list, lie: dict[str, int], said: str
) -> None:
    def script(peer: Peer) -> None:
        peer.welcome([("x", scalar, shape)])
        peer.grant(Rows([(row,) for row in rows], lies=lie))
        peer.linger()

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        batch = next(stream)
        for use in (lambda: batch["x"], lambda: list(batch), lambda: batch.offsets("x")):
            with pytest.raises(pipemill.ProtocolError, match=said):
                use()


def test_no_descriptor_stays_open(path: str) -> None:
    """A host may attach a descriptor to any message; the reader closes it."""
    # The fake host runs in another process, so that all descriptors of this one are the reader's.
    program = (
        "import sys, test_errors\n"
        "with test_errors.host_with_descriptors(sys.argv[1]): sys.stdin.read()\n"
    )
    env = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    gc.collect()  # what earlier tests have left must not be closed below
    before = len(os.listdir("/proc/self/fd"))
    with subprocess.Popen(
        [sys.executable, "-c", program, path], env=env, stdin=subprocess.PIPE
    ) as host:
        with pipemill.connect("train", path) as stream:
            assert [bytes(next(iter(batch))) for _, batch in zip(range(3), stream)] == [
                b"0", b"1", b"2",
            ]  # fmt: skip
            with pytest.raises(pipemill.ProtocolError, match="granted what it does not have"):
                list(stream)
        host.kill()
    assert len(os.listdir("/proc/self/fd")) == before


def host_with_descriptors(path: str) -> FakeHost:
    """For the test above."""

    def script(peer: Peer) -> None:
        peer.welcome()
        for i in range(3):
            peer.grant(Rows([(b"%d" % i,)], dedicated=True))
        peer.epoch_end()
        peer.send(SCHEMA, b'{"fields": [{"name": "x", "scalar": "bytes", "shape": []}]}', (0,))
        peer.send(GRANT, grant(grant=9)[1], (0,))
        peer.linger()

    return FakeHost(path, script)
