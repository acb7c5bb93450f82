"""`Dataset` under torchdata's StatefulDataLoader, and `Loader`: stopped anywhere, they resume
exactly there.
"""

import json
import multiprocessing
import pathlib
import signal
import subprocess
import sys

import pipemill
import pytest
from e2e import PATIENCE
from pipemill.torch import Dataset, Loader
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

BATCH = 4
COUNTS = (6, 3, 9)  # 18 records: 5 batches of an epoch, of which the last is padded; with 2 workers, 6


@pytest.fixture
def rows(tmp_path):
    at = 0
    for number, count in enumerate(COUNTS):
        (tmp_path / f"{number}.csv").write_text("".join(f"{at + n}\n" for n in range(count)))
        at += count
    return str(tmp_path / "*.csv")


@pytest.fixture
def dataset(rows):
    """Makes a Dataset with a host of its own, as a new job does. Closes the one before."""
    made = []

    def dataset(kind=Dataset, **more):
        for one in made:
            one.close()
        made[:] = [kind(rows, "csv", options={"types": "int64"}, batch=BATCH, tail="pad", timeout=PATIENCE, **more)]
        return made[0]

    yield dataset
    for one in made:
        one.close()


def values(batch):
    """The real records of a batch, copied."""
    return batch["f0"].tolist()[: batch.valid]


def taken(passes):
    return [[values(batch) for batch in one] for one in passes]


def expected(workers):
    """An epoch's batches: with 2 workers, one that fills the last round."""
    numbers = list(range(sum(COUNTS)))
    batches = [numbers[at : at + BATCH] for at in range(0, len(numbers), BATCH)]
    return batches + [[]] * (-len(batches) % max(workers, 1))


def stateful(data, workers, context, persistent):
    return StatefulDataLoader(
        data, batch_size=None, num_workers=workers, persistent_workers=persistent,
        multiprocessing_context=context,
    )  # fmt: skip


