"""The measured side: a file through a FIFO and a decoder to Python.

``consume.py FIFO FILE arrays FIELD`` makes one array of a field; ``consume.py FIFO FILE records`` touches
every field of every record. The file is written to the FIFO only when the consumer is connected, so that
nothing is decoded before the clock runs.
"""

import subprocess
import sys
import time

import numpy
import pipemill

fifo, path, what = sys.argv[1:4]
count = size = 0
with pipemill.connect(channel="bench") as stream:
    started = time.perf_counter()
    writer = subprocess.Popen(["sh", "-c", 'exec cat "$1" > "$2"', "sh", path, fifo])
    if what == "arrays":
        parts = []
        for batch in stream:
            parts.append(numpy.array(batch[sys.argv[4]]))
        whole = numpy.concatenate(parts)
        count, size = len(whole), whole.nbytes
    else:
        for batch in stream:
            for record in batch:
                count += 1
                for value in record:
                    size += len(value)
    seconds = time.perf_counter() - started
    writer.wait()
print(count, size, seconds)
