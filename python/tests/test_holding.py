"""Memory does not change while a view of it lives, and is RELEASEd when the last view has died.

The fake host overwrites each slot when it is RELEASEd. So the comparisons here also fail if the
reader sends a RELEASE too early.
"""

from __future__ import annotations

import errno
import faulthandler
import gc
import os
import queue
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest
from fakehost import HANG_TIMEOUT, FakeHost, Peer, Rows

import pipemill
from pipemill.connection import Connection
from pipemill.memory import window_type


def text(i: int) -> bytes:
    return b"record %03d" % i


def serve(n: int, held: int = 0):
    """`held`: the number of batches that the consumer still has when it hangs up."""

    def script(peer: Peer) -> None:
        peer.welcome()
        peer.epoch(0, [Rows([(text(i),)]) for i in range(n)])
        peer.stream_end()
        peer.linger()
        assert sorted(peer.acked) == list(range(n))
        assert sorted(peer.released) == list(range(n - held))

    return script


def test_views_outlive_their_batch(path: str) -> None:
    with FakeHost(path, serve(20, held=4), slots=8):
        with pipemill.connect("train", path, credits=6) as stream:
            kept = []
            for batch in stream:
                kept.append((batch.number, next(iter(batch))))
                if len(kept) > 4:
                    kept.pop(0)
                assert all(bytes(view) == text(number) for number, view in kept)
        del batch
        # The stream has ended and is closed. The views are still readable.
        assert [bytes(view) for _, view in kept] == [text(i) for i in range(16, 20)]
        kept.clear()


def test_too_many_held_views_are_an_error_that_names_their_batches(path: str) -> None:
    with FakeHost(path, serve(5)):
        with pipemill.connect("train", path, credits=2, hold_timeout=0.1) as stream:
            batch = next(stream)
            view = batch.payload
            batch = next(stream)
            del batch
            second = next(stream)  # batch 1 was RELEASEd
            with pytest.raises(pipemill.HeldError) as caught:
                next(stream)
            said = str(caught.value)
            assert "holds 2 batches, all that it may (2 credits)" in said
            assert "batch 0 of epoch 0: only views of it" in said
            assert "batch 2 of epoch 0: the Batch itself" in said
            with pytest.raises(pipemill.HeldError):
                next(stream)
            assert bytes(view) == text(0) and bytes(next(iter(second))) == text(2)
            del view, second, caught
            assert [batch.number for batch in stream] == [3, 4]


