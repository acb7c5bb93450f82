"""Shards of an index: any number of hosts gets the same batches together, and goes on where others stopped."""

import json
import os
import random

import pipemill
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from e2e import PATIENCE, run
from test_blocks import indexed
from drift import rows_of

PYTHON = os.environ.get("PIPEMILL_PYTHON", "python3")
SHARDS = 8
ROUND = 32  # records of all hosts
SHUFFLE = {"seed": 7, "blocks": "64KiB", "shards": SHARDS}


def opened(index, world, rank, **more):
    how = {"shuffle": SHUFFLE, "batch": ROUND // world, "tail": "keep", **more}
    return pipemill.open(index, rank=(rank, world), timeout=PATIENCE, **how)


def epochs_of(index, world, rank, **more):
    """The batches of one host, without padding: for each epoch, a list of lists of rows."""
    with opened(index, world, rank, **more) as stream:
        return [[rows(batch) for batch in epoch] for epoch in stream.epochs()]


def rows(batch):
    """The real records. Copies of the last one may follow them; of a batch of copies alone, none is real."""
    seen = [str(row) for row in rows_of(batch)]
    assert set(seen[batch.valid :]) <= ({seen[batch.valid - 1]} if batch.valid else set(seen[:1]))
    return seen[: batch.valid]


def together(hosts):
    """The batches of all hosts, one after the other: for each epoch, a list of lists of rows."""
    rounds = []
    for epoch in zip(*hosts):
        longest = max(map(len, epoch))
        batches = [host + [[]] * (longest - len(host)) for host in epoch]
        rounds.append([[row for batch in step for row in batch] for step in zip(*batches)])
    return rounds


def all_hosts(index, world, **more):
    return together([epochs_of(index, world, rank, **more) for rank in range(world)])


@pytest.mark.parametrize("decoder", ["csv", "csv.gz", "tfrecord", "lines"])
@pytest.mark.parametrize("tail", ["keep", "drop", "pad"])
def test_any_number_of_hosts_gets_the_same_batches(tmp_path, decoder, tail):
    index, how = tmp_path / "x.index", {"tail": tail, "epochs": 2}
    known = indexed(tmp_path / "data", decoder, index)
    with pipemill.open(tmp_path / "data", timeout=PATIENCE, **known) as stream:
        records = sorted(str(row) for batch in stream for row in rows_of(batch))
    alone = all_hosts(index, 1, **how)
    for epoch in alone:
        seen = [row for batch in epoch for row in batch]
        assert len(seen) == len(set(seen)) and set(seen) <= set(records)
        assert len(seen) == len(records) if tail != "drop" else len(seen) == len(records) // SHARDS // 4 * ROUND
    assert alone[0] != alone[1]
    for world in (2, 4, 8):
        assert all_hosts(index, world, **how) == alone


def test_a_chain_of_worlds_sees_each_record_once_an_epoch(tmp_path):
    index = tmp_path / "x.index"
    indexed(tmp_path / "data", "csv", index)
    whole = [batch for epoch in all_hosts(index, 1, epochs=3) for batch in epoch]
    numbers = random.Random(7)
    for _ in range(3):
        seen, state = [], None
        while len(seen) < len(whole) - 2:
            world = numbers.choice([1, 2, 4, 8])
            steps = min(numbers.randrange(1, len(whole) // 3), len(whole) - 2 - len(seen))
            hosts, states = [], []
            for rank in range(world):
                with opened(index, world, rank, epochs=3, state=state) as stream:
                    batches = (batch for epoch in stream.epochs() for batch in epoch)
                    hosts.append([[[str(row) for row in rows_of(next(batches))] for _ in range(steps)]])
                    states.append(json.loads(json.dumps(stream.state_dict())))
            seen += together(hosts)[0]
            assert seen == whole[: len(seen)]
            state = numbers.choice(states)


def test_a_state_is_small_and_says_what_it_needs(tmp_path):
    index, other = tmp_path / "x.index", tmp_path / "y.index"
    indexed(tmp_path / "data", "csv", index)
    with opened(index, 2, 1) as stream:
        next(stream)
        state = stream.state_dict()
    assert len(json.dumps(state)) < 300
    with pytest.raises(pipemill.PipemillError, match="`shards` was `8 of 4 records`.*and is `8 of 8 records`"):
        epochs_of(index, 2, 0, state=state, batch=ROUND)
    with pytest.raises(pipemill.PipemillError, match="`shuffle` was"):
        epochs_of(index, 2, 0, state=state, shuffle={**SHUFFLE, "seed": 8})
    (tmp_path / "data/9.csv").write_text("a,b\n1,2\n")
    assert run("index", "--update", index, "--out", other).returncode == 0
    with pytest.raises(pipemill.PipemillError, match="`index` was"):
        epochs_of(other, 2, 0, state=state)


#: Prints some batches, and the state after them.
TRAIN = """
import json, sys, pipemill
with pipemill.connect("train") as stream:
    batches = (batch for epoch in stream.epochs() for batch in epoch)
    rows = [[str(tuple(row)) for row in next(batches).records()] for _ in range(int(sys.argv[1]))]
    print(json.dumps([rows, stream.state_dict()]))
"""


def test_hosts_of_a_launcher_resume_a_state_of_any_number_of_hosts(tmp_path):
    """`pipemill run --resume`, with the state of a program, and with a host's checkpoint."""
    index, config, saved = tmp_path / "x.index", tmp_path / "pipemill.toml", tmp_path / "state.json"
    indexed(tmp_path / "data", "csv", index)
    (tmp_path / "train.py").write_text(TRAIN)

    def job(world, steps, *resume):
        """The batches of all hosts together, and the last state and checkpoint."""
        hosts = []
        for rank in range(world):
            checkpoint = tmp_path / f"{rank}.checkpoint"
            config.write_text(
                f'[[channel]]\nname = "train"\nsource = {{ index = "{index}", part = "rank" }}\nbatch = {ROUND // world}\n'
                f'shuffle = {{ seed = 7, blocks = "64KiB", shards = {SHARDS} }}\ncheckpoint = {{ path = "{checkpoint}" }}\n'
            )
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(world)}
            finished = run("run", *resume, "--config", config, "--", PYTHON, tmp_path / "train.py", steps, env=env)
            assert finished.returncode == 0, finished.stderr
            rows, state = json.loads(finished.stdout)
            hosts.append([rows])
        return together(hosts)[0], state, checkpoint

    whole, _, _ = job(1, 30)
    first, state, _ = job(4, 7)
    saved.write_text(json.dumps(state))
    second, _, checkpoint = job(2, 9, "--resume", saved)
    # The program has not acknowledged the last batch.
    saved.write_text(checkpoint.read_text())
    [done] = json.loads(saved.read_text())
    rounds = done["first_record"] // (ROUND // SHARDS) + 1
    assert first + second == whole[:16] and rounds in (15, 16)
    third, _, _ = job(8, 5, "--resume", saved)
    assert third == whole[rounds : rounds + 5]


@pytest.mark.parametrize("tail", ["keep", "drop", "pad"])
def test_the_length_is_known(tmp_path, tail):
    index = tmp_path / "x.index"
    indexed(tmp_path / "data", "lines", index)
    for world in (1, 4):
        for rank in range(world):
            with opened(index, world, rank, tail=tail, epochs=2) as stream:
                for epoch in stream.epochs():
                    batches = [batch.valid for batch in epoch]
                    assert len(batches) == stream.batches
                    assert tail == "drop" or sum(batches) == stream.records


def lines_of(folder, records):
    """An index of some lines, and these."""
    data, index = folder / "data", folder / "x.index"
    data.mkdir(exist_ok=True)
    lines = [f"{number} {'x' * (number % 50)}" for number in range(records)]
    (data / "0.txt").write_text("".join(line + "\n" for line in lines))
    assert run("index", data, "--out", index, "-d", "lines", "--distance", "1KiB").returncode == 0
    return index, [str([line]) for line in lines]


@pytest.mark.parametrize("records", [99, 96, 103, 8, 100])
def test_with_pad_all_hosts_have_equally_many_steps(tmp_path, records):
    """Some hosts have no record at all in the last round: they get copies of their last one, and a state of these is that of the others."""
    index, expected = lines_of(tmp_path, records)
    steps = -(-records // ROUND)
    alone = all_hosts(index, 1, tail="pad", epochs=2)
    assert [sorted(row for batch in epoch for row in batch) for epoch in alone] == 2 * [sorted(expected)]
    assert all(len(epoch) == steps for epoch in alone)
    states = []
    for world in (1, 4, 8):
        hosts = []
        for rank in range(world):
            host = []
            with opened(index, world, rank, tail="pad", epochs=2) as stream:
                assert stream.batches == steps
                for epoch in stream.epochs():
                    host.append([])
                    for batch in epoch:
                        assert len(batch) == ROUND // world
                        host[-1].append(rows(batch))
                        states.append((len(states), stream.state_dict()))
            assert [len(epoch) for epoch in host] == [steps, steps]
            hosts.append(host)
        assert together(hosts) == alone
    whole = [batch for epoch in alone for batch in epoch]
    numbers = random.Random(records)
    # Each host has a state after each step. That of the last one of an epoch is the start of the next.
    for number, state in numbers.sample(states, 6) + states[-steps - 1 : -steps + 1] + states[-1:]:
        done, world = number % (2 * steps) + 1, numbers.choice([1, 4, 8])
        rest = all_hosts(index, world, tail="pad", epochs=2, state=json.loads(json.dumps(state)))
        assert [batch for epoch in rest for batch in epoch] == whole[done:], (number, done, world)


def test_pad_needs_a_record_of_each_shard(tmp_path):
    index, _ = lines_of(tmp_path, 7)
    with pytest.raises(pipemill.PipemillError, match='7 records are too few for 8 shards.*set `shards` to 7 or less'):
        epochs_of(index, 1, 0, tail="pad")


def test_objects_without_enough_records_for_all_shards(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/0.txt").write_text("a\nb\nc\n")
    index = tmp_path / "x.index"
    assert run("index", tmp_path / "data", "--out", index, "-d", "lines").returncode == 0
    alone = all_hosts(index, 1)
    assert sorted(row for batch in alone[0] for row in batch) == ["['a']", "['b']", "['c']"]
    with opened(index, 1, 0) as stream:
        next(stream)
        state = stream.state_dict()
        assert list(stream) == []
    assert epochs_of(index, 1, 0, state=state, epochs=2) == [[], *all_hosts(index, 1, epochs=2)[1:]]


def test_what_does_not_go_together_is_said(tmp_path):
    index = tmp_path / "x.index"
    indexed(tmp_path / "data", "csv", index)
    wrong = [
        ({"rank": (0, 3)}, "3 hosts can't have equally many of 8 shards; take 2 or 4 hosts"),
        ({"batch": 30}, "a batch of 30 can't have equally many records of 8 shards; set batch = 24 or 32"),
        ({"batch": 3}, "set batch = 8"),
        ({"batch": None}, "shards are read in batches"),
        ({"workers": 2}, "each shard has a thread of its own"),
        ({"shuffle": {"seed": 7, "shards": 8}}, 'add blocks = "8MiB"'),
        ({"shuffle": {**SHUFFLE, "window": 100}}, "shards have no window"),
        ({"shuffle": {**SHUFFLE, "shards": 0}}, "a whole number from 1 to 1000000"),
        ({"shuffle": {**SHUFFLE, "shards": 257}, "batch": 257}, "more hosts: a host reads 256 at most"),
    ]
    for change, message in wrong:
        how = {"shuffle": SHUFFLE, "batch": ROUND, "tail": "keep", **change}
        if how["batch"] is None:
            del how["batch"], how["tail"]
        with pytest.raises((pipemill.PipemillError, ValueError)) as raised:
            with pipemill.open(index, timeout=PATIENCE, **how) as stream:
                next(stream)
        assert message in str(raised.value), (change, str(raised.value))


def test_shards_in_s3(bucket, tmp_path):  # noqa: F811
    index = tmp_path / "x.index"
    for path in (tmp_path / "buckets/data/train").iterdir():
        path.unlink()
    indexed(tmp_path / "buckets/data/train", "csv", index)
    files = all_hosts(index, 1)
    assert run("index", bucket, "--out", index, "-d", "csv", "-o", "header=true", "--distance", "8KiB").returncode == 0
    alone = all_hosts(index, 1)
    assert sorted(row for batch in alone[0] for row in batch) == sorted(row for batch in files[0] for row in batch)
    assert all_hosts(index, 4) == alone
