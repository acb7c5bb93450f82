"""Against the real host's end of the ring: the example `serve_numbers` of its crate.

cargo build -p pipemill-ring --example serve_numbers
PIPEMILL_SERVE_NUMBERS=target/debug/examples/serve_numbers pytest
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fakehost import HANG_TIMEOUT

import pipemill

SERVE_NUMBERS = os.environ.get("PIPEMILL_SERVE_NUMBERS")
pytestmark = pytest.mark.skipif(not SERVE_NUMBERS, reason="PIPEMILL_SERVE_NUMBERS is not set")


@contextmanager
def serving(path: str, *options: object) -> Iterator[subprocess.Popen[bytes]]:
    """The host with channel "numbers". It must end normally, unless the test kills it."""
    command = [str(SERVE_NUMBERS), path, "numbers", *map(str, options)]
    host = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert host.stdout is not None and host.stdout.readline() == b"ready\n"
        yield host
        assert host.wait(HANG_TIMEOUT) in (0, -signal.SIGKILL)
    finally:
        host.kill()
        host.wait()
        if host.stdout is not None:
            host.stdout.close()


def record(i: int, epoch: int, size: int) -> bytes:
    return bytes((i + j + epoch) % 251 for j in range(size))


def test_records_of_bytes_in_two_epochs(path: str) -> None:
    with serving(path, "--records", 3000, "--epochs", 2, "--record-bytes", 70):
        with pipemill.connect("numbers", path) as stream:
            assert [field.name for field in stream.fields] == ["data"]
            for epoch in stream.epochs():
                count = 0
                for batch in epoch:
                    assert batch.object == f"numbers/é/{epoch.number}"
                    assert batch.first_record == count
                    assert batch.object_offset == count * 73
                    assert batch.valid == len(batch)
                    place = ("made-up", 0, batch.object_offset, 0, batch.first_record, [])
                    assert batch.position == (batch.epoch, batch.number, 3, batch.object, *place)
                    for one in batch:
                        assert one == record(count, epoch.number, 70)
                        count += 1
                assert (count, epoch.records) == (3000, 3000)
                assert epoch.ended_early is False
            assert epoch.number == 1


def test_records_larger_than_a_slot(path: str) -> None:
    options = ("--records", 40, "--record-bytes", 50, "--slot-bytes", 4096, "--dedicated-every", 7)
    with serving(path, *options), pipemill.connect("numbers", path) as stream:
        records = [bytes(one) for batch in stream for one in batch]
    sizes = [3 * 4096 if i % 7 == 6 else 50 for i in range(40)]
    assert records == [record(i, 0, size) for i, size in enumerate(sizes)]


def test_dense_numbers_are_views(path: str) -> None:
    np = pytest.importorskip("numpy")
    options = ("--fields", "float32", "--records", 5000, "--record-bytes", 32, "--epochs", 2)
    with serving(path, *options), pipemill.connect("numbers", path) as stream:
        for epoch in stream.epochs():
            first = 0
            for batch in epoch:
                x = batch.dense("x")
                assert x.shape == (len(batch), 8) and x.dtype == np.float32
                assert np.shares_memory(x, np.frombuffer(batch.payload, "u1"))
                assert x.ctypes.data % 64 == 0 and x.flags.c_contiguous
                rows = np.arange(first, first + len(batch))[:, None]
                assert (x == rows + np.arange(8) / 8 + epoch.number).all()
                first += len(batch)
            assert first == 5000
        del x


def test_text_and_numbers_that_some_records_do_not_have(path: str) -> None:
    with serving(path, "--fields", "mixed", "--records", 2000):
        with pipemill.connect("numbers", path) as stream:
            i = 0
            for batch in stream:
                texts, numbers = batch["text"], batch.column("number", absent=-1)
                with pytest.raises(pipemill.AbsentError):
                    batch["number"]
                for row, one in enumerate(batch):
                    text = None if i % 5 == 4 else f"record {i} of epoch 0 ✓"
                    number = None if i % 7 == 6 else i * 1000
                    assert (one.text, one["number"]) == (text, number) == tuple(one)
                    assert (texts[row], numbers[row]) == (text, -1 if number is None else number)
                    i += 1
            assert i == 2000


def test_an_error_of_the_channel_comes_after_the_batches_before_it(path: str) -> None:
    seen = 0
    with serving(path, "--records", 1000, "--fail-after", 700):
        with pipemill.connect("numbers", path) as stream:
            with pytest.raises(pipemill.DecodeError, match="failed as asked") as caught:
                for batch in stream:
                    seen += len(batch)
    e = caught.value
    assert seen == 700 and (e.kind, e.channel, e.epoch) == ("decode", "numbers", 0)
    assert (e.object, e.record, e.offset) == ("numbers/é/0", 700, 700 * 103)
    assert e.decoder == "numbers"


def test_an_unknown_channel_is_refused(path: str) -> None:
    with serving(path, "--records", 1):
        with pytest.raises(pipemill.Refused, match="refused channel 'letters': "):
            pipemill.connect("letters", path)
        with pipemill.connect("numbers", path) as stream:
            assert sum(len(batch) for batch in stream) == 1


def test_end_skips_the_rest_of_the_first_of_two_epochs(path: str) -> None:
    with serving(path, "--records", 50_000, "--epochs", 2, "--slot-bytes", 4096):
        with pipemill.connect("numbers", path) as stream:
            counts = []
            for epoch in stream.epochs():
                counts.append(0)
                for batch in epoch:
                    counts[-1] += len(batch)
                    if epoch.number == 0:
                        epoch.end()
                assert epoch.ended_early is (epoch.number == 0)
            assert counts[0] < 50_000 and counts[1] == 50_000


def test_kept_views_do_not_change_while_slots_are_reused(path: str) -> None:
    with serving(path, "--records", 5000, "--slot-bytes", 4096, "--slots", 8):
        with pipemill.connect("numbers", path, credits=5) as stream:
            kept: list[tuple[int, memoryview]] = []
            i = 0
            for batch in stream:
                kept = [*kept[-2:], (i, next(iter(batch)))]
                i += len(batch)
                assert all(view == record(number, 0, 100) for number, view in kept)
            assert i == 5000
        del batch
        kept.clear()


def test_too_many_held_batches_are_an_error_and_lose_nothing(path: str) -> None:
    with serving(path, "--records", 1000, "--slot-bytes", 4096):
        with pipemill.connect("numbers", path, credits=2, hold_timeout=0.1) as stream:
            held = [next(stream), next(stream)]
            with pytest.raises(pipemill.HeldError, match="batch 1 of epoch 0: the Batch itself"):
                next(stream)
            count = sum(map(len, held))
            held.clear()
            assert count + sum(len(batch) for batch in stream) == 1000


@pytest.mark.parametrize("mode", ["share", "broadcast"])
def test_two_consumers_get_all_batches(path: str, mode: str) -> None:
    seen: list[list[int]] = [[], []]

    def consume(which: int) -> None:
        with pipemill.connect("numbers", path) as stream:
            for batch in stream:
                first = batch.first_record
                seen[which] += range(first, first + len(batch))
                assert batch.records()[0] == record(first, 0, 100)

    with serving(path, "--records", 20_000, "--mode", mode, "--consumers", 2):
        threads = [threading.Thread(target=consume, args=(which,)) for which in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    whole = list(range(20_000))
    if mode == "broadcast":
        assert seen == [whole, whole]
    else:
        assert sorted(seen[0] + seen[1]) == whole and seen[0] == sorted(seen[0])


def test_unacked_batches_of_a_killed_consumer_go_to_the_next(path: str) -> None:
    program = (
        "import sys, pipemill\n"
        "stream = pipemill.connect('numbers', sys.argv[1], wait=60)\n"
        "for batch in stream:\n"
        "    if batch.number == 3:\n"
        "        print(batch.first_record, flush=True)\n"
        "        sys.stdin.read()\n"
    )
    with serving(path, "--records", 1000, "--slot-bytes", 4096):
        with subprocess.Popen(
            [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as first:
            assert first.stdout is not None
            acked = int(first.stdout.readline())
            first.send_signal(signal.SIGKILL)
        with pipemill.connect("numbers", path) as stream:
            records = [bytes(one) for batch in stream for one in batch]
    assert records == [record(i, 0, 100) for i in range(acked, 1000)]


def test_a_killed_host_is_an_error_and_views_stay_readable(path: str) -> None:
    with serving(path, "--records", 100_000) as host, pipemill.connect("numbers", path) as stream:
        batch = next(stream)
        view = next(iter(batch))
        host.kill()
        host.wait()
        count = 0
        with pytest.raises(pipemill.HostDied) as caught:
            for batch in stream:
                count += len(batch)
        assert caught.value.batches >= 1 and count < 100_000
        assert view == record(0, 0, 100)


def test_a_process_that_writes_to_the_ring_is_killed(path: str) -> None:
    """A view refuses by its type. Code that goes around it is stopped by the kernel."""
    program = (
        "import sys, ctypes, pipemill\n"
        "batch = next(pipemill.connect('numbers', sys.argv[1], wait=60))\n"
        "try: batch.payload[0] = 1\n"
        "except TypeError: print('refused', flush=True)\n"
        "batch.payload.obj[200] = 1\n"
    )
    with serving(path, "--records", 10):
        writer = subprocess.run([sys.executable, "-c", program, path], stdout=subprocess.PIPE)
        assert writer.stdout == b"refused\n" and writer.returncode == -signal.SIGSEGV
        with pipemill.connect("numbers", path) as stream:
            assert [bytes(one) for batch in stream for one in batch] == [
                record(i, 0, 100) for i in range(10)
            ]
