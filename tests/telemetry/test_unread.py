"""Outputs that nobody reads: the log of a private host, which is its program's standard error, and a terminal."""

import fcntl
import os
import pty
import signal
import subprocess
import sys

import pytest
from e2e import PATIENCE, PIPEMILL, patiently

READ = """
import sys
import pipemill
with pipemill.open(sys.argv[1], "lines", max_record="1KiB", on_error="skip") as stream:
    print(sum(len(batch) for batch in stream), flush=True)
"""
#: The host says that it skips a line, and lives until its program is killed.
STAY = READ + "    sys.stdin.read()\n"


def fill(writing):
    os.set_blocking(writing, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writing, b"\n")
    os.set_blocking(writing, True)


@pytest.fixture
def full_pipe():
    """A pipe of one page, full of line ends."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 1)
    fill(writing)
    yield writing
    os.close(writing)
    os.close(reading)


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("one\n" + "x" * 3000 + "\ntwo\n")
    return path


def start(program, rows, stderr):
    command = [sys.executable, "-c", program, str(rows)]
    environment = {**os.environ, "PIPEMILL_LOG": "debug"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=stderr, text=True, env=environment)


def test_a_program_reads_on_and_ends(rows, full_pipe):
    program = start(READ, rows, full_pipe)
    assert program.communicate(timeout=PATIENCE)[0] == "2\n" and program.returncode == 0


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("ends_by", [signal.SIGTERM, signal.SIGKILL])
def test_the_host_ends_with_its_program(rows, full_pipe, ends_by):
    program = start(STAY, rows, full_pipe)
    assert program.stdout.readline() == "2\n"
    hosts = children(program.pid)
    assert hosts
    program.send_signal(ends_by)
    program.communicate(timeout=PATIENCE)
    patiently(lambda: not any(map(runs, hosts)))


def test_a_host_whose_terminal_nobody_reads_obeys_signals(tmp_path):
    """It shows its progress there, and its log above."""
    reading, terminal = pty.openpty()
    fill(terminal)
    (tmp_path / "rows.txt").write_text("one\n")
    channel = f'[[channel]]\nname = "train"\ndecoder = "lines"\nsource = {{ file = "{tmp_path}/rows.txt" }}\n'
    (tmp_path / "c.toml").write_text(f'socket = "{tmp_path}/run/socket"\n{channel}')
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PIPEMILL_LOG")}
    host = subprocess.Popen([PIPEMILL, "run", "-c", tmp_path / "c.toml"], stderr=terminal, env=environment)
    try:
        patiently(lambda: (tmp_path / "run" / "socket").exists())
        host.send_signal(signal.SIGTERM)
        assert host.wait(PATIENCE) == 128 + signal.SIGTERM
    finally:
        host.kill()
        os.close(terminal)
        os.close(reading)
