"""`Loader(replay=N)`: the first batches again and again."""

import itertools

import pipemill
import pytest
import torch
from e2e import PATIENCE
from pipemill.torch import Loader


@pytest.fixture
def loader(tmp_path):
    """A Loader of 40 numbers in batches of 4."""
    (tmp_path / "a.csv").write_text("".join(f"{n}\n" for n in range(40)))
    made = []

    def loader(**how):
        how = {"batch": 4, "timeout": PATIENCE, **how}
        made.append(Loader(tmp_path / "a.csv", "csv", options={"types": "int64"}, **how))
        return made[-1]

    yield loader
    for one in made:
        one.close()


def firsts(batches):
    return [batch["f0"][0].item() for batch in batches]


def test_a_pass_has_steps_and_the_first_batches_come_in_order(loader, caplog):
    one = loader(replay=3, steps=7)
    assert [firsts(one) for _ in range(2)] == [[0, 4, 8, 0, 4, 8, 0]] * 2
    assert len(one) == 7 and one.epoch == 2 and one.waits.count == 3
    assert [text for text in caplog.messages if "replay=" in text] == [
        "replay=3: the same 3 batches come again and again, which is for measuring; leave out replay= to train"
    ]


def test_without_steps_a_pass_has_no_end(loader):
    assert firsts(itertools.islice(loader(replay=2), 5000)) == [0, 4] * 2500


def test_the_batches_are_copies_that_no_other_batch_overwrites(loader):
    one = loader(replay=12, steps=12, credits=2)
    found = list(one)
    assert firsts(found) == [n * 4 % 40 for n in range(12)]
    assert all(batch["f0"].tolist() == [n * 4 % 40 + row for row in range(4)] for n, batch in enumerate(found))
    assert not one.dataset._stream._connection.open or len(one.dataset._stream._connection.open) == 1


def test_data_with_fewer_batches_are_repeated_as_they_are(loader):
    assert firsts(loader(replay=99, steps=25, epochs=1)) == [n * 4 % 40 for n in range(25)]


def test_there_is_no_state_to_go_on_at(loader):
    one = loader(replay=2, steps=2)
    list(one)
    with pytest.raises(pipemill.StateError, match="leave out replay="):
        one.state_dict()


@pytest.mark.parametrize("replay", [0, -1, 1.5, "2"])
def test_replay_is_a_number_of_batches(loader, replay):
    with pytest.raises(ValueError, match="replay=.*expected a whole number from 1"):
        loader(replay=replay)


def test_waits_are_those_of_all_streams_of_a_loader(loader):
    one = loader()
    for _ in range(2):
        list(one)
    state = one.state_dict()
    one.load_state_dict(state)
    batch = next(iter(one))
    assert batch["f0"].tolist() == [0, 1, 2, 3] and batch.epoch == 2
    # A host may have sent a batch that another stream has not taken.
    assert 21 <= one.waits.count <= 22
    assert 0 < one.waits.p50 <= one.waits.p99 <= one.waits.longest and torch.is_tensor(batch["f0"])
