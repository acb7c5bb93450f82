"""What the end-to-end tests in Python share: the real binary, formats written by hand, patience."""

import contextlib
import os
import struct
import subprocess
import threading
import time

import pytest

# What tests read is what people read.
os.environ["PIPEMILL_LOG_FORMAT"] = "human"

#: Longer than anything takes on a slow and busy machine. A test that waits longer fails.
PATIENCE = 300

PIPEMILL = os.environ.get("PIPEMILL") or pytest.exit("set PIPEMILL to the binary; `make test` does")


def _crc32c_table():
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 if crc & 1 else crc >> 1
        table.append(crc)
    return table


TABLE = _crc32c_table()


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def tfrecord(payload):
    length = struct.pack("<Q", len(payload))
    return (
        length
        + struct.pack("<I", masked_crc(length))
        + payload
        + struct.pack("<I", masked_crc(payload))
    )


def recordio(payload):
    pad = -len(payload) % 4
    return struct.pack("<II", 0xCED7230A, len(payload)) + payload + b" " * pad


def run(*args, stdin=None, **more):
    """A finished `pipemill` command, its output as bytes."""
    return subprocess.run(
        [PIPEMILL, *map(str, args)], input=stdin, capture_output=True, timeout=PATIENCE, **more
    )


def patiently(probe, *errors):
    """What `look` gives as soon as it gives something. These errors are nothing."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            found = probe()
        except errors:
            found = None
        if found:
            return found
        assert time.monotonic() < end, "nothing came of it"
        time.sleep(0.02)


def finish(child, timeout=PATIENCE):
    """Exit code, output and log of a child."""
    out, log = child.communicate(timeout=timeout)
    return child.returncode, out.decode(), log.decode()


def feed(fifo, data):
    """Writes into a FIFO, until nobody reads it any more."""
    with contextlib.suppress(BrokenPipeError), open(fifo, "wb", buffering=0) as pipe:
        pipe.write(data)


def in_background(work, *args):
    thread = threading.Thread(target=work, args=args, daemon=True)
    thread.start()
    return thread
