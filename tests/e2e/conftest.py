"""What the end-to-end tests share: the real binary, formats written by hand, real FIFOs."""

import os
import pathlib
import struct
import subprocess
import threading
import time

import pytest

# What tests read is what people read.
os.environ["PIPEMILL_LOG_FORMAT"] = "human"

#: Longer than anything takes on a slow and busy machine: who waits so long waits in vain.
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


@pytest.fixture
def host(tmp_path):
    """Starts `pipemill run` on a configuration whose socket lies in `tmp_path`, with a script and more options."""
    started = []

    def start(channels, script=None, *more):
        socket = tmp_path / "s" / "pipemill.sock"
        config = tmp_path / "pipemill.toml"
        config.write_text(f'socket = "{socket}"\n{channels}')
        args = [PIPEMILL, "run", "--config", str(config), *map(str, more)]
        if script is not None:
            path = tmp_path / f"script{len(started)}.py"
            path.write_text("import pipemill, sys, json\n" + script)
            args += ["--", os.environ.get("PIPEMILL_PYTHON", "python3"), str(path)]
        child = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        started.append(child)
        return child

    yield start
    for child in started:
        if child.poll() is None:
            child.kill()
        child.communicate()


def patiently(look, *errors):
    """What `look` gives as soon as it gives something. These errors are nothing."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            found = look()
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


def in_background(work, *args):
    thread = threading.Thread(target=work, args=args, daemon=True)
    thread.start()
    return thread


@pytest.fixture
def fifos(tmp_path) -> pathlib.Path:
    folder = tmp_path / "fifos"
    folder.mkdir()
    return folder
