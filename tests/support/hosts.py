"""Hosts without a command, whose channels a test reads in its own process."""

import os
import signal
import subprocess

import pipemill
import pytest
from e2e import PATIENCE, PIPEMILL


class Host:
    """A host without a command. `pipemill.connect` waits for it."""

    def __init__(self, folder, config, *words):
        self.socket = str(folder / "run" / "socket")
        (folder / "run").mkdir(mode=0o700, exist_ok=True)
        (folder / "pipemill.toml").write_text(f'socket = "{self.socket}"\n{config}')
        self.log = open(folder / "host.log", "ab")
        command = [PIPEMILL, "run", *words, "--config", str(folder / "pipemill.toml")]
        self.child = subprocess.Popen(command, cwd=folder, stderr=self.log, start_new_session=True)

    def connect(self, channel="train", **wishes):
        return pipemill.connect(channel, self.socket, wait=PATIENCE, timeout=PATIENCE, **wishes)

    def kill(self):
        """The whole tree, as a machine that fails."""
        os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()

    def end(self):
        assert self.child.wait(PATIENCE) == 0


@pytest.fixture
def start(tmp_path):
    hosts = []

    def start(config, *words):
        hosts.append(Host(tmp_path, config, *words))
        return hosts[-1]

    yield start
    for host in hosts:
        if host.child.poll() is None:
            host.kill()
        host.log.close()


def rows(count):
    return [f"{n:05}" + "x" * (n % 7) for n in range(count)]


def write_files(folder, counts):
    at, names = 0, rows(sum(counts))
    for number, count in enumerate(counts):
        (folder / f"{number}.txt").write_text("".join(f"{row}\n" for row in names[at : at + count]))
        at += count


def channel(folder, more="", epochs=2):
    return (
        f'[[channel]]\nname = "train"\nsource = {{ glob = "{folder}/*.txt", epochs = {epochs} }}\n'
        f'decoder = "lines"\n{more}\n'
    )


def take(stream):
    """The next batch as (epoch, number, real rows), ACKed. None at the end."""
    batch = next(stream, None)
    if batch is None:
        return None
    batch.ack()
    # Copies, so that the batch's memory is free again.
    rows = [row if isinstance(row, str) else bytes(row) for row in batch.records()]
    return batch.epoch, batch.number, rows[: batch.valid]


def take_all(stream):
    return list(iter(lambda: take(stream), None))
