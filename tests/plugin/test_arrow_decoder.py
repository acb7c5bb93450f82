"""The decoder for Arrow gives the values that pyarrow reads, whatever the types, batches, dictionaries
and compression are, of streams and of files.
"""

import datetime
import decimal
import io
import json
import pathlib
import random
import struct

import numpy as np
import pipemill
import polars as pl
import pyarrow as pa
import pytest
from e2e import run

FIXTURES = pathlib.Path(__file__).parents[2] / "plugins"


def decode(path, *args):
    """The table of a file, and the names of its columns."""
    done = run("cat", "--output", "arrow", "-d", "arrow", "--max-record", "1GiB", *args, path)
    assert done.returncode == 0, done.stderr
    return pa.ipc.open_stream(io.BytesIO(done.stdout)).read_all()


def read(path):
    """What pyarrow reads."""
    data = path.read_bytes()
    reader = pa.ipc.open_file if data.startswith(b"ARROW1") else pa.ipc.open_stream
    return reader(data).read_all()


def plain(value, kind):
    """A value as pipemill has it: decimals are text, times are numbers, fixed bytes are numbers."""
    if value is None:
        return None
    if pa.types.is_dictionary(kind):
        return plain(value, kind.value_type)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind) or (
        pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    ):
        return [plain(one, kind.value_type) for one in value]
    if pa.types.is_fixed_size_binary(kind) and isinstance(value, bytes):
        return list(value)
    if isinstance(value, datetime.datetime) and value.tzinfo:
        return value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return value


#: Types whose values are compared as numbers: Python's own have fewer digits or another form.
NUMBERS = (pa.types.is_timestamp, pa.types.is_time, pa.types.is_duration, pa.types.is_date)


def numbers(column):
    """A column of times as numbers, with nulls."""
    kind = column.type
    if pa.types.is_date64(kind):
        column, kind = column.cast(pa.date32()), pa.date32()
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return column.cast(pa.int32()).to_pylist()
    return column.cast(pa.int64()).to_pylist() if any(test(kind) for test in NUMBERS) else column.to_pylist()


def same(found, expected, path):
    assert found.num_rows == expected.num_rows, path
    assert found.column_names == expected.column_names, path
    for name in found.column_names:
        ours, theirs = found[name], expected[name]
        kind = theirs.type
        if any(test(kind) for test in NUMBERS):
            assert numbers(ours) == numbers(theirs), f"{path}: column {name}: {kind}"
        else:
            theirs = [plain(one, kind) for one in theirs.to_pylist()]
            ours = [list(one) if isinstance(one, bytes) and pa.types.is_fixed_size_binary(kind) else one
                    for one in ours.to_pylist()]
            assert repr(ours) == repr(theirs), f"{path}: column {name}: {kind}"


def text(rng):
    return rng.choice(["", "a", "äöü", "x" * rng.randint(0, 300), str(rng.random()), "中文", "exactly 12 b"])


def half(rng):
    return np.float16(rng.random())


def money(digits, scale):
    return lambda rng: decimal.Decimal(rng.randint(-(10**digits) + 1, 10**digits - 1)).scaleb(-scale)


def some(value, most):
    return lambda rng: [value(rng) for _ in range(rng.randint(0, most))]


def day(rng):
    return datetime.date(1969, 1, 1) + datetime.timedelta(rng.randint(0, 30000))


def single(rng):
    return struct.unpack("f", struct.pack("f", rng.random()))[0]


