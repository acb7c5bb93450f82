"""The time of a call of `state_dict()`: ``state_dict.py FILE``, a file of TFRecord. Prints the number of calls and the
median of their seconds."""

import statistics
import sys
import time

import pipemill

times = []
with pipemill.open(sys.argv[1], "tfrecord", batch=16) as stream:
    for batch in stream:
        began = time.perf_counter()
        stream.state_dict()
        times.append(time.perf_counter() - began)
        if len(times) == 3_000:
            break
print(len(times), statistics.median(times[1_000:]))
