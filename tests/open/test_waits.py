"""The time that a program has waited for its batches."""

import os
import threading
import time

import pipemill
from e2e import PATIENCE


def test_each_batch_is_counted_once_across_epochs_and_looks_ahead(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{n}\n" for n in range(100)))
    began = time.perf_counter()
    with pipemill.open(path, "csv", batch=10, epochs=3, timeout=PATIENCE) as stream:
        assert stream.waits.count == 0
        stream.fields  # waits for the first batch
        batches = sum(1 for epoch in stream.map(len).epochs() for _ in epoch)
        waits = stream.waits
    assert batches == waits.count == 30
    assert 0 < waits.p50 <= waits.p95 <= waits.p99 <= waits.longest <= waits.total <= time.perf_counter() - began


def test_a_wait_is_no_longer_than_the_call_that_waited(tmp_path):
    fifo = tmp_path / "late_0"
    os.mkfifo(fifo)
    asks = threading.Event()

    def write():
        with open(fifo, "w") as file:
            file.write("1\n" * 20)
            file.flush()
            asks.wait(PATIENCE)
            file.write("2\n" * 10)

    writer = threading.Thread(target=write)
    writer.start()
    with pipemill.open(fifo, "csv", batch=10, timeout=PATIENCE) as stream:
        next(stream), next(stream)
        before, began = stream.waits.total, time.perf_counter()
        asks.set()  # the batch can't have come before this
        assert len(next(stream)) == 10
        assert 0 < stream.waits.total - before <= time.perf_counter() - began
    writer.join(PATIENCE)
    assert stream.waits.count == 3
