"""Batches as a data set of grain."""

import json

import grain
import numpy as np
import pipemill.grain
import pytest
from arrow_data import msgpack_channel, serving
from e2e import PATIENCE

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def source(tmp_path):
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.arange(100 * number, 100 * number + 100.0))
    return f"{tmp_path}/*.npy"


def values(batches):
    return [batch["data"].tolist() for batch in batches]


def test_a_state_goes_on_after_any_batch(source):
    def dataset():
        return pipemill.grain.dataset(source, batch=32, epochs=2).map(lambda batch: batch)

    whole = values(dataset())
    assert [one for batch in whole for one in batch] == [*map(float, range(300))] * 2
    iterator = iter(dataset())
    states = [iterator.get_state()]
    for _ in whole:
        next(iterator)
        states.append(json.loads(json.dumps(iterator.get_state())))
    shapes = [{key: type(value) for key, value in state.items()} for state in states]
    assert all(shape == shapes[0] for shape in shapes)
    for stop in (0, 1, 9, 10, 11, len(whole) - 1):
        iterator.set_state(states[stop])
        assert values(iterator) == whole[stop:]
    iterator.close()


def test_elements_are_copies_that_may_be_kept(source):
    data = pipemill.grain.dataset(source, batch=10)
    assert isinstance(data, grain.IterDataset)
    kept = list(grain.experimental.ThreadPrefetchIterDataset(data, prefetch_buffer_size=8))
    assert [one for batch in values(kept) for one in batch] == [*map(float, range(300))]


def test_a_channel_with_text():
    with serving(msgpack_channel("t:utf8,b:bytes,l:utf8[]"), data=b"\x83\xa1t\xa1x\xa1b\xa1y\xa1l\x91\xa1z") as host:
        data = pipemill.grain.dataset("train", socket=host.socket, wait=PATIENCE)
        assert list(data) == [{"t": ["x"], "b": [b"y"], "l": [["z"]]}]


def test_absent_values_and_arrays_of_any_length(tmp_path):
    rows = ('{"n": 1, "v": [1, 2], "b": "x"}', "{}", '{"n": 3, "v": [3, 4], "b": "y"}')
    (tmp_path / "a.jsonl").write_text("".join(f"{row}\n" for row in rows))
    fields = {"fields": "n=/n:int64?,v=/v:float32[]?,b=/b:bytes?"}
    with pytest.raises(pipemill.AbsentError, match="'n' is absent in 1 of 3 records"):
        list(pipemill.grain.dataset(tmp_path / "a.jsonl", options=fields))
    (one,) = pipemill.grain.dataset(tmp_path / "a.jsonl", options=fields, absent={"n": -1})
    assert one["n"].tolist() == [1, -1, 3] and one["b"] == [b'"x"', None, b'"y"']
    assert one["v"][1] is None and [row.tolist() for row in one["v"][::2]] == [[1, 2], [3, 4]]
    given = {"n": -1, "v": [], "b": b""}
    (one,) = pipemill.grain.dataset(tmp_path / "a.jsonl", options=fields, absent=given)
    assert [row.tolist() for row in one["v"]] == [[1, 2], [], [3, 4]] and one["v"][1].dtype == "f4"
    assert one["b"] == [b'"x"', b"", b'"y"']
