"""The cost of a batch in a Python process, which takes batches, but does not read them; with the argument ``array`` it makes
the array of their field of each. For comparison, the least that a reader could do: to receive a message of a GRANT's
length, and to send two of the length of an ACK.
"""

import array
import os
import socket
import sys
import time

# The package imports it with the first array, which is not to be measured.
import numpy  # noqa: F401
import pipemill

GRANT, ACK = 36, 12
TIMES = 5_000


def bare() -> float:
    """CPU seconds of a receive and two sends. Another process is at the other end, as a host is."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        for _ in range(TIMES):
            theirs.send(bytes(GRANT))
            theirs.recv(ACK)
            theirs.recv(ACK)
        os._exit(0)
    theirs.close()
    buffer, space = [bytearray(65_536)], socket.CMSG_SPACE(array.array("i").itemsize)
    worked = time.process_time()
    for _ in range(TIMES):
        ours.recvmsg_into(buffer, space)
        ours.send(bytes(ACK))
        ours.send(bytes(ACK))
    worked = time.process_time() - worked
    os.wait()
    return worked / TIMES


least = bare()
is_array = sys.argv[1:] == ["array"]
records = batches = 0
with pipemill.connect(channel="bench") as stream:
    # `process_time` counts all threads of the process.
    started, worked = time.perf_counter(), time.process_time()
    for batch in stream:
        batches += 1
        records += len(batch)
        if is_array:
            batch.dense("data")
    seconds, worked = time.perf_counter() - started, time.process_time() - worked
print(records, batches, seconds, worked, least)
