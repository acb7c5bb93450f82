"""Batches as a data set of TensorFlow."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import tensorflow as tf  # noqa: E402
from arrow_data import msgpack_channel, serving  # noqa: E402
from e2e import PATIENCE  # noqa: E402

import pipemill  # noqa: E402
import pipemill.tf  # noqa: E402

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "data.jsonl"
    records = (
        f'{{"n": {n}, "f": [{n}, 0.5], "v": {list(range(n % 4))}, "t": "text ä {n}", "w": {["a"] * (n % 3)}, "b": {"true" if n % 2 else "false"}}}\n'
        for n in range(50)
    )
    path.write_text("".join(records).replace("'", '"'))
    return path


OPTIONS = {"fields": "n=/n:int64,f=/f:float32[2],v=/v:int32[],t=/t:utf8,w=/w:utf8[],b=/b:bool"}


def test_types_and_values_in_two_epochs(lines):
    data = pipemill.tf.dataset(lines, options=OPTIONS, batch=20)
    ragged = [tf.RaggedTensorSpec([None, None], kind, ragged_rank=1) for kind in (tf.int32, tf.string)]
    assert data.element_spec == {
        "n": tf.TensorSpec([None], tf.int64),
        "f": tf.TensorSpec([None, 2], tf.float32),
        "v": ragged[0],
        "t": tf.TensorSpec([None], tf.string),
        "w": ragged[1],
        "b": tf.TensorSpec([None], tf.bool),
    }
    for _ in range(2):
        at = 0
        for batch in data.prefetch(4):
            rows = range(at, at + len(batch["n"]))
            assert batch["n"].numpy().tolist() == list(rows)
            assert (batch["f"].numpy() == [[n, 0.5] for n in rows]).all()
            assert batch["v"].to_list() == [list(range(n % 4)) for n in rows]
            assert batch["t"].numpy().tolist() == [f"text ä {n}".encode() for n in rows]
            assert batch["w"].to_list() == [[b"a"] * (n % 3) for n in rows]
            assert batch["b"].numpy().tolist() == [n % 2 == 1 for n in rows]
            at += len(rows)
        assert at == 50


def test_a_channel():
    with serving(msgpack_channel("x:float16"), data=b"\x81\xa1x\x01" * 10) as host:
        data = pipemill.tf.dataset("train", socket=host.socket, wait=PATIENCE)
        assert sum(float(tf.reduce_sum(batch["x"])) for batch in data) == 10


def test_what_tensorflow_has_no_tensors_for(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 2)))
    with pytest.raises(ValueError, match="'train' is neither a file here nor a channel that a host is"):
        pipemill.tf.dataset("train")
    with pytest.raises(ValueError, match="is no channel, but socket= is the path of a host's socket"):
        pipemill.tf.dataset("train.csv", socket="/run/socket")


def test_absent_values(tmp_path):
    (tmp_path / "a.csv").write_text("id,age\n1,5\n2,\n")
    data = pipemill.tf.dataset(tmp_path / "a.csv")
    with pytest.raises(tf.errors.OpError, match="'age' is absent in 1 of 2 records.*absent={'age': ...}"):
        list(data)
    (batch,) = pipemill.tf.dataset(tmp_path / "a.csv", absent={"age": -1})
    assert batch["age"].numpy().tolist() == [5, -1]
    with pytest.raises(ValueError, match="absent=0.5 for field 'age', which is int64"):
        pipemill.tf.dataset(tmp_path / "a.csv", absent={"age": 0.5})
    with pytest.raises(ValueError, match="absent= names 'agee'; the records have 'id', 'age'"):
        pipemill.tf.dataset(tmp_path / "a.csv", absent={"agee": 0})

    rows = ('{"v": [1], "t": "x", "w": ["y"]}', "{}", '{"v": [], "t": "", "w": []}')
    (tmp_path / "a.jsonl").write_text("".join(f"{row}\n" for row in rows))
    more = {"options": {"fields": "v=/v:int32[]?,t=/t:utf8?,w=/w:utf8[]?"}}
    for names in ("v", "vt"):
        given = {"v": [8, 9], "t": "none", "w": []}
        data = pipemill.tf.dataset(tmp_path / "a.jsonl", absent={name: given[name] for name in names}, **more)
        with pytest.raises(tf.errors.OpError, match=f"'{'t' if names == 'v' else 'w'}' is absent in 1 of 3"):
            list(data)
    (batch,) = pipemill.tf.dataset(tmp_path / "a.jsonl", absent=given, **more)
    assert batch["v"].to_list() == [[1], [8, 9], []] and batch["w"].to_list() == [[b"y"], [], []]
    assert batch["t"].numpy().tolist() == [b"x", b"none", b""]


def test_a_source_that_has_other_types_in_the_next_iteration_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    data = pipemill.tf.dataset(tmp_path)
    assert [batch["data"].numpy().tolist() for batch in data] == [[0, 1, 2]]
    np.save(tmp_path / "a.npy", np.arange(3.0))
    with pytest.raises(tf.errors.OpError, match=r"have the fields data \(float64\); those .* have data \(int64\)"):
        list(data)