#: A type, and a value of it.
TYPES = {
    "null": (pa.null(), lambda rng: None),
    "bool": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "int8": (pa.int8(), lambda rng: rng.randint(-128, 127)),
    "int16": (pa.int16(), lambda rng: rng.randint(-(2**15), 2**15 - 1)),
    "int32": (pa.int32(), lambda rng: rng.choice([-(2**31), 2**31 - 1, rng.randint(0, 9)])),
    "int64": (pa.int64(), lambda rng: rng.choice([-(2**63), 2**63 - 1, rng.randint(0, 9)])),
    "uint8": (pa.uint8(), lambda rng: rng.randint(0, 255)),
    "uint16": (pa.uint16(), lambda rng: rng.randint(0, 2**16 - 1)),
    "uint32": (pa.uint32(), lambda rng: rng.randint(0, 2**32 - 1)),
    "uint64": (pa.uint64(), lambda rng: rng.choice([2**64 - 1, rng.randint(0, 9)])),
    "half": (pa.float16(), half),
    "float": (pa.float32(), single),
    "double": (pa.float64(), lambda rng: rng.choice([0.5, float("inf"), rng.random()])),
    "text": (pa.string(), text),
    "large_text": (pa.large_string(), text),
    "text_view": (pa.string_view(), text),
    "bytes": (pa.binary(), lambda rng: rng.randbytes(rng.randint(0, 40))),
    "large_bytes": (pa.large_binary(), lambda rng: rng.randbytes(rng.randint(0, 40))),
    "bytes_view": (pa.binary_view(), lambda rng: rng.randbytes(rng.randint(0, 40))),
    "fixed": (pa.binary(5), lambda rng: rng.randbytes(5)),
    "date": (pa.date32(), day),
    "date_ms": (pa.date64(), day),
    "time_s": (pa.time32("s"), lambda rng: rng.randint(0, 86_399)),
    "time_ms": (pa.time32("ms"), lambda rng: rng.randint(0, 86_399_999)),
    "time_us": (pa.time64("us"), lambda rng: rng.randint(0, 86_399_999_999)),
    "time_ns": (pa.time64("ns"), lambda rng: rng.randint(0, 86_399_999_999_999)),
    "stamp_s": (pa.timestamp("s", "Europe/Berlin"), lambda rng: rng.randint(-(10**9), 10**9)),
    "stamp_ms": (pa.timestamp("ms", "UTC"), lambda rng: rng.randint(-(10**12), 10**12)),
    "stamp_us": (pa.timestamp("us"), lambda rng: rng.randint(-(10**15), 10**15)),
    "stamp_ns": (pa.timestamp("ns"), lambda rng: rng.randint(-(10**18), 10**18)),
    "duration": (pa.duration("us"), lambda rng: rng.randint(-(10**15), 10**15)),
    "decimal9": (pa.decimal32(9, 2), money(9, 2)),
    "decimal18": (pa.decimal64(18, 0), money(18, 0)),
    "decimal38": (pa.decimal128(38, 10), money(38, 10)),
    "decimal76": (pa.decimal256(76, 40), money(76, 40)),
    "decimal_hundreds": (pa.decimal128(9, -2), money(9, -2)),
    "floats": (pa.list_(pa.float32()), lambda rng: [0.5 * n for n in range(rng.randint(0, 9))]),
    "ints": (pa.large_list(pa.int64()), some(lambda rng: rng.randint(0, 9), 30)),
    "flags": (pa.list_(pa.bool_()), some(lambda rng: rng.random() < 0.5, 20)),
    "pair": (pa.list_(pa.int16(), 2), lambda rng: [rng.randint(0, 9), rng.randint(0, 9)]),
    "words": (pa.list_(pa.string(), 3), lambda rng: [text(rng) for _ in range(3)]),
    "texts": (pa.list_(pa.string()), some(text, 4)),
    "text_views": (pa.list_(pa.string_view()), some(text, 4)),
    "list_view": (pa.list_view(pa.int32()), some(lambda rng: rng.randint(0, 9), 5)),
    "large_list_view": (pa.large_list_view(pa.int8()), some(lambda rng: rng.randint(0, 9), 5)),
    "blobs": (pa.list_(pa.binary()), some(lambda rng: rng.randbytes(3), 4)),
    "prices": (pa.list_(pa.decimal128(9, 2)), some(money(9, 2), 4)),
    "category": (pa.dictionary(pa.int8(), pa.string()), lambda rng: rng.choice(["red", "green", "blue", ""])),
    "number": (pa.dictionary(pa.uint16(), pa.float64()), lambda rng: rng.choice([0.5, 1.5, 2.5])),
    "categories": (pa.list_(pa.dictionary(pa.int32(), pa.string())), some(lambda rng: rng.choice("abc"), 4)),
}


def column(name, rows, rng):
    """Values of a type: all different, or of a few, in any case with or without nulls."""
    kind, value = TYPES[name]
    nulls, few = rng.choice([0, 0, 0.1, 0.9, 1]), rng.random() < 0.4
    pool = [value(rng) for _ in range(rng.randint(1, 20))] if few else None
    values = [None if rng.random() < nulls else rng.choice(pool) if pool else value(rng) for _ in range(rows)]
    nullable = nulls > 0 or name == "null" or rng.random() < 0.5
    if name == "categories":
        lists = pa.array(values, pa.list_(pa.string()))
        return pa.field(name, kind, nullable), pa.ListArray.from_arrays(
            lists.offsets, lists.values.dictionary_encode(), mask=lists.is_null())
    return pa.field(name, kind, nullable), pa.array(values, kind)


