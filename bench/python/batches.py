"""The measured side: a Python process that takes batches from the ring."""

import time

# The package imports it with the first field, which must not be measured.
import numpy  # noqa: F401
import pipemill

records = size = batches = 0
with pipemill.connect(channel="bench") as stream:
    started = time.perf_counter()
    for batch in stream:
        batches += 1
        records += len(batch)
        size += int(batch.lengths("data").sum())
    seconds = time.perf_counter() - started
print(records, size, seconds, batches)
