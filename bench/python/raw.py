"""The baseline: one Python process with `read` and `struct` on the raw pipe, record by record."""

import fcntl
import struct
import sys
import time

F_SETPIPE_SZ = 1031

path = sys.argv[1]
with open(path, "rb", buffering=1 << 20) as pipe:
    fcntl.fcntl(pipe, F_SETPIPE_SZ, 1 << 20)
    read, unpack = pipe.read, struct.Struct("<QI").unpack
    started = time.perf_counter()
    records = size = 0
    while True:
        header = read(12)
        if not header:
            break
        length, _ = unpack(header)
        record = read(length)
        read(4)
        records += 1
        size += len(record)
    seconds = time.perf_counter() - started
print(records, size, seconds)
