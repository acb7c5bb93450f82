"""A private host decodes nothing before the state has come: the difference is named, whatever
errors the host would have met on its way."""

import os

import pipemill
import pytest
from e2e import PATIENCE

RECORDS = 100


def write(folder, number, lines):
    """The object of this number. Its time stays, so that only its content differs."""
    file = folder / f"{number}.csv"
    file.write_text("v\n" + "".join(f"{line}\n" for line in lines))
    os.utime(file, ns=(number, number))


@pytest.fixture
def folder(tmp_path):
    for number in range(3):
        write(tmp_path, number, range(number * RECORDS, (number + 1) * RECORDS))
    return tmp_path


def opened(folder, state=None, **more):
    return pipemill.open(
        f"{folder}/*.csv", "csv", options={"types": "auto"}, batch=10, epochs=1, state=state,
        timeout=PATIENCE, **more,
    )  # fmt: skip


def state_after(folder, batches):
    with opened(folder) as stream:
        for _ in range(batches):
            next(stream)
        return stream.state_dict()


def damage(folder):
    write(folder, 0, ["1", "x,y,z"] * RECORDS)


def empty(folder):
    for number in range(3):
        (folder / f"{number}.csv").write_text("v\n1\n")


@pytest.mark.parametrize("change", [damage, empty])
@pytest.mark.parametrize("batches", [1, 5, 12, 25])
def test_what_differs_is_named_first(folder, change, batches):
    state = state_after(folder, batches)
    change(folder)
    with pytest.raises((pipemill.StateError, pipemill.RefusedError, pipemill.Refused)) as caught:
        with opened(folder, state) as stream:
            list(stream)
    assert "objects" in str(caught.value)


def test_a_state_goes_on(folder):
    whole = [record for batch in opened(folder) for record in batch.records()]
    for batches in (1, 12, 29):
        state = state_after(folder, batches)
        with opened(folder, state) as stream:
            rest = [record for batch in stream for record in batch.records()]
        assert rest == whole[10 * batches :]
