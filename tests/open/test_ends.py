"""A private host ends with its Python program, in whatever way that ends, and nothing is left.
Nothing less ends it: no thread, and no forked child."""

import gc
import os
import pathlib
import select
import signal
import subprocess
import sys
import threading

import pipemill
import pytest
from e2e import PATIENCE
from pipemill.status import status_of

PROGRAM = str(pathlib.Path(__file__).with_name("ends.py"))
#: Each way, and the exit code of the program; None: it lives on, and the test ends it.
WAYS = {
    "closed": 0,
    "closed while a forked child lives": None,
    "dropped": None,
    "end of the script": 0,
    "exception": 1,
    "sys.exit": 3,
    "sys.exit in a thread": 0,
    "shutdown while a thread reads": 0,
    "os._exit": 4,
    "os._exit while a thread reads": 4,
    "SIGTERM": -signal.SIGTERM,
    "SIGKILL": -signal.SIGKILL,
    "SIGKILL while a forked child lives": -signal.SIGKILL,
    "crash": -signal.SIGSEGV,
    "another program": None,
}


def data(folder):
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text("".join(f"{number}.{line}\n" for line in range(100)))
    return str(folder)


def wait_for_end(pidfd):
    """Waits until the process has ended."""
    assert select.select([pidfd], [], [], PATIENCE)[0], "the host lives on"


def shared_memory():
    """The content of /dev/shm, if it exists."""
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()


@pytest.mark.parametrize("way", WAYS)
def test_a_host_ends_with_its_program(tmp_path, way):
    source, run, temporary = data(tmp_path / "data"), tmp_path / "run", tmp_path / "tmp"
    run.mkdir(mode=0o700)
    temporary.mkdir()
    memory = shared_memory()
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(run), "TMPDIR": str(temporary)}
    pipe, end = os.pipe()
    program = subprocess.Popen(
        [sys.executable, PROGRAM, way, source, str(pipe)], pass_fds=[pipe], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=environment, cwd=temporary,
    )  # fmt: skip
    try:
        pid, socket = program.stdout.readline().split()
        host = os.pidfd_open(int(pid))
        try:
            assert os.path.exists(socket)
            program.stdin.write(b"\n")
            program.stdin.flush()
            if way == "SIGTERM":
                program.terminate()
            wait_for_end(host)
        finally:
            os.close(host)
        if WAYS[way] is None:
            assert program.poll() is None
            program.kill()
    finally:
        # A forked child ends now. It holds the program's pipes.
        os.close(pipe)
        os.close(end)
        _, log = program.communicate(timeout=PATIENCE)
    if WAYS[way] is not None:
        assert program.returncode == WAYS[way], log
    assert not os.path.exists(socket) and os.listdir(run) == ["pipemill"]
    assert not os.listdir(run / "pipemill") and not os.listdir(temporary)
    # Other programs use /dev/shm at the same time: no name there is ours.
    assert not [name for name in shared_memory() - memory if "pipemill" in name]
    if way not in ("exception", "crash"):
        assert log == b""


def test_a_host_outlives_the_thread_that_opened_it(tmp_path):
    opened = []
    source = data(tmp_path / "data")
    thread = threading.Thread(target=lambda: opened.append(pipemill.open(source, "lines", epochs=None)))
    thread.start()
    thread.join()
    [stream] = opened
    with stream:
        # The number is larger than the batches that the host can have granted or kept before the
        # thread ended.
        slots = stream._connection.welcome.slots
        for _, batch in zip(range(3 * slots), stream):
            assert len(batch)
        assert os.path.exists(stream._host.socket)


def test_a_forked_child_does_not_end_the_host(tmp_path):
    with pipemill.open(data(tmp_path / "data"), "lines", epochs=None) as stream:
        next(stream)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                stream._host.close()  # the parent's: without effect
                del stream
                gc.collect()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        for _, batch in zip(range(3 * stream._connection.welcome.slots), stream):
            assert len(batch)


def test_views_outlive_the_host(tmp_path):
    with pipemill.open(data(tmp_path / "data"), "lines", options={"utf8": False}) as stream:
        pid = stream._host.pid
        line = next(next(iter(stream)).__iter__())
        assert isinstance(line, memoryview)
    assert bytes(line) == b"0.0"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(pipemill.ClosedError):
        next(stream)


def test_a_host_that_is_killed_is_an_error_and_leaves_nothing(tmp_path):
    with pipemill.open(data(tmp_path / "data"), "lines", epochs=None) as stream:
        socket = stream._host.socket
        os.kill(stream._host.pid, signal.SIGKILL)
        with pytest.raises(pipemill.HostDied):
            for _ in stream:
                pass
    assert not os.path.exists(socket)


