"""What the tests of both caches share: data, programs that read it, hosts that are killed, files that are torn, a disk that is full."""

import contextlib
import gzip
import json
import os
import random
import subprocess
import sys

import pipemill
import pytest
from drift import rows_of
from e2e import PATIENCE, run, tfrecord
from killing import kill_hosts


def rows(seed, most=4000):
    numbers = random.Random(seed)
    return [f"{seed}-{row},{numbers.randbytes(numbers.randrange(200)).hex()}" for row in range(numbers.randrange(1, most))]


def csv(seed):
    return ("a,b\n" + "".join(row + "\n" for row in rows(seed))).encode()


FORMATS = {
    "csv": csv,
    "csv.gz": lambda seed: gzip.compress(csv(seed)),
    "tfrecord": lambda seed: b"".join(tfrecord(row.encode()) for row in rows(seed, 1000)),
}
OPTIONS = {"csv": {"header": "true"}}


def fill(folder, format, objects=4):
    for path in folder.iterdir():
        path.unlink()
    for seed in range(objects):
        (folder / f"{seed}.{format}").write_bytes(FORMATS[format](seed))
    return sum(path.stat().st_size for path in folder.iterdir())


def records(source, decoder=None, **wishes):
    """The records of each epoch."""
    options = OPTIONS.get(decoder)
    with pipemill.open(source, decoder, options=options, timeout=PATIENCE, **wishes) as stream:
        return [[str(row) for batch in epoch for row in rows_of(batch)] for epoch in stream.epochs()]


def made(source, out, decoder, *options):
    words = [f"--option={name}={value}" for name, value in OPTIONS.get(decoder, {}).items()]
    finished = run("index", source, "--out", out, "-d", decoder, "--distance", "8KiB", *words, *options)
    assert finished.returncode == 0, finished.stderr.decode()
    return out


PROGRAM = """
import json, sys, pipemill
source, epochs = json.loads(sys.argv[1]), int(sys.argv[2])
with pipemill.open(source, "lines", epochs=epochs, timeout=300) as stream:
    for batch in stream:
        print(*batch.records(), sep="\\n")
"""


def program(source, epochs=1):
    """The command that prints all lines."""
    return [sys.executable, "-c", PROGRAM, json.dumps(source), str(epochs)]


def printed(source, epochs=1):
    finished = subprocess.run(program(source, epochs), capture_output=True, timeout=PATIENCE)
    assert finished.returncode == 0, finished.stderr.decode()
    return finished.stdout


def lines_of(source, epochs=1):
    """As `printed`, by this process."""
    with pipemill.open(source, "lines", epochs=epochs, timeout=PATIENCE) as stream:
        return "".join(f"{line}\n" for batch in stream for line in batch.records()).encode()


def blocks(folder):
    return [path for path in folder.glob("v1/??/*") if len(path.name) == 38]


def lines(count, seed):
    numbers = random.Random(seed)
    return "".join(f"{row} {numbers.randbytes(40).hex()}\n" for row in range(count)).encode()


def large(data, objects=6, rows=40_000):
    """Objects of this many lines of some 86 bytes each; returns their bytes."""
    for path in data.iterdir():
        path.unlink()
    for seed in range(objects):
        (data / f"{seed}.txt").write_bytes(lines(rows, seed))
    return sum(path.stat().st_size for path in data.iterdir())


def kill_while_filled(source, cache, wanted):
    """Kills the host once the cache has this many blocks. No incomplete file has the name of a block."""
    with contextlib.suppress(pipemill.PipemillError):
        with pipemill.open(source, "lines", epochs=50, timeout=PATIENCE) as stream:
            for _ in stream:
                if len(blocks(cache)) >= wanted:
                    kill_hosts()
    left = [path for path in cache.glob("v1/**/*") if path.is_file()]
    assert {path.name for path in left} - {path.name for path in blocks(cache)} <= {"usage", "claims"}


def tear(cache, numbers, cut, written):
    """A power failure may leave files with any content: of these parts of them, one is cut, and one is written to."""
    for path in blocks(cache):
        if numbers.random() < cut:
            os.truncate(path, numbers.randrange(path.stat().st_size))
        elif numbers.random() < written:
            with open(path, "r+b") as torn:
                torn.seek(numbers.randrange(path.stat().st_size))
                torn.write(numbers.randbytes(100))


@contextlib.contextmanager
def small_disk(folder, size):
    """A disk of this size at a folder that is made."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "none", folder], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("only root can mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def printed_with_a_full_disk(source):
    """All lines of two epochs of a source whose cache does not have room for them. The log says so once."""
    finished = subprocess.run(program(source, epochs=2), capture_output=True, timeout=PATIENCE)
    log = finished.stderr.decode()
    assert finished.returncode == 0, log
    assert log.count("can't be written") == 1 and "make room on its disk" in log, log
    return finished.stdout
