"""A host that is killed: the error says how it ended, and code that reads a source continues with
another host.
"""

import logging
import os
import signal

import pipemill
import pytest
from e2e import PATIENCE
from killing import kill_hosts
from pipemill.restarting import MAX_LOST, RestartingBatches

COUNT = 300


@pytest.fixture
def folder(tmp_path):
    for number in range(3):
        lines = range(number * COUNT // 3, (number + 1) * COUNT // 3)
        (tmp_path / f"{number}.txt").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def opener(folder, **more):
    """Opens the folder in batches of 10, with a ring that can't hold them all, and counts how often."""
    opened = []

    def make(state):
        opened.append(state)
        wishes = {"batch": 10, "tail": "keep", "timeout": PATIENCE, **more}
        return pipemill.open(f"{folder}/*.txt", "lines", state=state, **wishes)

    make.opened = opened
    return make


def given(batches):
    return [(batch.epoch, batch.number, batch.records()) for batch in batches]


@pytest.mark.parametrize("more", [{}, {"batch": None, "tail": None}, {"shuffle": {"seed": 3, "window": 50}}, {"workers": 2}],
                         ids=["batch", "none", "window", "workers"])  # fmt: skip
def test_the_records_of_hosts_that_are_killed_are_those_of_one(folder, caplog, more):
    more = {"epochs": 3, **more}
    whole = [line for batch in opener(folder, **more)(None) for line in batch.records()]
    make, found = opener(folder, **more), []
    with RestartingBatches(make) as batches:
        for at, batch in enumerate(batches):
            found += batch.records()
            if at % 7 == 1:
                assert kill_hosts() == 1
    assert found == whole
    assert len(make.opened) > 1 and len(caplog.records) == len(make.opened) - 1
    assert all("killed by signal 9 (SIGKILL)" in one.message for one in caplog.records)


def test_batches_are_identical(folder):
    whole = given(opener(folder, epochs=2)(None))
    make = opener(folder, epochs=2)
    with RestartingBatches(make) as batches:
        found = []
        for batch in batches:
            found += given([batch])
            kill_hosts()
    assert found == whole and len(make.opened) > 2


def test_a_host_that_is_killed_before_its_first_batch_and_again(folder):
    make = opener(folder)

    def killed(state):
        stream = make(state)
        if len(make.opened) <= MAX_LOST:
            kill_hosts()
        return stream

    # The batches that lie in the socket already are delivered.
    with RestartingBatches(killed) as batches:
        assert [line for batch in batches for line in batch.records()] == [str(n) for n in range(COUNT)]


def test_hosts_that_are_killed_again_and_again_end_it():
    lost = []

    def killed(state):
        lost.append(state)
        raise pipemill.HostDied("killed")

    with pytest.raises(pipemill.HostDied, match="killed"):
        next(RestartingBatches(killed))
    assert lost == [None] * (MAX_LOST + 1)


@pytest.fixture
def held(folder):
    """A stream whose host waits for this program, so it lives."""
    with pipemill.open(f"{folder}/*.txt", "lines", batch=1, credits=1, epochs=1000) as stream:
        yield stream


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
def test_the_error_names_the_signal(held, number):
    batch = next(held)
    assert kill_hosts(number) == 1
    with pytest.raises(pipemill.HostDied) as caught:
        held._receiver.discard()
        for batch in held:
            del batch
    text = str(caught.value)
    assert f"it was killed by signal {int(number)} ({number.name})" in text
    assert ("memory runs out" in text) == (number == signal.SIGKILL)
    assert "Its log is this program's standard error; $PIPEMILL_LOG=info" in text


def test_the_error_names_the_exit_status(held):
    [pid] = [held._host.pid]
    os.kill(pid, signal.SIGTERM)
    with pytest.raises(pipemill.HostDied, match="it ended with exit status 143. Its log is"):
        for batch in held:
            del batch


def test_the_error_says_that_the_program_has_closed_the_host(folder):
    config = {"channel": [{"name": "train", "source": {"folder": str(folder), "epochs": 1000}, "decoder": "lines",
                           "batch": 1}]}  # fmt: skip
    with pipemill.host(config) as host, host.connect("train", credits=1) as stream:
        next(stream)
        host.close()
        with pytest.raises(pipemill.HostDied, match=r"this program has closed it: Host.close\(\)"):
            for batch in stream:
                del batch


def test_a_forked_child_says_whose_host_it_is(held):
    owner = held._host
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(theirs, owner._how_it_ended().encode())
        os._exit(0)
    os.waitpid(child, 0)
    text = os.read(ours, 4096).decode()
    os.close(ours)
    os.close(theirs)
    assert f"process {owner.pid}, which process {os.getpid()} has started" in text


def test_a_status_that_another_part_of_the_program_took(held):
    os.kill(held._host.pid, signal.SIGKILL)
    os.waitpid(held._host.pid, 0)
    with pytest.raises(pipemill.HostDied, match="nobody knows how its process"):
        for batch in held:
            del batch


def program(folder, code):
    path = folder / "pipemill-that-ends"
    path.write_text(f"#!/bin/sh\n{code}\n")
    path.chmod(0o755)
    return str(path)


def test_a_host_that_ends_before_it_is_ready(folder, monkeypatch, tmp_path_factory):
    own = tmp_path_factory.mktemp("program")
    monkeypatch.setenv("PIPEMILL", program(own, "exit 3"))
    with pytest.raises(pipemill.HostError, match="gave no reason: it ended with exit status 3. Its log"):
        pipemill.open(f"{folder}/*.txt", "lines")
    monkeypatch.setenv("PIPEMILL", program(own, "kill -9 $$"))
    with pytest.raises(pipemill.HostDied, match=r"killed by signal 9 \(SIGKILL\)"):
        pipemill.open(f"{folder}/*.txt", "lines")


def test_a_host_that_is_killed_before_it_is_connected_to(folder, monkeypatch):
    connect = pipemill.Host.connect

    def killed(host, channel, **wishes):
        assert kill_hosts() == 1
        return connect(host, channel, wait=0, **wishes)

    monkeypatch.setattr(pipemill.Host, "connect", killed)
    with pytest.raises(pipemill.HostDied, match=r"ended before channel 'open' was read: it was killed by signal 9"):
        opener(folder)(None)


def test_the_log_has_a_warning(folder, caplog):
    caplog.set_level(logging.WARNING, "pipemill")
    with RestartingBatches(opener(folder, epochs=1000)) as batches:
        next(batches)
        kill_hosts()
        for _ in range(40):
            next(batches)
    [record] = caplog.records
    assert record.name == "pipemill" and record.message.endswith("Another host goes on there")
