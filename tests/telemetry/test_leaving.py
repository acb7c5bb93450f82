"""The log names a consumer that leaves while it holds batches."""

import os
import subprocess
import sys

import pytest
from e2e import patiently
from hosts import channel, start, write_files  # noqa: F401

HOLD = """
import pipemill, sys
stream = pipemill.connect("train", sys.argv[1])
batch = next(stream)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    "more, then",
    [
        ("", "they go to the next consumer that is ready"),
        ('mode = "broadcast"', "the others get them all the same"),
    ],
)
def test_a_consumer_that_is_killed_is_named(start, tmp_path, more, then):  # noqa: F811
    write_files(tmp_path, [10])
    host = start(channel(tmp_path, more))
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, host.socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout.readline() == b"held\n"
    child.kill()
    child.communicate()
    line = f"process {child.pid} has left without an ACK for 1 of its batches: {then}"

    def is_told():
        log = (tmp_path / "host.log").read_text()
        assert line in log, log
        return True

    patiently(is_told, AssertionError)
    assert os.path.exists(host.socket)
