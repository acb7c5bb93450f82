"""The process of a reader: ``worker.py TASK``, with a task in JSON.

It reads the small files once and reports what it read. Then, for each line of standard input, it
reads the files for the time of a round and reports how much it read. An answer is a line of JSON on
the original standard output; output of libraries goes to standard error.

A reader is a function of a task that yields (records, sum) of what it has read, without an end: epoch after epoch. The
sum is over bytes or values that a program would touch, so that readers can be compared.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any

from .cpu import cpu_seconds
from .task import WARM_UP, Reader, Task, is_whole


def compare(reader: Reader, task: Task) -> dict[str, Any]:
    """One epoch of the small files."""
    total = seen = 0
    for records, found in reader(task.with_files(task.small, task.small_records)):
        seen += records
        total += found
        if seen >= task.small_records:
            break
    if seen != task.small_records:
        raise SystemExit(f"{task.reader}: {seen} records of {task.small_records}: its batches reach across epochs")
    return {"records": seen, "sum": total}


def measure(reader: Reader, task: Task) -> dict[str, Any]:
    items = reader(task)
    try:
        if not is_whole(reader):
            # Opening is not a part of the warm-up.
            next(items)
            began = time.perf_counter()
            while time.perf_counter() - began < WARM_UP:
                next(items)
        seen = total = 0
        started, worked = time.perf_counter(), cpu_seconds()
        while time.perf_counter() - started < task.seconds:
            records, found = next(items)
            seen += records
            total += found
        seconds = time.perf_counter() - started
        return {"records": seen, "sum": total, "seconds": seconds, "cpu": cpu_seconds() - worked}
    finally:
        items.close()


def main(task: Task) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module, function = task.reader.split(".")
    reader: Reader = getattr(importlib.import_module(f"peers.readers.{module}"), function)
    found = compare(reader, task)
    if is_whole(reader):
        # A stream has a warm-up in each round.
        next(reader(task))
    print(json.dumps(found), file=answers, flush=True)
    for _ in sys.stdin:
        print(json.dumps(measure(reader, task)), file=answers, flush=True)
    # Some libraries hang at their end.
    os._exit(0)


if __name__ == "__main__":
    main(Task.of_text(sys.argv[1]))