def test_the_socket_of_a_host_that_was_killed_with_its_program_goes_with_the_next(tmp_path, monkeypatch):
    source, run = data(tmp_path / "data"), tmp_path / "run"
    run.mkdir(mode=0o700)
    pipe, end = os.pipe()
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(run)}
    program = subprocess.Popen(
        [sys.executable, PROGRAM, "SIGTERM", source, str(pipe)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        pass_fds=[pipe], env=environment,
    )  # fmt: skip
    pid, socket = program.stdout.readline().split()
    # As when a container's memory is full: no process can clean up.
    os.kill(program.pid, signal.SIGSTOP)
    host = os.pidfd_open(int(pid))
    os.kill(int(pid), signal.SIGKILL)
    wait_for_end(host)
    program.kill()
    program.communicate(timeout=PATIENCE)
    for fd in (pipe, end, host):
        os.close(fd)
    assert os.path.exists(socket)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run))
    with pipemill.open(source, "lines") as stream, pipemill.open(source, "lines") as other:
        assert not os.path.exists(socket)
        assert os.path.exists(stream._host.socket) and os.path.exists(other._host.socket)
        assert next(stream).records() == next(other).records()


def test_a_source_without_records_ends_for_whoever_comes_late(tmp_path):
    (tmp_path / "empty.txt").touch()
    source = {"file": str(tmp_path / "empty.txt")}
    config = {"channel": [{"name": name, "source": source, "decoder": "lines"} for name in ("a", "b")]}
    with pipemill.host(config) as host:
        with host.connect("a") as stream:
            assert [list(epoch) for epoch in stream.epochs()] == [[]]
        # The source of `b` has ended too, and nobody has read it yet. The first stream was closed
        # before that.
        with host.connect("b") as stream:
            assert [list(epoch) for epoch in stream.epochs()] == [[]]
        # Now everything is read, and the host ends.
        assert select.select([host._answers], [], [], PATIENCE)[0]


def test_the_host_answers_until_its_owner_has_hung_up(tmp_path):
    (tmp_path / "a.txt").write_text("a\n")
    with pipemill.open(tmp_path / "a.txt", "lines") as stream:
        assert sum(map(len, stream)) == 1
        answers = stream._host._answers
        # It is asked for its status, after its end of the stream was received.
        assert status_of(stream._host.socket, stream.channel)["state"] in ("running", "ended")
        assert select.select([answers], [], [], 0)[0] == []
    config = {"channel": [{"name": "a", "source": {"file": str(tmp_path / "a.txt")}, "decoder": "lines"}]}
    with pipemill.host(config) as host:
        with host.connect("a") as stream:
            assert sum(map(len, stream)) == 1
        assert select.select([host._answers], [], [], PATIENCE)[0]


def test_an_error_waits_for_the_program(tmp_path):
    config = f'fail_grace = "0ms"\n[[channel]]\nname = "a"\nsource = {{ file = "{tmp_path}/no" }}\ndecoder = "lines"\n'
    with pipemill.host(config) as host:
        with host.connect("a") as stream, pytest.raises(pipemill.SourceError):
            next(stream)


INTERRUPTED = """
import signal, sys, time, pipemill
# A shell starts background commands with this signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
stream = pipemill.open(sys.argv[1], "lines", epochs=None)
try:
    print("ready", flush=True)
    while True:
        # A signal that comes just before a wait does not end it.
        time.sleep(0.05)
except KeyboardInterrupt:
    # An interrupted program ends this way: it saves, or finishes its epoch.
    for _, batch in zip(range(100), stream):
        pass
    print(stream.state_dict()["batch"])
"""


def test_an_interrupt_from_the_terminal_does_not_reach_the_host(tmp_path):
    words = [sys.executable, "-c", INTERRUPTED, data(tmp_path / "data")]
    program = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert program.stdout.readline() == "ready\n"
    # As with Ctrl-C: to the whole group.
    os.killpg(program.pid, signal.SIGINT)
    out, log = program.communicate(timeout=PATIENCE)
    assert (program.returncode, out, log) == (0, "99\n", "")


def test_threads_open_streams_at_once(tmp_path):
    source, found = data(tmp_path / "data"), []

    def read():
        with pipemill.open(source, "lines", batch=50) as stream:
            found.append([line for batch in stream for line in batch.records()])

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(found) == 6 and all(len(lines) == 300 and lines == found[0] for lines in found)
