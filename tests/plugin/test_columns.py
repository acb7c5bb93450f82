"""Records that a decoder emits field by field reach their consumers as those that it emits one by one:
the same values, whatever the batches, workers and windows are, and numbers as arrays without a copy.
"""

import random

import numpy as np
import pipemill
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from e2e import PATIENCE

#: More rows than are emitted together, and than a slot has room for.
ROWS = 90_000


def table(seed, rows=ROWS):
    """Numbers, nulls alone and in runs, repeated and unique text, lists."""
    rng = np.random.default_rng(seed)
    run = np.repeat(rng.random(rows // 50 + 1) < 0.3, 50)[:rows]
    words = [f"word {number % 700}" for number in range(rows)]
    return pa.table({
        "f": rng.standard_normal(rows),
        "i": pa.array(rng.integers(-9, 9, rows).astype("i4"), mask=rng.random(rows) < 0.1),
        "run": pa.array(np.arange(rows), mask=run),
        "flag": pa.array(rng.random(rows) < 0.5),
        "word": pa.array(words, mask=rng.random(rows) < 0.05),
        "text": [f"ü{number}" * (number % 4) for number in range(rows)],
        "list": pa.array([list(range(number % 5)) for number in range(rows)], pa.list_(pa.int16())),
    })


def write(path, data, how, group=50_000):
    if path.suffix == ".parquet":
        pq.write_table(data, path, row_group_size=group, **how)
        return
    options = pa.ipc.IpcWriteOptions(compression=how.get("compression"))
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, data.schema, options=options) as out:
        out.write_table(data, max_chunksize=group)


WRITTEN = [
    ("a.parquet", {"compression": "snappy"}),
    ("a.parquet", {"compression": "zstd", "use_dictionary": False, "data_page_size": 20_000}),
    ("a.parquet", {"compression": "none", "data_page_version": "2.0"}),
    ("a.arrow", {}),
    ("a.arrow", {"compression": "lz4"}),
]

WAYS = [
    {},
    {"batch": 1000},
    {"batch": 999, "workers": 3, "ring": {"slot_size": "256KiB"}},
    {"batch": 40_000, "tail": "pad", "ring": {"slot_size": "1MiB"}},
    {"ring": {"slot_size": "64KiB", "slots": 8}},
    {"workers": 2},
]


def rows_of(path, decoder, **way):
    source = {"folder" if path.is_dir() else "file": str(path)}
    channel = {"name": "train", "source": source, "decoder": decoder, **way}
    with pipemill.host({"channel": [channel]}) as host:
        stream = host.connect("train", timeout=PATIENCE)
        return [row for batch in stream for row in batch.to_arrow().to_pylist()]


@pytest.mark.parametrize(("name", "how"), WRITTEN)
def test_each_way_gives_the_rows_of_the_file(tmp_path, name, how):
    data = table(1)
    write(tmp_path / name, data, how)
    expected = data.to_pylist()
    for way in WAYS:
        found = rows_of(tmp_path / name, name[2:], **way)
        assert found[:ROWS] == expected, way
        # Copies of the last record fill the last batch.
        assert found[ROWS:] == [expected[-1]] * (len(found) - ROWS), way


@pytest.mark.parametrize(("name", "how"), WRITTEN[::3])
def test_a_window_gives_each_row_once(tmp_path, name, how):
    data = table(2, 30_000)
    write(tmp_path / name, data, how, 8_000)
    expected = sorted(map(repr, data.to_pylist()))
    for workers in 1, 2:
        shuffle = {"seed": 1, "window": 5_000}
        found = rows_of(tmp_path / name, name[2:], batch=256, workers=workers, shuffle=shuffle)
        assert sorted(map(repr, found)) == expected


@pytest.mark.parametrize(("name", "how"), WRITTEN)
def test_numbers_are_arrays_without_a_copy(tmp_path, name, how):
    data = table(3).select(["f", "text"])
    write(tmp_path / name, data, how)
    found = []
    with pipemill.open(tmp_path / name, batch=5_000, timeout=PATIENCE) as stream:
        for batch in stream:
            array = batch.column("f")
            assert not array.flags.owndata and array.flags.aligned and array.flags.c_contiguous
            found.append(np.array(array))
    assert (np.concatenate(found) == data["f"].to_numpy()).all()


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_objects_that_differ_in_nulls_and_sizes_agree(tmp_path, suffix):
    """One object has no null, one has only nulls, one no row, one a row, and one small blocks."""
    rng = random.Random(5)
    schema = pa.schema([("n", pa.int64()), ("s", pa.string())])
    pieces = [
        {"n": list(range(2000)), "s": [str(number) for number in range(2000)]},
        {"n": [None] * 1500, "s": [None] * 1500},
        {"n": [], "s": []},
        {"n": [7], "s": [None]},
        {"n": [rng.choice([None, 1, 2]) for _ in range(900)], "s": [rng.choice(["", "x" * 5000, None]) for _ in range(900)]},
    ]
    tables = [pa.table(piece, schema=schema) for piece in pieces]
    for number, one in enumerate(tables):
        write(tmp_path / f"{number}{suffix}", one, {"compression": "zstd"}, 100)
    expected = pa.concat_tables(tables).to_pylist()
    for way in WAYS:
        found = rows_of(tmp_path, suffix[1:], **way)
        assert found[: len(expected)] == expected, way
