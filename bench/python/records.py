"""Like `batches.py`, but takes each record as a memoryview."""

import time

import numpy  # noqa: F401  # as in `batches.py`
import pipemill

records = size = batches = 0
with pipemill.connect(channel="bench") as stream:
    started = time.perf_counter()
    for batch in stream:
        batches += 1
        for record in batch:
            records += 1
            size += len(record)
    seconds = time.perf_counter() - started
print(records, size, seconds, batches)
