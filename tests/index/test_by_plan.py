"""An index whose objects are counted by their plans is that of an index for which all records were read,
but for the lengths of values, and nearly no byte is read for it.
"""

import gzip
import random
import shutil
import sys
import threading
from pathlib import Path

import numpy as np
import pipemill
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from counting import bucket, counted  # noqa: F401 (fixtures)
from e2e import PATIENCE, run

sys.path.insert(0, str(Path(__file__).parent.parent / "plugin"))
from test_arrow_parts import write as write_arrow
from test_megatron import write as write_megatron
from test_parquet_parts import rows


def parquet(folder):
    rng = random.Random(5)
    for number, count in enumerate([4000, 0, 5500]):
        data = rows(4000 * (number > 0), max(count, 1), rng).slice(0, count)
        pq.write_table(data, folder / f"{number}.parquet", row_group_size=700)
    return 9500


def arrow(folder):
    rng = random.Random(6)
    for number in range(2):
        write_arrow(folder / f"{number}.arrow", rows(4000 * number, 4000, rng), 700)
    return 8000


def megatron(folder):
    rng = np.random.default_rng(7)
    documents = [[rng.integers(0, 1000, 300, np.uint16) for _ in range(40)] for _ in range(200)]
    write_megatron(folder / "a.bin", documents)
    return 8000


FORMATS = {
    "parquet": (parquet, {}),
    "arrow": (arrow, {"columns": "id,noise"}),
    "megatron": (megatron, {}),
}


@pytest.fixture(params=FORMATS)
def data(request, tmp_path):
    """A folder, the number of its records, and how it is decoded."""
    make, options = FORMATS[request.param]
    folder = tmp_path / "in"
    folder.mkdir()
    return folder, make(folder), {"decoder": request.param, "options": options}


def shown(index):
    """What the index says of the records."""
    done = run("index", "show", index)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().splitlines()


def digest(index):
    return next(line for line in shown(index) if line.startswith("digest"))


def both(source, tmp_path, **settings):
    """The index of a source whose records were read, and the one by plans."""
    read, planned = tmp_path / "read.index", tmp_path / "planned.index"
    pipemill.index(source, read, distance="16KiB", **settings)
    pipemill.index(source, planned, distance="16KiB", by_plan=True, **settings)
    return read, planned


def test_it_knows_what_reading_all_records_would_tell(data, tmp_path):
    source, count, settings = data
    read, planned = both(source, tmp_path, **settings)
    expected, found = pq.read_table(read), pq.read_table(planned)
    assert sum(found["records"].to_pylist()) == count
    assert found.drop_columns("places").equals(expected.drop_columns("places"))
    # Decoding may begin at more places than where a part begins.
    for some, more in zip(found["places"].to_pylist(), expected["places"].to_pylist()):
        assert all(place in more for place in some)
    assert any(found["places"].to_pylist())
    assert digest(planned) == digest(read)
    fields = [line.split()[:3] for line in shown(read) if line.startswith("field ")]
    assert fields == [line.split()[:3] for line in shown(planned) if line.startswith("field ")]
    assert any(line.startswith("counted") for line in shown(planned))
    assert not any(line.startswith("counted") for line in shown(read))


def test_its_records_are_those_of_the_data(data, tmp_path):
    source, count, settings = data
    _, planned = both(source, tmp_path, **settings)
    shuffle = {"seed": 3, "blocks": "64KiB"}
    with pipemill.open(source, batch=512, **settings) as stream:
        name = stream.fields[0].name
        wanted = [np.asarray(one).tolist() for batch in stream for one in batch[name]]
    assert len(wanted) == count
    for workers in (1, 2):
        with pipemill.open(planned, batch=512, workers=workers, shuffle=shuffle, add_fields=["__index__"]) as stream:
            assert stream.records == count
            found = {int(at): np.asarray(one).tolist() for batch in stream for one, at in zip(batch[name], batch["__index__"])}
        assert list(found) != sorted(found)
        assert [found[at] for at in range(count)] == wanted


def test_nearly_nothing_of_objects_in_s3_is_read(counted, tmp_path):  # noqa: F811
    source = tmp_path / "buckets/data/rows"
    source.mkdir(parents=True)
    rng = random.Random(8)
    for number in range(3):
        data = pa.table({"noise": pa.array([rng.randbytes(200) for _ in range(40_000)], pa.binary())})
        pq.write_table(data, source / f"{number}.parquet", row_group_size=4000)
    stored = sum(path.stat().st_size for path in source.iterdir())
    index = tmp_path / "train.index"
    counted.taken()
    pipemill.index(counted.bucket.replace("train", "rows"), index, by_plan=True)
    _, fetched = counted.taken()
    assert fetched < stored / 4, (fetched, stored)
    assert sum(pq.read_table(index)["records"].to_pylist()) == 120_000
    assert b"all 3 objects are as they were" in run("index", "check", index).stdout


