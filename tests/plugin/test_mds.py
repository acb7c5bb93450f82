"""Shards of MosaicML's streaming datasets: the values are those that the format's own reader reads."""

import base64
import json
import pathlib
import shutil
import struct

import numpy as np
import pipemill
import pytest
from e2e import PATIENCE, run

FIXTURES = pathlib.Path(__file__).parents[2] / "plugins/mds/tests/fixtures"
VALUES = FIXTURES / "values.mds"


def reads(name):
    """The samples that the format's own reader reads."""
    return json.loads((FIXTURES / f"{name}.json").read_text())


def numbers(values):
    """Numbers of the reader's JSON, as float64 or as int64."""
    return np.asarray(values).flatten().tolist()


def same(record, expected):
    """Whether a record has the values of a sample."""
    for name, theirs in expected.items():
        ours = record[name]
        if name in ("tokens", "pixels"):
            assert numbers(record[f"{name}.shape"]) == theirs["shape"]
        if isinstance(theirs, dict) and "values" in theirs:
            assert numbers(ours) == theirs["values"], name
        elif name == "data":
            assert bytes(ours) == base64.b64decode(theirs)
        elif name == "facts":
            assert json.loads(str(ours)) == theirs
        elif name in ("digits", "price", "ratio"):
            assert str(ours) == str(theirs)
        else:
            assert ours == theirs, name
    assert set(record) == set(expected) | {"tokens.shape", "pixels.shape"}


@pytest.mark.parametrize("name", ["values.mds", "values.mds.zstd"])
def test_values_are_those_of_the_formats_own_reader(name):
    # The decoder is found by the name and the first bytes.
    found = list(pipemill.cat(FIXTURES / name))
    expected = reads("values")
    assert len(found) == len(expected) == 9
    for record, sample in zip(found, expected):
        same(record, sample)


def pixels(raw):
    """The shape and the pixels of a picture that the encoding `pil` has."""
    width, height, mode = struct.unpack_from("<3I", raw)
    assert raw[12 : 12 + mode] == b"RGB"
    return {"shape": [height, width, 3], "values": list(raw[12 + mode :])}


def test_pictures_are_the_bytes_that_were_stored():
    stored = (FIXTURES / "pictures.mds").read_bytes()
    found = list(pipemill.cat(FIXTURES / "pictures.mds"))
    for number, (record, sample) in enumerate(zip(found, reads("pictures"), strict=True)):
        assert record["label"] == sample["label"] == number
        assert pixels(bytes(record["raw"])) == sample["raw"]
        assert [pixels(bytes(one)) for one in record["raws"]] == sample["raws"]
        jpegs = [bytes(one) for one in [record["jpg"], *record["jpgs"]]]
        pngs = [bytes(one) for one in [record["png"], *record["pngs"]]]
        assert (len(jpegs), len(pngs)) == (number + 2, number + 1)
        assert all(one.startswith(b"\xff\xd8") and one.endswith(b"\xff\xd9") and one in stored for one in jpegs)
        assert all(one.startswith(b"\x89PNG") and one.endswith(b"IEND\xaeB`\x82") and one in stored for one in pngs)


def test_a_dataset_is_its_shards_without_the_index(tmp_path):
    for number in range(3):
        shutil.copy(VALUES, tmp_path / f"shard.{number:05}.mds")
    (tmp_path / "index.json").write_text(json.dumps({"shards": [], "version": 2}))
    ids = [sample["id"] for sample in reads("values")] * 3
    for workers in (1, 2):
        with pipemill.open(f"{tmp_path}/*.mds", batch=4, workers=workers, timeout=PATIENCE) as stream:
            assert [int(one) for batch in stream for one in batch["id"]] == ids
    done = run("cat", "-d", "mds", tmp_path)
    assert done.returncode == 65 and b"index.json" in done.stderr and b"as in `*.mds`" in done.stderr, done.stderr


def test_a_state_inside_of_a_shard_is_taken_up(tmp_path):
    ids = [sample["id"] for sample in reads("values")]
    with pipemill.open(VALUES, batch=2, timeout=PATIENCE) as stream:
        found = [int(one) for _, batch in zip(range(2), stream) for one in batch["id"]]
        state = stream.state_dict()
    with pipemill.open(VALUES, batch=2, state=state, timeout=PATIENCE) as stream:
        found += [int(one) for batch in stream for one in batch["id"]]
    assert found == ids
    pipemill.index(VALUES, tmp_path / "values.index")
    with pipemill.Dataset(tmp_path / "values.index") as dataset:
        assert [int(dataset[at]["id"]) for at in (8, 0, 4)] == [ids[8], ids[0], ids[4]]


def test_the_kit_tests_shards():
    done = run("plugin", "test", "mds", "--cases", "40", "--data", VALUES)
    assert done.returncode == 0, done.stdout + done.stderr