def batches_of(workers, count):
    """The first `count` batches of all epochs: epoch, number and rows."""
    one = expected(workers)
    return [(at // len(one), at, one[at % len(one)]) for at in range(count)]


def run(loader, count):
    """This number of batches, across epochs, and the state after them."""
    got = []
    while len(got) < count:
        for batch in loader:
            got.append((batch.epoch, batch.number, values(batch)))
            if len(got) == count:
                break
    return got, loader.state_dict()


# Two epochs of 2 workers, and one batch more.
CASES = [(0, None, False, stop) for stop in range(13)] + [
    (2, context, persistent, stop)
    for context in ("fork", "forkserver", "spawn")
    for persistent in (False, True)
    for stop in range(13)
]


@pytest.fixture(scope="module", autouse=True)
def preloaded():
    """The server from which workers are forked imports torch once. Workers that are spawned import it each time."""
    multiprocessing.set_forkserver_preload(["pipemill.torch"])


@pytest.mark.parametrize("workers, context, persistent, stop", CASES)
def test_a_stateful_dataloader_goes_on_where_it_was_stopped_twice(dataset, workers, context, persistent, stop):
    got, state = run(stateful(dataset(), workers, context, persistent), stop)
    for more in (2, 9):
        loader = stateful(dataset(), workers, context, persistent)
        loader.load_state_dict(json.loads(json.dumps(state)))
        left, state = run(loader, more)
        got += left
    assert got == batches_of(workers, stop + 11)


@pytest.mark.parametrize("workers, context, persistent", [(0, None, False), (2, "fork", False), (2, "fork", True)])
def test_a_state_from_the_end_of_an_epoch_goes_on_with_the_next_one(dataset, workers, context, persistent):
    loader = stateful(dataset(), workers, context, persistent)
    first = taken([loader])
    state = loader.state_dict()
    loader = stateful(dataset(), workers, context, persistent)
    loader.load_state_dict(state)
    assert first + taken([loader, loader]) == [expected(workers)] * 3


def left_and_whole(loader, left):
    """The passes that are left after this number of batches, and a whole one after each: all
    batches' epochs and rows.
    """
    got = []
    for count in left:
        got.append([(batch.epoch, values(batch)) for batch, _ in zip(loader, range(count))])
        got.append([(batch.epoch, values(batch)) for batch in loader])
    return got


@pytest.mark.parametrize("kind", [DataLoader, StatefulDataLoader])
@pytest.mark.parametrize("workers, context, persistent", [
    (0, None, False), (1, "fork", False), (2, "fork", False), (2, "fork", True), (2, "spawn", False),
])  # fmt: skip
def test_each_pass_is_a_whole_epoch_also_after_one_that_was_left(dataset, kind, workers, context, persistent):
    loader = kind(
        dataset(), batch_size=None, num_workers=workers, persistent_workers=persistent,
        multiprocessing_context=context,
    )  # fmt: skip
    got = left_and_whole(loader, (1, 3))
    whole = expected(workers)
    epochs = [[(epoch, rows) for rows in whole] for epoch in range(4)]
    assert got == [epochs[0][:1], epochs[1], epochs[2][:3], epochs[3]]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_state_of_new_workers_is_the_epoch_after_the_one_that_was_left(dataset, workers):
    loader = stateful(dataset(), workers, "fork", False)
    next(iter(loader))
    iter(loader)
    state = loader.state_dict()
    loader = stateful(dataset(), workers, "fork", False)
    loader.load_state_dict(json.loads(json.dumps(state)))
    assert [(batch.epoch, values(batch)) for batch in loader] == [(1, rows) for rows in expected(workers)]


def test_a_pass_that_a_newer_one_has_followed_says_so(dataset):
    data = dataset()
    older, newer = (iter(DataLoader(data, batch_size=None, num_workers=1, prefetch_factor=1)) for _ in range(2))
    next(newer)
    with pytest.raises(pipemill.Refused, match="this pass over the data is over, because a newer one"):
        list(older)


@pytest.mark.parametrize("stop", range(13))
def test_a_loader_goes_on_where_it_was_stopped(dataset, stop):
    got, state = run(dataset(Loader), stop)
    loader = dataset(Loader)
    loader.load_state_dict(json.loads(json.dumps(state)))
    assert got + run(loader, 9)[0] == batches_of(0, stop + 9)


@pytest.mark.parametrize("stop", range(1, 9))
def test_a_loader_of_a_number_of_steps_goes_on_across_epochs(dataset, stop):
    got, state = run(dataset(Loader, steps=4), stop)
    loader = dataset(Loader, steps=4)
    assert len(loader) == 4
    loader.load_state_dict(state)
    # The rest of the pass, if there is one, and whole ones.
    passes = [[(batch.epoch, batch.number, values(batch)) for batch in loader] for _ in range(3)]
    assert list(map(len, passes)) == [-stop % 4 or 4, 4, 4]
    assert got + sum(passes, []) == batches_of(0, stop + (-stop % 4 or 4) + 8)


@pytest.mark.parametrize("credits", [3, 4, 6])
def test_a_program_may_keep_any_number_of_batches(dataset, credits):
    loader = dataset(Loader, credits=credits)
    kept, connection = [], None
    for _ in range(4):
        for batch in loader:
            connection = connection or loader.dataset._stream._connection
            kept.append(batch)
    assert [(batch.epoch, batch.number, values(batch)) for batch in kept] == batches_of(0, 20)
    # The first ones are views, which hold their batches.
    assert len(connection.open) == credits - 1
    del kept[: credits - 1]
    assert not connection.open


@pytest.mark.parametrize("stop", [1, 5, 6, 9])
def test_a_trainer_that_goes_on_may_count_epochs_from_0_again(dataset, stop):
    got, state = run(dataset(Loader), stop)
    loader = dataset(Loader)
    loader.load_state_dict(state)
    for count in range(4):
        loader.set_epoch(count)
        got += [(batch.epoch, batch.number, values(batch)) for batch in loader]
    assert got == batches_of(0, len(got)) and len(got) >= stop + 15


@pytest.mark.parametrize("left", [False, True])
def test_a_loader_goes_back_to_any_state_also_while_a_batch_is_held(dataset, left):
    loader = dataset(Loader, credits=8)
    expected_batches, states, held = batches_of(0, 12), [loader.state_dict()], []
    one = iter(loader)
    for _ in range(4):
        held.append(next(one))
        states.append(loader.state_dict())
    if left:
        del one  # ends the epoch
    for at in (2, 0, 4, 1):
        loader.load_state_dict(states[at])
        assert run(loader, 6)[0] == expected_batches[at : at + 6]
    assert [values(batch) for batch in held] == expected(0)[:4]


JOB = """
import json, os, sys, time, torch
from torchdata.stateful_dataloader import StatefulDataLoader
from pipemill.torch import Dataset

if __name__ == "__main__":
    pattern, folder, stop = sys.argv[1], sys.argv[2], int(sys.argv[3])
    data = Dataset(pattern, "csv", options={"types": "int64"}, batch=4, tail="pad", credits=2)
    loader = StatefulDataLoader(data, batch_size=None, num_workers=2, prefetch_factor=4)
    state = folder + "/state.json"
    if os.path.exists(state):
        loader.load_state_dict(json.load(open(state)))
    for batch in loader:
        # The program's record and its state are one step.
        line = json.dumps([batch["f0"].tolist()[: batch.valid], loader.state_dict()])
        with open(state + ".new", "w") as new:
            json.dump(json.loads(line)[1], new)
        os.replace(state + ".new", state)
        with open(folder + "/got", "a") as got:
            got.write(json.dumps(json.loads(line)[0]) + "\\n")
        stop -= 1
        if stop == 0:
            # The workers have read all that they may: 4 batches each.
            passing = loader._iterator
            ready = lambda: sum(len(info) == 2 for info in passing._task_info.values())
            while passing._worker_result_queue.qsize() + ready() < 8:
                time.sleep(0.01)
            os.kill(0, 9)  # the whole tree
"""


def test_a_tree_that_is_killed_with_full_queues_goes_on_with_nothing_missing_or_repeated(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    for number in range(2):
        (tmp_path / f"{number}.csv").write_text("".join(f"{number * 60 + n}\n" for n in range(60)))
    for stop in (1, 2, 9, 99):
        job = subprocess.run(
            [sys.executable, tmp_path / "job.py", tmp_path / "*.csv", tmp_path, str(stop)],
            start_new_session=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert job.returncode == (0 if stop == 99 else -signal.SIGKILL)
    got = [json.loads(line) for line in pathlib.Path(tmp_path, "got").read_text().splitlines()]
    assert got == [list(range(at, at + BATCH)) for at in range(0, 120, BATCH)]


def test_what_is_wrong_is_said_with_a_remedy(tmp_path, monkeypatch, rows):
    monkeypatch.delenv("PIPEMILL_SOCKET", raising=False)
    with pytest.raises(ValueError, match="neither a file here nor a channel"):
        Loader("train")
    with pytest.raises(ValueError, match="with decoder='csv' is no channel"):
        Loader("train", "csv", socket="/nowhere")
    with pytest.raises(TypeError, match="takes no argument 'bach'"):
        Loader(rows, bach=4)
    loader = Loader(rows, "csv")
    with pytest.raises(ValueError, match="no state of a pipemill"):
        loader.load_state_dict({"epoch": 1})
    with pytest.raises(TypeError, match="give it steps="):
        len(loader)
    loader.close()
