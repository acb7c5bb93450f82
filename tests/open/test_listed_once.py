"""A prefix is listed once: for all epochs, and for all ranks that share a host."""

import json
import os
import pathlib
import subprocess
import sys

import pipemill
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from counting import counted  # noqa: F401 (a fixture)

WHOLE = [f"{name}{number}" for name in "abcd" for number in (1, 2)]


def lines(source, **wishes):
    with pipemill.open(source, "lines", **wishes) as stream:
        return [line for batch in stream for line in batch.records()]


def test_epochs_and_what_is_learned_take_one_list(counted):  # noqa: F811
    for wishes, share in [({}, WHOLE), ({"shuffle": 3}, WHOLE), ({"rank": (1, 2)}, ["b1", "b2", "d1", "d2"])]:
        before = counted.lists
        assert sorted(lines(f"{counted.bucket}/", epochs=4, **wishes)) == sorted(4 * share)
        assert counted.lists - before == 1, wishes
        again = {"s3": f"{counted.bucket}/", "list": "epoch"}
        before = counted.lists
        assert sorted(lines(again, epochs=4, **wishes)) == sorted(4 * share)
        assert counted.lists - before >= 4, wishes


@pytest.mark.parametrize("world", [1, 2, 4])
def test_the_ranks_of_a_host_take_one_list(counted, world):  # noqa: F811
    source = {"s3": f"{counted.bucket}/", "epochs": 3}
    channel = {"name": "train", "source": source, "decoder": "lines", "batch": 1, "tail": "drop"}
    ranks = {"mode": "rank", "consumers": world, "ring": {"slots": 24}}
    with pipemill.host({"channel": [{**channel, **ranks}]}) as host:
        streams = [host.connect("train", rank=(rank, world)) for rank in range(world)]
        taken = []
        for _ in range(3 * len(WHOLE) // world):
            for stream in streams:
                batch = next(stream)
                taken += batch.records()
                batch.ack()  # an epoch ends when all of its batches are ACKed
    assert taken == 3 * WHOLE
    assert counted.lists == 1


PROGRAM = str(pathlib.Path(__file__).with_name("rank.py"))
JOB = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.fixture
def launch(counted, tmp_path):  # noqa: F811
    """Starts all ranks of a job, each with a host of its own, and waits until each has its first batch."""
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    started = []

    def launch(world, job=JOB, **wishes):
        ranks = []
        for rank in range(world):
            of_rank = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": world}
            variables = {**os.environ, **{name: str(value) for name, value in of_rank.items()}, **job, "XDG_RUNTIME_DIR": str(folder)}
            words = [sys.executable, PROGRAM, json.dumps({"s3": f"{counted.bucket}/", **wishes}), json.dumps({"rank": "auto", "epochs": 3})]
            ranks.append(subprocess.Popen(words, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        started.extend(ranks)
        return [(rank, [rank.stdout.readline(), rank.stdout.readline()]) for rank in ranks]

    yield launch
    for one in started:
        one.kill()
        one.communicate()
    left = folder / "pipemill"
    assert not left.exists() or os.listdir(left) == []


def rest(ranks):
    """The lines that all ranks have read at their ends."""
    lines = []
    for rank, first in ranks:
        out, _ = rank.communicate("\n" * 1000)
        assert rank.returncode == 0
        lines += [line for text in [*first[1:], *out.splitlines()] for line in json.loads(text)[1]]
    return sorted(lines)


def test_the_hosts_of_the_ranks_of_a_machine_take_one_list(counted, launch, tmp_path):  # noqa: F811
    counted.lists = 0
    assert rest(launch(3)) == sorted(3 * WHOLE)
    assert counted.lists == 1
    # The next job lists again, also if it has the same variables.
    (tmp_path / "buckets/data/train/e.txt").write_text("e1\ne2\n")
    counted.lists = 0
    ranks = launch(2)
    # An object that came later is not read by a rank that begins later.
    (tmp_path / "buckets/data/train/f.txt").write_text("f1\n")
    assert rest(ranks) == sorted(3 * [*WHOLE, "e1", "e2"])
    assert counted.lists == 1


def test_without_a_job_or_once_an_epoch_each_host_lists(counted, launch):  # noqa: F811
    for job, wishes in (({}, {}), (JOB, {"list": "epoch"})):
        counted.lists = 0
        assert rest(launch(2, job, **wishes)) == sorted(3 * WHOLE)
        assert counted.lists >= 2


def test_what_killed_hosts_have_left_is_no_list(counted, launch, tmp_path):  # noqa: F811
    [(rank, _), (other, _)] = launch(2)
    for one in (rank, other):
        children = pathlib.Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text().split()
        hosts = [int(pid) for pid in children]
        for pid in hosts:
            os.kill(pid, 9)
        one.kill()
        one.communicate()
    assert list((tmp_path / "run/pipemill").glob("lists-*"))
    (tmp_path / "buckets/data/train/e.txt").write_text("e1\n")
    counted.lists = 0
    assert rest(launch(2)) == sorted(3 * [*WHOLE, "e1"])
    assert counted.lists == 1


def test_a_config_says_when_it_lists(counted):  # noqa: F811
    with pytest.raises(pipemill.RefusedError, match="list: expected .*once.*epoch"):
        lines({"s3": f"{counted.bucket}/", "list": "twice"})
    with pytest.raises(pipemill.RefusedError, match="list.*does not go with"):
        lines({"s3_object": f"{counted.bucket}/a.txt", "list": "epoch"})
