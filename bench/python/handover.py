"""What it costs one Python process to be handed a batch: batches that are taken and not looked into."""

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
