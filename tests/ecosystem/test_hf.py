"""Records as a data set of Hugging Face's library."""

import io

import datasets
import numpy as np
import pytest
from arrow_data import FakeHost, Rows, socket_path
from e2e import PATIENCE

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


def npy(values):
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


@pytest.mark.parametrize(
    "files, decoder, options",
    [
        ({"a.csv": b"id,v\n1,2\n", "b.csv": b"id,v\n3,0.5\n5,7\n"}, None, None),
        ({"a.csv": b"id,v\n1,2\n", "b.csv": b"3,4\n5,6\n"}, "csv", {"header": "true", "types": "int64"}),
        ({"a.npy": npy(np.array([1, 2])), "b.npy": npy(np.array([0.5, 1.5]))}, None, None),
    ],
)
def test_an_object_that_open_refuses_is_refused_with_the_same_text(tmp_path, files, decoder, options):
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    before, seen = [], []
    with pytest.raises(pipemill.DecodeError, match=r"/b\.") as theirs:
        before.extend(pipemill.cat(tmp_path, decoder, options=options))
    data = pipemill.hf.iterable(tmp_path, decoder, options=options)
    with pytest.raises(pipemill.DecodeError) as ours:
        seen.extend(data)
    assert str(ours.value) == str(theirs.value) and ours.value.object == theirs.value.object
    assert len(seen) == len(before) > 0, "the records before it"


def test_what_a_record_does_not_have_is_none_or_what_the_program_says(tmp_path):
    rows = ('{"n": 1, "t": "x", "v": [1.5]}', "{}", '{"n": 3, "t": "", "v": []}')
    (tmp_path / "a.jsonl").write_text("".join(f"{row}\n" for row in rows))
    more = {"options": {"fields": "n=/n:int64?,t=/t:utf8?,v=/v:float32[]?"}}
    first, second, third = pipemill.hf.iterable(tmp_path, **more)
    assert first == {"n": 1, "t": "x", "v": [1.5]} and third == {"n": 3, "t": "", "v": []}
    assert second == {"n": None, "t": None, "v": None}
    values = {"n": -1, "t": "none", "v": [0.5, 2]}
    assert list(pipemill.hf.iterable(tmp_path, absent=values, **more)) == [first, values, third]
    with pytest.raises(ValueError, match="absent=0.5 for field 'n', which is int64: expected a value"):
        pipemill.hf.iterable(tmp_path, absent={"n": 0.5}, **more)


def test_a_uuid_is_its_bytes():
    fields = [("u", "uint8", [16], {"logical": "uuid", "nullable": True})]

    def script(peer):
        peer.welcome(fields)
        peer.epoch(0, [Rows([(bytes(range(16)),), (None,)])])
        peer.stream_end()
        peer.linger()

    with socket_path() as path, FakeHost(path, script), pipemill.connect("train", path, wait=PATIENCE) as stream:
        for batch in stream:
            # Hugging Face has no type for them.
            assert pipemill.hf._rows(batch, {}) == [{"u": bytes(range(16))}, {"u": None}]
            assert pipemill.hf._rows(batch, {"u": [1] * 16})[1] == {"u": b"\1" * 16}
