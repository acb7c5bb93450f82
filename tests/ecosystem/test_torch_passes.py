"""The table of docs/pytorch.md on passes, steps and epochs: each of its cells, as it stands there."""

import json
import re

import pipemill
import pytest
from pipemill.torch import Loader
from tables import table

BATCH, OF_EPOCH = 4, 5
ROWS, COLUMNS = table("| the state is of | after batch |")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Two objects of 10 records: an epoch of 5 batches, one of which has records of both."""
    folder = tmp_path_factory.mktemp("rows")
    for first in (0, 10):
        (folder / f"{first:02}.csv").write_text("".join(f"{first + n}\n" for n in range(10)))
    return str(folder / "*.csv")


@pytest.fixture
def loader(source):
    """Makes a Loader with a host of its own."""
    made = []

    def loader(settings):
        """`settings`: as a cell of the table writes them, "steps=4, epochs=2"."""
        given = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", settings)}
        made.append(Loader(source, "csv", options={"types": "int64"}, batch=BATCH, shuffle=3, **given))
        return made[-1]

    yield loader
    for one in made:
        one.close()


def place(batch):
    return batch.epoch, batch.number, batch["f0"].tolist()


def stopped(loader, count, after_the_loop=False):
    """The batches before the stop, and the state there."""
    got = []
    while len(got) < count:
        for batch in loader:
            got.append(place(batch))
            if len(got) == count and not after_the_loop:
                break
    return got, json.loads(json.dumps(loader.state_dict()))


def passes(loader, number):
    """The lengths of this number of passes, or up to an error; and their batches."""
    lengths, got = [], []
    try:
        for _ in range(number):
            one = [place(batch) for batch in loader]
            lengths.append(str(len(one)))
            got += one
    except pipemill.PipemillError as error:
        assert "the data are over" in str(error)
        lengths.append("error")
    return ", ".join(lengths), got


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1]}".replace("`", ""))
def test_a_state_goes_on_with_the_passes_of_the_table(loader, row):
    of, after, *cells = row
    count = int(after.split(":")[0])
    before, state = stopped(loader(of), count, "after the loop" in after)
    whole, _ = stopped(loader(""), 30)
    epochs = re.search(r"epochs=\d+", of)
    for column, cell in zip(COLUMNS[2:], cells):
        going_on = loader(f"{column} {epochs[0] if epochs else ''}")
        going_on.load_state_dict(state)
        assert going_on.epoch == len(before) // OF_EPOCH
        lengths, got = passes(going_on, cell.count(",") + 1)
        assert lengths == cell, column
        # Nothing is missing or repeated, for any passes.
        assert before + got == whole[: count + len(got)]
        assert "error" not in cell or len(before + got) == 2 * OF_EPOCH


def test_a_state_of_any_step_goes_on_with_any_number_of_steps(loader):
    for of in ("steps=3", "steps=7", ""):
        one, before, whole = loader(of), [], stopped(loader(""), 30)[0]
        states = [one.state_dict()]
        for _ in range(3 if of else 2):
            for batch in one:
                before.append(place(batch))
                states.append(json.loads(json.dumps(one.state_dict())))
        going_on = {steps: loader(f"steps={steps}" if steps else "") for steps in (None, 1, 2, 5, 8)}
        for count, state in enumerate(states[:9]):
            for steps, other in going_on.items():
                other.load_state_dict(state)
                lengths, got = passes(other, 2)
                assert before[:count] + got == whole[: count + len(got)]
                first, second = map(int, lengths.split(", "))
                assert 1 <= first <= (steps or OF_EPOCH) == second


def test_a_state_that_was_loaded_is_the_state_until_a_batch_comes(loader):
    _, state = stopped(loader("steps=4"), 7)
    going_on = loader("steps=2")
    going_on.load_state_dict(state)
    assert going_on.state_dict() == state
    assert going_on.epoch == 1 and going_on.state_dict() == state
    next(iter(going_on))
    assert going_on.state_dict()["step"] == 1


@pytest.mark.parametrize("steps", ["", "steps=2"])
@pytest.mark.parametrize("rows, how", [(0, {"tail": "pad"}), (3, {"tail": "drop"})])
def test_a_source_without_a_batch_is_an_error_and_no_endless_or_empty_pass(tmp_path, rows, how, steps):
    (tmp_path / "a.csv").write_text("n\n" + "1\n" * rows)
    given = {"steps": 2} if steps else {}
    loader = Loader(
        str(tmp_path / "*.csv"), "csv", options={"types": "int64", "header": "true"}, batch=BATCH, **how, **given
    )  # fmt: skip
    with pytest.raises(pipemill.PipemillError, match="epoch 0 of channel 'open' has no batch"):
        next(iter(loader))
    loader.close()


def test_an_epoch_that_the_program_set_is_the_next_one(loader):
    one = loader("")
    next(iter(one))
    assert one.epoch == 1, "a pass that was left ends its epoch"
    one.set_epoch(3)
    assert one.epoch == 3
    assert {batch.epoch for batch in one} == {3} and one.epoch == 4


def test_a_loader_whose_epochs_are_over_says_so(loader):
    one = loader("epochs=2")
    assert one.epoch == 0
    assert passes(one, 9)[0] == "5, 5, error"
    assert one.epoch == 2


@pytest.mark.parametrize("change, says", [
    ({"version": None}, "expected the keys"), ({"since": {"epoch": 0}}, "in `since`"), ({"since": 3}, "found int"),
])  # fmt: skip
def test_what_is_no_state_is_refused(loader, change, says):
    one = loader("")
    state = {**one.state_dict(), **change}
    if "version" in change:
        del state["version"]
    with pytest.raises(ValueError, match=says):
        one.load_state_dict(state)


def test_a_share_without_an_object_is_an_error(source, monkeypatch):
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(pipemill.SourceError, match="has 2 objects, which are dealt to 3, so rank 2 of 3 gets none"):
        Loader(source, "csv", options={"types": "int64"}, batch=BATCH, tail="pad")
