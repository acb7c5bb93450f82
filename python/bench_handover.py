"""Measures the cost of a batch for a Python program, with the real host's end of the ring.

    cargo build --release -p pipemill-ring --example serve_numbers
    python bench_handover.py target/release/examples/serve_numbers

It prints the CPU time of this process for one batch, with its system calls: this is the time that
the program loses. It also prints the wall time, which includes the time in which the host fills
slots.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable

import pipemill

BATCHES = 4_000
RUNS = 5


def nothing(batch: pipemill.Batch) -> Any:
    return None


def column(batch: pipemill.Batch) -> Any:
    return batch.dense("x")


def records(batch: pipemill.Batch) -> Any:
    for _ in batch:
        pass


def run(host: str, use: Callable[[pipemill.Batch], Any], credits: int, rows: int) -> list[float]:
    """CPU and wall time for one batch of `rows` records, in microseconds."""
    size = 448
    # A slot for about `rows` records: header, records, an index of two arrays, name; whole pages.
    slot = (128 + rows * size + 2 * (4 * rows + 64) + 64) // 4096 * 4096 or 4096
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "host.sock")
        numbers: dict[str, int] = {
            "--records": BATCHES * rows,
            "--record-bytes": size,
            "--slot-bytes": slot,
            "--slots": 64,
        }
        options = [str(one) for pair in numbers.items() for one in pair]
        command = [host, path, "numbers", "--fields", "float32", *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None and server.stdout.readline()
            with pipemill.connect("numbers", path, credits=credits) as stream:
                next(stream)
                cpu, wall, count = time.process_time(), time.perf_counter(), 0
                for batch in stream:
                    use(batch)
                    count += 1
                cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return [cpu / count * 1e6, wall / count * 1e6]


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print(f"us per batch, median of {RUNS} runs of about {BATCHES} batches")
    for name, use, credits, rows in [
        ("one batch, 2 credits", nothing, 2, 8),
        ("one batch, 16 credits", nothing, 16, 8),
        ('and batch.dense("x"), a view', column, 16, 8),
        ('and batch.dense("x"), 1000 rows', column, 16, 1000),
        ("and 8 rows, one by one", records, 16, 8),
    ]:
        runs = [run(sys.argv[1], use, credits, rows) for _ in range(RUNS)]
        cpu, wall = (statistics.median(column) for column in zip(*runs))
        print(f"{name:32} {cpu:6.1f} CPU {wall:7.1f} wall")


if __name__ == "__main__":
    main()
