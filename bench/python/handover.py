"""The cost of a batch in a Python process: it takes batches, but does not read them."""

import time

import pipemill

records = batches = 0
with pipemill.connect(channel="bench") as stream:
    started, worked = time.perf_counter(), time.process_time()
    for batch in stream:
        batches += 1
        records += len(batch)
    seconds, worked = time.perf_counter() - started, time.process_time() - worked
print(records, batches, seconds, worked)