def table(rng):
    names = rng.sample(sorted(TYPES), rng.randint(1, 8))
    rows = rng.choice([0, 1, 7, 200, 3000])
    # Slices begin inside of buffers.
    skipped = rng.choice([0, 0, 3])
    fields, arrays = zip(*(column(name, rows + skipped, rng) for name in names))
    table = pa.Table.from_arrays(list(arrays), schema=pa.schema(fields))
    return table.slice(skipped)


def write(path, data, rng):
    """Writes a stream or a file in any of the ways of pyarrow."""
    size = rng.choice([1, 50, 1000, 10**6])
    batches = data.to_batches(max_chunksize=max(size, data.num_rows // 50 or 1))
    for _ in range(rng.choice([0, 0, 2])):
        batches.insert(rng.randint(0, len(batches)), data.slice(0, 0).to_batches()[0] if data.slice(0, 0).to_batches()
                       else pa.RecordBatch.from_pylist([], schema=data.schema))
    how = {"compression": rng.choice([None, "lz4", "zstd"]), "emit_dictionary_deltas": rng.random() < 0.5,
           "use_legacy_format": rng.random() < 0.2}
    is_file = rng.random() < 0.5
    if is_file and how["use_legacy_format"]:
        how["use_legacy_format"] = False
    new = pa.ipc.new_file if is_file else pa.ipc.new_stream
    if is_file:
        how["unify_dictionaries"] = True
    with new(str(path), data.schema, options=pa.ipc.IpcWriteOptions(**how)) as writer:
        if is_file:
            # All batches of a file have the same dictionaries.
            writer.write_table(pa.Table.from_batches(batches, data.schema))
        else:
            for batch in batches:
                writer.write_batch(batch)
    return how


@pytest.mark.parametrize("seed", range(60))
def test_every_value_is_that_of_pyarrow(tmp_path, seed):
    rng = random.Random(seed)
    path = tmp_path / "in.arrow"
    data = table(rng)
    how = write(path, data, rng)
    same(decode(path), read(path), how)


def test_every_type_is_read(tmp_path):
    rng = random.Random(1)
    fields, arrays = zip(*(column(name, 50, rng) for name in TYPES))
    data = pa.Table.from_arrays(list(arrays), schema=pa.schema(fields))
    with pa.ipc.new_file(str(tmp_path / "in.feather"), data.schema) as writer:
        writer.write_table(data)
    same(decode(tmp_path / "in.feather"), data, "all types")
    # The decoder is found by the name and the first bytes.
    done = run("cat", "--output", "count", tmp_path / "in.feather")
    assert done.returncode == 0 and b"50" in done.stdout, done


def others(rows):
    """Columns that can't be fields, and some of whose types have more or fewer buffers than others."""
    ints = pa.array(range(rows), pa.int64())
    kinds = pa.array([at % 2 for at in range(rows)], pa.int8())
    words = pa.array([f"word {at}, which is long" for at in range(rows)], pa.string_view())
    return {
        "map": pa.array([[("a", at)] for at in range(rows)], pa.map_(pa.string(), pa.int64())),
        "sparse": pa.UnionArray.from_sparse(kinds, [ints, words]),
        "dense": pa.UnionArray.from_dense(kinds, pa.array(range(rows), pa.int32()), [ints, words]),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), pa.array(["all"])),
        "people": pa.array([[{"age": at, "names": ["a"]}] for at in range(rows)]),
        "matrix": pa.array([[[1, 2], [3]] for _ in range(rows)], pa.large_list(pa.list_view(pa.int64()))),
        "coded": pa.array([[f"{at % 3}"] for at in range(rows)]).flatten().dictionary_encode(),
        "parts": pa.array([{"x": [{"y": at}], "z": None} for at in range(rows)]),
        "pairs": pa.array([[{"x": at}, {"x": 1}] for at in range(rows)], pa.list_(pa.struct([("x", pa.int16())]), 2)),
    }


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize("seed", range(4))
def test_columns_are_found_between_all_others(tmp_path, compression, seed):
    rng = random.Random(seed)
    columns = [(name, array) for name, array in others(40).items()]
    for name in ["int8", "text_view", "texts", "decimal38", "bool", "null", "pair", "stamp_us"]:
        columns.append((name, column(name, 40, rng)[1]))
    rng.shuffle(columns)
    data = pa.table(dict(columns))
    with pa.ipc.new_stream(str(tmp_path / "in.arrows"), data.schema,
                           options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(data, max_chunksize=15)
    wanted = [name for name, _ in columns if name in TYPES or name == "coded"]
    found = decode(tmp_path / "in.arrows", "-o", f"columns={','.join(wanted)}")
    same(found, data.select(wanted), columns)
    done = run("cat", "-d", "arrow", tmp_path / "in.arrows")
    assert done.returncode == 64 and b"can't be a field of a record; leave it out by" in done.stderr


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_what_polars_writes_is_read(tmp_path, compression):
    rows = pl.DataFrame({
        "id": range(5000),
        "name": [None if at % 7 == 3 else f"the name of number {at % 50}" for at in range(5000)],
        "kind": pl.Series([["a", "b"][at % 2] for at in range(5000)], dtype=pl.Categorical),
        "vector": pl.Series([[at / 2, 1.0] for at in range(5000)], dtype=pl.Array(pl.Float32, 2)),
        "day": [datetime.date(2020, 1, 1) + datetime.timedelta(at) for at in range(5000)],
    })
    rows.write_ipc(tmp_path / "rows.arrow", compression=compression)
    rows.write_ipc_stream(tmp_path / "rows.arrows", compression=compression)
    for path in sorted(tmp_path.iterdir()):
        same(decode(path), read(path), path)


def test_numpy_and_arrow_have_the_values_of_the_file(tmp_path):
    data = pa.table({"x": pa.array([0.5, 1.5, 2.5], pa.float32()), "v": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int16(), 2))})
    with pa.ipc.new_stream(str(tmp_path / "in.arrows"), data.schema) as writer:
        writer.write_table(data)
    with pipemill.open(tmp_path / "in.arrows") as stream:
        batches = [(np.array(batch["x"]), np.array(batch["v"])) for batch in stream]
    assert np.concatenate([x for x, _ in batches]).tolist() == [0.5, 1.5, 2.5]
    assert np.concatenate([v for _, v in batches]).tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.fixture
