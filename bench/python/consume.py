"""The measured side: a file through a FIFO and a decoder to Python.

``consume.py FIFO FILE arrays FIELD`` makes one array of a field. ``consume.py FIFO FILE records``
reads every field of every record. The file is written to the FIFO only when the consumer is
connected, so that nothing is decoded before the clock runs. The kernel writes it without a copy
(splice), because writing is not measured.
"""

import os
import sys
import time

import numpy
import pipemill

fifo, path, what = sys.argv[1:4]
count = size = 0


def write() -> None:
    with open(path, "rb") as file, open(fifo, "wb", buffering=0) as pipe:
        while os.splice(file.fileno(), pipe.fileno(), 1 << 20):
            pass


with pipemill.connect(channel="bench") as stream:
    started = time.perf_counter()
    # A separate process: a thread would wait for the interpreter lock.
    writer = os.fork()
    if not writer:
        write()
        os._exit(0)
    if what == "arrays":
        # Pages that were never written take no memory, so the array may be larger than needed.
        whole = numpy.empty((0,))
        for batch in stream:
            part = batch[sys.argv[4]]
            if count + len(part) > len(whole):
                larger = numpy.empty((max(2 * len(whole), 1 << 20) + len(part), *part.shape[1:]), part.dtype)
                if count:
                    larger[:count] = whole[:count]
                whole = larger
            whole[count : count + len(part)] = part
            count += len(part)
        whole = whole[:count]
        size = whole.nbytes
    else:
        for batch in stream:
            for record in batch:
                count += 1
                for value in record:
                    size += len(value)
    seconds = time.perf_counter() - started
    os.waitpid(writer, 0)
print(count, size, seconds)
