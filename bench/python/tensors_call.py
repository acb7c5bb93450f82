"""The time of a call of `tensors`: ``tensors_call.py FILE``, a file of npy. Prints the number of calls and the median of
their seconds."""

import statistics
import sys
import time

import pipemill
from pipemill.torch import tensors

times = []
with pipemill.open(sys.argv[1], "npy", batch=256, epochs=None) as stream:
    for batch in stream:
        began = time.perf_counter()
        found = tensors(batch)
        times.append(time.perf_counter() - began)
        del found  # gives the batch back, which is not measured
        if len(times) == 3_000:
            break
print(len(times), statistics.median(times[1_000:]))