def folder(tmp_path):
    """Three streams of several batches, as Hugging Face's datasets caches them, with the ids of all."""
    ids = []
    (tmp_path / "in").mkdir()
    for number in range(3):
        data = pa.table({"id": pa.array(range(number * 1000, number * 1000 + 600)),
                         "image": [{"bytes": b"x" * (at % 50), "path": None} for at in range(600)]})
        with pa.ipc.new_stream(str(tmp_path / f"in/data-{number:05}-of-00003.arrow"), data.schema) as writer:
            writer.write_table(data, max_chunksize=100)
        ids += data["id"].to_pylist()
    return tmp_path / "in", ids


@pytest.mark.parametrize("workers", [1, 2])
def test_a_state_inside_of_a_stream_is_taken_up(folder, workers):
    source, ids = folder
    with pipemill.open(source, batch=64, workers=workers) as stream:
        found = [int(one) for _, batch in zip(range(13), stream) for one in batch["id"]]
        state = stream.state_dict()
    with pipemill.open(source, batch=64, workers=workers, state=state) as stream:
        found += [int(one) for batch in stream for one in batch["id"]]
    assert found == ids


def test_an_index_has_the_length_and_the_records(folder, tmp_path):
    source, ids = folder
    pipemill.index(source, tmp_path / "train.index")
    with pipemill.open(tmp_path / "train.index", batch=50) as stream:
        assert (stream.records, stream.batches) == (1800, 36)
        assert [int(one) for batch in stream for one in batch["id"]] == ids
    with pipemill.Dataset(tmp_path / "train.index") as dataset:
        assert [int(dataset[at]["id"]) for at in [1799, 0, 700]] == [ids[1799], ids[0], ids[700]]


def test_a_stream_with_other_columns_is_refused_with_both(folder):
    source, _ = folder
    other = pa.table({"id": pa.array([1.5])})
    with pa.ipc.new_stream(str(source / "data-00003.arrow"), other.schema) as writer:
        writer.write_table(other)
    done = run("cat", source)
    assert done.returncode == 65
    assert b"data-00003.arrow" in done.stderr and b"id (float64" in done.stderr and b"id (int64" in done.stderr


def test_a_file_that_is_cut_short_is_an_error_that_says_where(folder):
    source, ids = folder
    path = source / "data-00000-of-00003.arrow"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    done = run("cat", "-d", "arrow", path)
    assert done.returncode == 65
    assert b"byte offset" in done.stderr and b"the stream is cut short" in done.stderr
    count = done.stdout.count(b"\n")
    assert 0 < count < len(ids) and count % 100 == 0


def test_what_pipemill_writes_as_arrow_is_read_again(tmp_path):
    rows = FIXTURES / "parquet/tests/fixtures/rows-none.parquet"
    written = run("cat", "--output", "arrow", rows)
    (tmp_path / "rows.arrows").write_bytes(written.stdout)
    fields = [[json.loads(line)["fields"] for line in run("cat", path).stdout.splitlines()]
              for path in [rows, tmp_path / "rows.arrows"]]
    assert fields[0] == fields[1] and len(fields[0]) == 60
