"""Another user makes the path of a host first: no process receives that user's data unless it asks
for it.
"""

import json
import os
import subprocess
import sys

import pipemill
import pytest
from e2e import PATIENCE
from other_user import NOBODY, as_other_user, foreign_host, place
from pipemill.opening import node_address, plan
from pipemill.ranks import Node
from pipemill.status import status_of
from test_ranks import LAUNCHER, PROGRAM, finish, torchrun

__all__ = ["as_other_user", "foreign_host", "place"]

WISHES = dict(host="per-node", batch=2, tail="pad")


def test_a_host_of_another_user_is_not_believed(place, foreign_host, monkeypatch):
    socket = place / "host.sock"
    host = foreign_host(socket)
    expected = f"{socket}: expected a host of user 0 or of root, found one of user {NOBODY}"
    with pytest.raises(pipemill.ConnectError, match=expected) as refused:
        pipemill.connect("train", socket, wait=PATIENCE)
    assert "allow_other_users" in str(refused.value)
    with pytest.raises(pipemill.ConnectError, match=expected):
        status_of(str(socket), "train")
    # Where the socket's file is this user's, the kernel still says who serves it.
    os.chown(socket, 0, 0)
    with pytest.raises(pipemill.ConnectError, match=rf"{expected} \(process {host.pid}\)"):
        pipemill.connect("train", socket, wait=PATIENCE)
    monkeypatch.setenv("PIPEMILL_SOCKET", str(socket))
    with pytest.raises(pipemill.ConnectError, match=expected):
        pipemill.connect("train", wait=PATIENCE)
    with pipemill.connect("train", wait=PATIENCE, timeout=PATIENCE, allow_other_users=True) as stream:
        assert [next(stream).records() for _ in range(2)] == [["foreign"]] * 2
        assert stream.skipped == 0


def test_a_link_of_another_user_is_not_followed(place, as_other_user, tmp_path):
    """It would lead to a host of this user that serves something else."""
    (tmp_path / "own.txt").write_text("own\n")
    channel = {"name": "train", "source": {"file": str(tmp_path / "own.txt")}, "decoder": "lines"}
    with pipemill.host({"channel": [channel]}) as host:
        own, theirs = place / "own.sock", place / "theirs.sock"
        own.symlink_to(host.socket)
        assert as_other_user("ln", "-s", host.socket, theirs).wait(PATIENCE) == 0
        with pytest.raises(pipemill.ConnectError, match=f"found one of user {NOBODY}, which"):
            pipemill.connect("train", theirs, wait=PATIENCE)
        with pipemill.connect("train", own, timeout=PATIENCE) as stream:
            assert next(stream).records() == ["own"]


def test_a_host_of_root_is_believed(place):
    """Root can change this process in any case. So a host of root needs no permission in a
    container.
    """
    if os.geteuid() != 0:
        pytest.skip("root, to become another user")
    (place / "own.txt").write_text("own\n" * 2)
    source = {"file": str(place / "own.txt"), "epochs": 1000}
    channel = {"name": "train", "source": source, "decoder": "lines", "batch": 1}
    config = {"socket": str(place / "run" / "host.sock"), "allow_other_users": True, "channel": [channel]}
    with pipemill.host(config) as host:

        def read():
            with pipemill.connect("train", host.socket, timeout=PATIENCE) as stream:
                return next(stream).records()

        # Another user may not be able to read the files of the modules, so they are imported here.
        assert read() == ["own"]
        child = os.fork()
        if child == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            try:
                os._exit(read() != ["own"])
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def rank(place, tmp_path):
    """Starts a rank of a job, whose default folder is in `place`."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "0.txt").write_text("own\n" * 8)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER)}
    started = []

    def start(number):
        variables = {name: str(value) for name, value in torchrun(number, 2, 2).items()}
        environment = {**clean, **variables, "XDG_RUNTIME_DIR": str(place)}
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        words = [sys.executable, PROGRAM, str(folder), json.dumps(WISHES)]
        started.append(subprocess.Popen(words, env=environment, **pipes))
        return started[-1]

    yield start
    for one in started:
        if one.poll() is None:
            one.kill()
        one.communicate()


def refused(rank):
    """The last line of the error that ends a rank, which received nothing."""
    out, log = rank.communicate("\n" * 100, timeout=PATIENCE)
    assert rank.returncode != 0 and out == ""
    return log.strip().splitlines()[-1]


def name_of_socket(rank, folder):
    """The name that the ranks of this job agree on: it is the same wherever the folder is."""
    ranks = [rank(0), rank(1)]
    assert json.loads(ranks[0].stdout.readline()) == ["rank", True]
    [name] = os.listdir(folder)
    finish(ranks)
    return name


def test_a_folder_that_another_user_has_made_gives_no_rank_a_record(rank, place, as_other_user, foreign_host):
    folder = place / "pipemill"
    name = name_of_socket(rank, folder)
    assert name.startswith("node-")
    folder.rmdir()
    assert as_other_user("mkdir", "-m", "755", folder).wait(PATIENCE) == 0
    foreign_host(folder / name, rank_channel(), ["foreign"] * 8, 'mode = "rank"\nconsumers = 2\nbatch = 2\ntail = "pad"')
    for number in (1, 0):
        text = refused(rank(number))
        expected = f"{folder}: the folder of the socket must be one that only this user may write to"
        assert expected in text and f"found owner {NOBODY}, mode 0755" in text and "XDG_RUNTIME_DIR" in text, text


def rank_channel():
    """The name of the channel of a folder of this name."""
    return plan("/some/data", "lines", credits=4, epochs=1, rank=(0, 1))[0]


def test_a_link_in_the_folders_place(rank, place, as_other_user, tmp_path):
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    assert as_other_user("ln", "-s", own, place / "pipemill").wait(PATIENCE) == 0
    for number in (1, 0):
        text = refused(rank(number))
        assert f"found a link with owner {NOBODY}" in text and "XDG_RUNTIME_DIR" in text, text
    assert os.listdir(own) == []
    # A link of this user is as good as a folder.
    (place / "pipemill").unlink()
    (place / "pipemill").symlink_to(own)
    assert name_of_socket(rank, own).startswith("node-")


def test_a_folder_that_others_may_write_to(rank, place, as_other_user):
    (place / "pipemill").mkdir()
    (place / "pipemill").chmod(0o1777)
    for number in (1, 0):
        text = refused(rank(number))
        assert "found owner 0, mode 1777" in text and "chmod go-w" in text, text


def test_what_can_be_guessed_is_said_to_be(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    address = node_address(Node(1, 2, 0, 1, "job"), "text")
    assert address.path.startswith(f"/tmp/pipemill-{os.getuid()}/node-") and address.can_be_guessed