@pytest.fixture
def in_s3(tmp_path):
    """Objects in S3, whose directories alone are requested: they are larger than those that are fetched as a whole."""
    folder = tmp_path / "buckets/data/rows"
    folder.mkdir(parents=True)
    rng = random.Random(10)
    for number in range(9):
        data = pa.table({"noise": pa.array([rng.randbytes(1000) for _ in range(1200 + number)], pa.binary())})
        pq.write_table(data, folder / f"{number}.parquet", row_group_size=500)
    return folder


def held(counted, name, until):
    """Holds the requests for an object back until others have begun. Returns those that have come until then."""
    wanted, missing, before = threading.Event(), set(until), []

    def hold(one, _):
        missing.discard(one)
        if not missing:
            wanted.set()
        if one == name:
            assert wanted.wait(PATIENCE), missing
            before.extend(name for name, _ in counted.ranges)

    counted.before = hold
    return before


def test_several_plans_are_made_at_once(counted, tmp_path, in_s3):  # noqa: F811
    source = counted.bucket.replace("train", "rows")
    one, other = tmp_path / "one.index", tmp_path / "other.index"
    words = ("index", "--by-plan", "--distance", "64KiB", source)
    assert run(*words, "--workers", "1", "--out", one).returncode == 0
    # The first two are those that the fields are learned from.
    counted.ranges = []
    before = held(counted, "2.parquet", ["3.parquet", "4.parquet"])
    done = run(*words, "--workers", "3", "--out", other)
    assert done.returncode == 0, done.stderr
    assert {"3.parquet", "4.parquet"} <= set(before)
    # No more than three wait for the first of them.
    assert not {"7.parquet", "8.parquet"} & set(before), before
    assert other.read_bytes() == one.read_bytes()


def test_the_first_object_that_is_wrong_is_named(counted, tmp_path, in_s3):  # noqa: F811
    for number in (3, 4):
        path = in_s3 / f"{number}.parquet"
        path.write_bytes(path.read_bytes()[:-4] + b"none")
    held(counted, "3.parquet", ["4.parquet", "5.parquet"])
    index = tmp_path / "x.index"
    done = run("index", "--by-plan", "--workers", "4", counted.bucket.replace("train", "rows"), "--out", index)
    assert done.returncode and b"3.parquet" in done.stderr and b"4.parquet" not in done.stderr, done.stderr
    assert not index.exists()


def test_a_number_that_is_wrong_is_found_by_reading(tmp_path):
    path, index = tmp_path / "a.parquet", tmp_path / "a.index"
    noise = random.Random(9)
    pq.write_table(pa.table({"noise": pa.array([noise.randbytes(20) for _ in range(5000)], pa.binary())}), path)
    data = bytearray(path.read_bytes())
    # The footer says it of the file and of the row group, as a signed varint.
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    before, after = b"\x90\x4e", b"\x92\x4e"
    for at in data.index(before, footer), data.rindex(before):
        data[at : at + 2] = after
    path.write_bytes(data)
    pipemill.index(path, index, by_plan=True)
    assert pq.read_table(index)["records"].to_pylist() == [5001]
    with pytest.raises(pipemill.DecodeError, match="in row group 0: expected 1 more rows"):
        with pipemill.open(index) as stream:
            for _ in stream:
                pass
    with pytest.raises(pipemill.DecodeError):
        pipemill.index(path, index)


def test_what_has_no_counts_is_read(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    parquet(source)
    # It can be read from its start alone.
    (source / "3.parquet.gz").write_bytes(gzip.compress((source / "0.parquet").read_bytes()))
    read, planned = both(source, tmp_path, decoder="parquet")
    assert pq.read_table(planned)["records"].to_pylist() == [4000, 0, 5500, 4000]
    assert digest(planned) == digest(read)
    (tmp_path / "lines").write_bytes(b"a\nb\n")
    read, planned = both(tmp_path / "lines", tmp_path, decoder="lines")
    # It has the lengths of values.
    assert shown(planned) == shown(read)


def test_parts_and_an_update(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    parquet(source)
    read, planned = both(source, tmp_path, decoder="parquet")
    for number in range(2):
        part = tmp_path / f"{number}.index"
        pipemill.index(source, part, decoder="parquet", part=(number, 2), by_plan=number == 0)
    done = run("index", "merge", tmp_path / "1.index", tmp_path / "0.index", "--out", tmp_path / "all.index")
    assert done.returncode == 0, done.stderr
    assert digest(tmp_path / "all.index") == digest(read)
    assert any(line.startswith("counted") for line in shown(tmp_path / "all.index"))
    shutil.copy(source / "0.parquet", source / "4.parquet")
    for index in (read, planned):
        pipemill.index(update=index)
    assert digest(planned) == digest(read)
    assert any(line.startswith("counted") for line in shown(planned))


@pytest.mark.parametrize("option", ["--skip-errors", "--objects-only", "--progress=x"])
def test_it_does_not_go_with(tmp_path, option):
    done = run("index", "--by-plan", option, "--out", tmp_path / "x.index", tmp_path)
    assert done.returncode == 64 and option.split("=")[0].encode() in done.stderr