def test_a_view_dropped_in_another_thread_ends_the_wait(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = threading.Event()
    wait = Connection.wait

    def watched_wait(connection: Connection, seconds: float) -> None:
        if len(connection.open) == 2:
            waits.set()
        wait(connection, seconds)

    def drop() -> None:
        if waits.wait(HANG_TIMEOUT):
            held.clear()

    monkeypatch.setattr(Connection, "wait", watched_wait)
    with FakeHost(path, serve(6)), pipemill.connect("train", path, credits=2) as stream:
        held = [next(stream), next(stream)]
        thread = threading.Thread(target=drop)
        thread.start()
        assert [batch.number for batch in stream] == [2, 3, 4, 5]
        thread.join()
        assert waits.is_set(), "the stream did not wait for the held batches"


def test_views_may_be_dropped_in_many_threads(path: str) -> None:
    n = 400
    with FakeHost(path, serve(n), slots=12), pipemill.connect("train", path, credits=8) as stream:
        views: queue.Queue[Any] = queue.Queue()
        wrong: list[int] = []

        def drop() -> None:
            for number, view in iter(views.get, None):
                if bytes(view) != text(number):
                    wrong.append(number)
                del view

        threads = [threading.Thread(target=drop) for _ in range(4)]
        for thread in threads:
            thread.start()
        for count, batch in enumerate(stream):
            assert batch.number == count
            views.put((count, next(iter(batch))))
        del batch
        for _ in threads:
            views.put(None)
        for thread in threads:
            thread.join()
        assert count == n - 1 and wrong == []


def test_batches_in_reference_cycles_are_collected(path: str) -> None:
    with FakeHost(path, serve(5)), pipemill.connect("train", path) as stream:
        gc.disable()
        try:
            for batch in stream:
                loop = [batch]
                loop.append(loop)
                del loop
        finally:
            gc.enable()
        assert batch.number == 4
        del batch
        gc.collect()


def test_close_hangs_up_when_the_last_view_has_died(path: str) -> None:
    granted, hung_up = threading.Event(), threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome()
        peer.grant(Rows([(text(0),)]))
        peer.grant(Rows([(text(1),)]))
        granted.set()
        peer.linger()
        hung_up.set()

    with FakeHost(path, script):
        with pipemill.connect("train", path) as stream:
            batch = next(stream)
            assert granted.wait(HANG_TIMEOUT)
        assert hung_up.wait(HANG_TIMEOUT), "a batch without views does not keep the connection"
        with pytest.raises(pipemill.ClosedError):
            _ = batch.payload
        with pytest.raises(pipemill.ClosedError, match="the stream is closed"):
            next(stream)
        stream.close()


def overwritten_after_the_hang_up(hung_up: threading.Event) -> Any:
    """A host that reuses all of its memory as soon as the consumer has hung up."""

    def script(peer: Peer) -> None:
        peer.welcome()
        for number in range(3):
            peer.grant(Rows([(text(number),)], dedicated=number == 2))
        peer.linger()
        peer.overwrite_all()
        hung_up.set()

    return script


# Slots of whole pages, and slots that share pages.
@pytest.mark.parametrize("slot_bytes", [1 << 16, 4096, 1000])
def test_close_hangs_up_at_once_and_views_stay(path: str, slot_bytes: int) -> None:
    hung_up = threading.Event()
    script = overwritten_after_the_hang_up(hung_up)
    with FakeHost(path, script, slots=5, slot_bytes=slot_bytes) as host:
        with pipemill.connect("train", path, credits=5) as stream:
            batches = [next(stream) for _ in range(3)]
            views = [batch.payload for batch in batches]
            # The result is the same with and without an ACK.
            batches[0].ack()
            written = batches[1]._writable_payload()
            assert (written is None) == (slot_bytes == 1000)
            if written is not None:
                written[:6] = b"mine, "
        assert hung_up.wait(HANG_TIMEOUT)
        assert [bytes(view) for view in views] == [text(number) for number in range(3)]
        assert written is None or bytes(written) == b"mine, " + text(1)[6:]
        with pytest.raises(pipemill.ClosedError):
            _ = batches[0].payload
        child = os.fork()
        if child == 0:
            os._exit(7 if [bytes(view) for view in views] == [text(n) for n in range(3)] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert host.peers[0].acked == [0, 1]
        if written is not None:
            written[:] = b"still mine"
            assert bytes(written) == b"still mine" and bytes(views[1]) == text(1)


def test_views_that_other_threads_read_stay_while_the_stream_is_closed(path: str) -> None:
    hung_up, ended = threading.Event(), threading.Event()
    wrong: list[bytes] = []
    with FakeHost(path, overwritten_after_the_hang_up(hung_up)):
        with pipemill.connect("train", path, credits=4) as stream:
            views = [next(stream).payload for _ in range(3)]
            reading = [threading.Event() for _ in range(2)]

            def read(begun: threading.Event) -> None:
                while not ended.is_set():
                    wrong.extend(
                        bytes(view) for n, view in enumerate(views) if bytes(view) != text(n)
                    )
                    begun.set()

            threads = [threading.Thread(target=read, args=(begun,)) for begun in reading]
            for thread in threads:
                thread.start()
            assert all(begun.wait(HANG_TIMEOUT) for begun in reading)
        assert hung_up.wait(HANG_TIMEOUT)
        for begun in reading:
            begun.clear()
        assert all(begun.wait(HANG_TIMEOUT) for begun in reading)
        ended.set()
        for thread in threads:
            thread.join()
        assert wrong == []


def test_where_there_is_no_memory_for_copies_the_hang_up_waits_for_the_last_view(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(connection: Connection) -> None:
        raise OSError(errno.ENOMEM, "no memory")

    monkeypatch.setattr(Connection, "copy_held", no_memory)
    hung_up = threading.Event()
    with FakeHost(path, overwritten_after_the_hang_up(hung_up)):
        with pipemill.connect("train", path, credits=4) as stream:
            view = [next(stream).payload for _ in range(3)][0]
        assert not hung_up.is_set() and bytes(view) == text(0)
        del view
        assert hung_up.wait(HANG_TIMEOUT)


def test_a_dropped_stream_hangs_up_when_its_last_batch_is_dropped(path: str) -> None:
    hung_up = threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome()
        peer.grant(Rows([(text(0),)]))
        peer.linger()
        hung_up.set()

    with FakeHost(path, script):
        batch = next(pipemill.connect("train", path))
        gc.collect()
        assert not hung_up.is_set() and bytes(batch.records()[0]) == text(0)
        del batch
        gc.collect()
        assert hung_up.wait(HANG_TIMEOUT)


def test_a_forked_child_can_not_use_the_stream(path: str) -> None:
    with FakeHost(path, serve(3)), pipemill.connect("train", path) as stream:
        batch = next(stream)
        view = batch.payload
        child = os.fork()
        if child == 0:
            code = 1
            try:
                stream.__next__()
            except pipemill.ForkError as error:
                if "call pipemill.connect() in the process that reads" in str(error):
                    code = 0
            try:
                batch.ack()
                code = 2
            except pipemill.ForkError:
                pass
            if bytes(view) != text(0):
                code = 3
            del view, batch, stream
            gc.collect()
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        del view, batch
        assert [batch.number for batch in stream] == [1, 2]


def test_a_forked_child_keeps_what_its_parent_held(path: str) -> None:
    """The fake host overwrites what the parent RELEASEs. The child's views must not show that."""
    read, write = os.pipe()
    with FakeHost(path, serve(6), slots=4) as host, pipemill.connect("train", path) as stream:
        first = next(stream)
        view = first.payload
        batch = next(stream)
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)  # the end of the parent's stream
            right = bytes(view) == text(0) == first["x"][0] and batch.number == 1
            right = right and bytes(batch.payload) == bytes(batch["x"][0]) == text(1)
            right = right and batch.object == "folder/object-0"
            grandchild = os.fork()
            if grandchild == 0:
                os._exit(7 if bytes(view) == text(0) else 1)
            right = right and os.waitpid(grandchild, 0)[1] == 7 << 8
            del view, first, batch, stream
            gc.collect()
            os._exit(7 if right else 1)
        del view, first, batch
        assert [batch.number for batch in stream] == [2, 3, 4, 5]
    assert sorted(host.peers[0].released) == list(range(6))
    os.close(read)
    os.close(write)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_forked_child_keeps_the_buffers_and_larger_slots_that_its_parent_held(path: str) -> None:
    """The fake host overwrites what the parent RELEASEs. The child's views must not show that."""

    def script(peer: Peer) -> None:
        peer.welcome()
        peer.make_larger()
        ways = [{"dedicated": True}, {}, {"larger": True}, {"dedicated": True}]
        peer.epoch(0, [Rows([(text(number),)], **ways[number]) for number in range(4)])
        peer.stream_end()
        peer.linger()

    read, write = os.pipe()
    with FakeHost(path, script) as host, pipemill.connect("train", path, credits=3) as stream:
        batches = [next(stream) for _ in range(3)]
        views = [batch.payload for batch in batches]
        written = batches[2]._writable_payload()
        written[:5] = b"mine "
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)  # the end of the parent's stream
            right = [bytes(view) for view in views] == [text(number) for number in range(3)]
            right = right and bytes(written) == b"mine " + text(2)[5:]
            os._exit(7 if right else 1)
        del views, batches, written
        assert [batch.number for batch in stream] == [3]
    assert sorted(host.peers[0].released) == list(range(4))
    os.close(read)
    os.close(write)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_forked_child_can_not_read_what_its_parent_did_not_hold(path: str) -> None:
    with FakeHost(path, serve(3)), pipemill.connect("train", path) as stream:
        batch = next(stream)
        other = (batch._lease.grant.slot + 1) % 4
        child = os.fork()
        if child == 0:
            faulthandler.disable()
            size = stream._connection.welcome.slot_bytes
            window = stream._connection._ring.window(other * size, window_type(size))
            os._exit(bytes(window)[0] & 0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGSEGV
        del batch
        assert [batch.number for batch in stream] == [1, 2]


def test_a_forked_child_does_not_keep_its_parents_connection(path: str) -> None:
    """The host must notice that a consumer dies, even while a child of it lives."""
    program = (
        "import os, sys, pipemill\n"
        "stream = pipemill.connect('train', sys.argv[1], wait=60); batch = next(stream)\n"
        "if os.fork() == 0:\n"
        "    sys.stdin.read()\n"  # lives until the test lets it go
        "    os._exit(0)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    hung_up = threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome()
        peer.grant(Rows([(text(0),)]))
        peer.linger()
        assert peer.acked == []
        hung_up.set()

    with FakeHost(path, script):
        with subprocess.Popen([sys.executable, "-c", program, path], stdin=subprocess.PIPE):
            assert hung_up.wait(HANG_TIMEOUT)


def test_a_copy_of_the_socket_in_another_process_does_not_keep_the_connection(path: str) -> None:
    """A process that another thread starts has all descriptors until it runs its own program."""
    hung_up = threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome()
        peer.grant(Rows([(text(0),)]))
        peer.linger()
        hung_up.set()

    with FakeHost(path, script):
        with pipemill.connect("train", path) as stream:
            next(stream)
            copy = os.dup(stream._connection._sock.fileno())
        assert hung_up.wait(HANG_TIMEOUT)
        os.close(copy)


def test_a_stream_can_not_be_pickled(path: str) -> None:
    import pickle

    with FakeHost(path, serve(0)), pipemill.connect("train", path) as stream:
        with pytest.raises(TypeError, match="belongs to the process that connected it"):
            pickle.dumps(stream)
        assert list(stream) == []


def test_copies_take_the_place_of_shared_memory_also_before_linux_6_17(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older kernels move only one mapping at a time: this one is made to refuse more."""
    import ctypes
    import types

    from pipemill import memory

    def mremap(address: int, size: int, *more: Any) -> Any:
        with open("/proc/self/maps") as maps:
            ranges = [[int(end, 16) for end in line.split()[0].split("-")] for line in maps]
        if not any(first <= address and address + size <= end for first, end in ranges):
            ctypes.set_errno(errno.EFAULT)
            return ctypes.c_void_p(-1).value
        return libc.mremap(address, size, *more)

    libc = memory._libc
    names = {name: getattr(libc, name) for name in ("mmap", "munmap", "mprotect", "madvise")}
    monkeypatch.setattr(memory, "_libc", types.SimpleNamespace(**names, mremap=mremap))
    hung_up = threading.Event()
    with FakeHost(path, overwritten_after_the_hang_up(hung_up), slots=6):
        with pipemill.connect("train", path, credits=6) as stream:
            # A slot that nobody holds lies between them.
            batches = [next(stream), next(stream), next(stream)]
            views = [batches[0].payload, batches[2].payload, batches[1]._writable_payload()]
            child = os.fork()
            if child == 0:
                right = [bytes(view or b"") for view in views] == [text(0), text(2), text(1)]
                os._exit(7 if right else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert hung_up.wait(HANG_TIMEOUT)
        assert [bytes(view or b"") for view in views] == [text(0), text(2), text(1)]
