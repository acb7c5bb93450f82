"""The cost of a batch in a Python process, which takes batches, but does not read them. For comparison, the cost of the
least that a reader could do: to receive a message of a GRANT's length, and to send one of an ACK's.
"""

import array
import os
import socket
import time

import pipemill

GRANT, ACK = 36, 12
PAIRS = 5_000


def bare() -> float:
    """CPU seconds of one such pair. Another process is at the other end, as a host is."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        for _ in range(PAIRS):
            theirs.send(bytes(GRANT))
            theirs.recv(ACK)
        os._exit(0)
    theirs.close()
    buffer, space = [bytearray(65_536)], socket.CMSG_SPACE(array.array("i").itemsize)
    worked = time.process_time()
    for _ in range(PAIRS):
        ours.recvmsg_into(buffer, space)
        ours.send(bytes(ACK))
    worked = time.process_time() - worked
    os.wait()
    return worked / PAIRS


pair = bare()
records = batches = 0
with pipemill.connect(channel="bench") as stream:
    started, worked = time.perf_counter(), time.process_time()
    for batch in stream:
        batches += 1
        records += len(batch)
    seconds, worked = time.perf_counter() - started, time.process_time() - worked
print(records, batches, seconds, worked, pair)
