"""Records as a data set of Hugging Face's library."""

import datasets
import pytest

import pipemill
import pipemill.hf

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def source(tmp_path):
    for number in range(4):
        rows = "".join(f"{n},{'dog' if n % 3 else ''}\n" for n in range(10 * number, 10 * number + 10))
        (tmp_path / f"{number}.csv").write_text(f"id,animal\n{rows}")
    return f"{tmp_path}/*.csv"


def test_each_object_is_a_shard(source):
    data = pipemill.hf.iterable(source)
    assert data.features == {"id": datasets.Value("int64"), "animal": datasets.Value("string")}
    rows = [{"id": n, "animal": "dog" if n % 3 else ""} for n in range(40)]
    assert list(data) == rows == list(data) and data.num_shards == 4
    parts = [[one["id"] for one in data.shard(2, index)] for index in range(2)]
    assert sorted(parts[0] + parts[1]) == list(range(40)) and len(parts[0]) == 20
    shuffled = [one["id"] for one in data.shuffle(seed=7, buffer_size=5)]
    assert sorted(shuffled) == list(range(40)) != shuffled


def test_a_state_goes_on(source):
    data = pipemill.hf.iterable(source)
    for stop in (0, 1, 10, 25, 40):
        rows = iter(data)
        before = [next(rows)["id"] for _ in range(stop)]
        state = data.state_dict()
        again = pipemill.hf.iterable(source)
        again.load_state_dict(state)
        assert before + [one["id"] for one in again] == list(range(40))


def test_all_types_have_features(tmp_path):
    from test_arrow import AVRO, AVRO_FIELDS

    data = pipemill.hf.iterable(AVRO, fields=AVRO_FIELDS)
    first = next(iter(data))
    assert len(first) == len(data.features) > 25
    assert (first["kind"], first["strings"], first["string"]) == ("A", [], "0")
    with pytest.raises(pipemill.SourceError, match="no file matches"):
        pipemill.hf.iterable(f"{tmp_path}/*.nothing")
