"""The decoder for Parquet gives the values that pyarrow reads, whatever the file's types, encodings,
compression, pages and row groups are.
"""

import datetime
import decimal
import io
import json
import os
import random
import struct

import duckdb
import pipemill
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from e2e import run


def decode(path, *args):
    """The table of a file, and the names of its columns."""
    done = run("cat", "--output", "arrow", "-d", "parquet", "--max-record", "1GiB", *args, path)
    assert done.returncode == 0, done.stderr
    return pa.ipc.open_stream(io.BytesIO(done.stdout)).read_all()


def read_as(kind):
    """The type that a column of this type has after it was read."""
    if pa.types.is_decimal(kind):
        return pa.string()
    if pa.types.is_fixed_size_binary(kind):
        return pa.list_(pa.uint8(), kind.byte_width)
    if pa.types.is_time32(kind):
        return kind
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit, "UTC")
    return kind


def words(kind):
    """A type as text, without the names of a list's elements, which differ."""
    return str(kind).replace(" not null", "").replace("item", "element").replace("large_", "")


def plain(value):
    """A value as pipemill has it: decimals are text, times are numbers or Python's own."""
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value


def same(found, expected, path):
    assert found.num_rows == expected.num_rows
    for name in found.column_names:
        ours, theirs = found[name], expected[name]
        kind = theirs.type
        assert words(ours.type) == words(read_as(kind)), f"{path}: {name}"
        if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_date(kind):
            wide = pa.int32() if pa.types.is_date32(kind) else pa.int64()
            narrow = pa.int32() if pa.types.is_time32(kind) else wide
            theirs = theirs.cast(narrow).cast(wide)
            if pa.types.is_time32(ours.type):
                ours = ours.cast(pa.int32())
            ours = ours.cast(wide)
        ours = [list(one) if isinstance(one, bytes) and pa.types.is_fixed_size_binary(kind) else one
                for one in ours.to_pylist()]
        theirs = [list(one) if isinstance(one, bytes) and pa.types.is_fixed_size_binary(kind) else one
                  for one in map(plain, theirs.to_pylist())]
        assert repr(ours) == repr(theirs), f"{path}: column {name}: {kind}"


def text(rng):
    return rng.choice(["", "a", "äöü", "x" * rng.randint(0, 300), str(rng.random()), "中文"])


#: A type, and a value of it.
TYPES = {
    "bool": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "int8": (pa.int8(), lambda rng: rng.randint(-128, 127)),
    "int16": (pa.int16(), lambda rng: rng.randint(-(2**15), 2**15 - 1)),
    "int32": (pa.int32(), lambda rng: rng.choice([-(2**31), 2**31 - 1, rng.randint(0, 9)])),
    "int64": (pa.int64(), lambda rng: rng.choice([-(2**63), 2**63 - 1, rng.randint(0, 9)])),
    "uint8": (pa.uint8(), lambda rng: rng.randint(0, 255)),
    "uint16": (pa.uint16(), lambda rng: rng.randint(0, 2**16 - 1)),
    "uint32": (pa.uint32(), lambda rng: rng.randint(0, 2**32 - 1)),
    "uint64": (pa.uint64(), lambda rng: rng.choice([2**64 - 1, rng.randint(0, 9)])),
    "half": (pa.float16(), lambda rng: struct.unpack("e", struct.pack("e", rng.random()))[0]),
    "float": (pa.float32(), lambda rng: struct.unpack("f", struct.pack("f", rng.random()))[0]),
    "double": (pa.float64(), lambda rng: rng.choice([0.5, float("inf"), rng.random()])),
    "text": (pa.string(), text),
    "bytes": (pa.binary(), lambda rng: rng.randbytes(rng.randint(0, 40))),
    "fixed": (pa.binary(5), lambda rng: rng.randbytes(5)),
    "date": (pa.date32(), lambda rng: datetime.date(1969, 1, 1) + datetime.timedelta(rng.randint(0, 30000))),
    "time_ms": (pa.time32("ms"), lambda rng: rng.randint(0, 86_399_999)),
    "time_us": (pa.time64("us"), lambda rng: rng.randint(0, 86_399_999_999)),
    "stamp_ms": (pa.timestamp("ms", "UTC"), lambda rng: rng.randint(-(10**12), 10**12)),
    "stamp_us": (pa.timestamp("us", "UTC"), lambda rng: rng.randint(-(10**15), 10**15)),
    "stamp_ns": (pa.timestamp("ns"), lambda rng: rng.randint(-(10**18), 10**18)),
    "decimal9": (pa.decimal128(9, 2), lambda rng: decimal.Decimal(rng.randint(-(10**9) + 1, 10**9 - 1)).scaleb(-2)),
    "decimal18": (pa.decimal128(18, 0), lambda rng: decimal.Decimal(rng.randint(-(10**18) + 1, 10**18 - 1))),
    "decimal38": (pa.decimal128(38, 10), lambda rng: decimal.Decimal(rng.randint(-(10**30), 10**30)).scaleb(-10)),
    "floats": (pa.list_(pa.float32()), lambda rng: [0.5 * n for n in range(rng.randint(0, 9))]),
    "ints": (pa.list_(pa.int64()), lambda rng: [rng.randint(0, 9) for _ in range(rng.randint(0, 30))]),
    "texts": (pa.list_(pa.string()), lambda rng: [text(rng) for _ in range(rng.randint(0, 4))]),
    "blobs": (pa.list_(pa.binary()), lambda rng: [rng.randbytes(3) for _ in range(rng.randint(0, 4))]),
}


def column(name, rows, rng):
    """Values of a type: all different, or of a few, in any case with or without nulls."""
    kind, value = TYPES[name]
    nulls, few = rng.choice([0, 0, 0.1, 0.9, 1]), rng.random() < 0.4
    pool = [value(rng) for _ in range(rng.randint(1, 20))] if few else None
    values = [None if rng.random() < nulls else rng.choice(pool) if pool else value(rng) for _ in range(rows)]
    nullable = nulls > 0 or rng.random() < 0.5
    return pa.field(name, kind, nullable), pa.array(values, kind)


def table(rng):
    names = rng.sample(sorted(TYPES), rng.randint(1, 8))
    rows = rng.choice([0, 1, 7, 200, 3000])
    fields, arrays = zip(*(column(name, rows, rng) for name in names))
    return pa.Table.from_arrays(list(arrays), schema=pa.schema(fields))


ENCODINGS = {
    "DELTA_BINARY_PACKED": {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "date",
                            "time_ms", "time_us", "stamp_ms", "stamp_us", "stamp_ns"},
    "DELTA_LENGTH_BYTE_ARRAY": {"text", "bytes", "json"},
    "DELTA_BYTE_ARRAY": {"text", "bytes", "fixed", "uuid", "json"},
    "BYTE_STREAM_SPLIT": {"float", "double", "int32", "int64", "fixed", "half", "uuid"},
    "RLE": {"bool"},
}


def write(path, data, rng, leaves=None, **more):
    """Writes a file in any of the ways of pyarrow. `leaves` has the names of the types of its columns, if these have
    other names."""
    how = {
        "row_group_size": rng.choice([1, 50, 1000, 10**6]),
        # pyarrow cannot read nested columns that it wrote in pages of one value.
        "data_page_size": rng.choice([1 if leaves is None else 1000, 1000, 2**20]),
        "write_batch_size": rng.choice([1, 100, 1024]),
        "data_page_version": rng.choice(["1.0", "2.0"]),
        "compression": rng.choice(["none", "snappy", "gzip", "zstd", "lz4", "brotli"]),
        "version": "2.6",
        "write_page_checksum": rng.random() < 0.5,
        "write_page_index": rng.random() < 0.5,
        "store_decimal_as_integer": rng.random() < 0.5,
        "use_dictionary": rng.random() < 0.5,
        "dictionary_pagesize_limit": rng.choice([100, 2**20]),
    }
    if data.num_rows > 500:
        how["row_group_size"] = max(how["row_group_size"], 100)
    if not how["use_dictionary"]:
        leaves = {name: name for name in data.column_names} if leaves is None else leaves
        fits = {path: [one for one, kinds in ENCODINGS.items() if name in kinds] for path, name in leaves.items()}
        how["column_encoding"] = {name: rng.choice(ones) for name, ones in fits.items() if ones and rng.random() < 0.7}
    pq.write_table(data, path, **how, **more)
    return how


@pytest.mark.parametrize("seed", range(40))
def test_every_value_is_that_of_pyarrow(tmp_path, seed):
    rng = random.Random(seed)
    path = tmp_path / "in.parquet"
    data = table(rng)
    how = write(path, data, rng)
    same(decode(path), pq.read_table(path), how)


def rows_of(con):
    return con.sql(
        "select i as id, i / 3.0 as x, 'name ' || (i % 50) as name, case when i % 7 = 0 then null else i::varchar end"
        " as maybe, [i, i + 1] as numbers, date '2020-01-01' + (i::int % 1000) as day, i % 2 = 0 as flag,"
        " timestamp '2020-01-01' + interval (i) second as time, ('b' || i)::blob as data from range(5000) t(i)"
    )


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "lz4_raw", "brotli", "uncompressed"])
def test_files_of_duckdb_and_polars_are_read(tmp_path, codec):
    con = duckdb.connect()
    rows = rows_of(con)
    rows.create("rows")
    for version in ["V1", "V2"]:
        how = f"format parquet, compression {codec}, parquet_version {version}, row_group_size 2048"
        con.sql(f"copy rows to '{tmp_path / version}.parquet' ({how})")
    rows.pl().write_parquet(tmp_path / "polars.parquet", compression=codec.removesuffix("_raw"), row_group_size=700)
    for path in sorted(tmp_path.glob("*.parquet")):
        same(decode(path), pq.read_table(path), path)


@pytest.fixture
def folder(tmp_path):
    """Three files of several row groups, with the records of all of them."""
    names = []
    for number in range(3):
        data = pa.table({"id": pa.array(range(number * 1000, number * 1000 + 600)), "name": [f"n{i % 7}" for i in range(600)]})
        (tmp_path / "in").mkdir(exist_ok=True)
        pq.write_table(data, tmp_path / f"in/{number}.parquet", row_group_size=100)
        names += data["id"].to_pylist()
    return tmp_path / "in", names


@pytest.mark.parametrize("workers", [1, 2])
def test_a_state_inside_of_a_file_is_taken_up(folder, workers):
    source, ids = folder
    with pipemill.open(source, batch=64, workers=workers) as stream:
        found = [int(one) for _, batch in zip(range(13), stream) for one in batch["id"]]
        state = stream.state_dict()
    with pipemill.open(source, batch=64, workers=workers, state=state) as stream:
        found += [int(one) for batch in stream for one in batch["id"]]
    assert found == ids


def test_an_index_of_parquet_has_its_length_and_its_records(folder, tmp_path):
    source, ids = folder
    pipemill.index(source, tmp_path / "train.index")
    with pipemill.open(tmp_path / "train.index", batch=50) as stream:
        assert (stream.records, stream.batches) == (1800, 36)
        assert [int(one) for batch in stream for one in batch["id"]] == ids
    with pipemill.Dataset(tmp_path / "train.index") as dataset:
        assert [int(dataset[at]["id"]) for at in [1799, 0, 700]] == [ids[1799], ids[0], ids[700]]


def test_a_file_that_changes_its_columns_is_refused_with_both(folder):
    source, _ = folder
    pq.write_table(pa.table({"id": pa.array([1.5])}), source / "3.parquet")
    done = run("cat", source)
    assert done.returncode == 65
    assert b"3.parquet" in done.stderr and b"id (float64" in done.stderr and b"id (int64" in done.stderr


#: Files of `test_files_of_many_shapes`, which are 20 for each schema at most.
FILES = int(os.environ.get("PIPEMILL_PARQUET_FILES", "40"))
#: Types of a value that is no list, and of more than the tests above have.
LEAVES = {name: kind for name, kind in TYPES.items() if not pa.types.is_list(kind[0])} | {
    "uuid": (pa.uuid(), lambda rng: rng.randbytes(16)),
    "json": (pa.json_(), lambda rng: json.dumps({"n": rng.randint(0, 9)})),
    "decimal76": (pa.decimal256(76, 40), lambda rng: decimal.Decimal(rng.randint(-(10**70), 10**70)).scaleb(-40)),
    "nothing": (pa.null(), lambda rng: None),
}


def shape(rng, depth=0, in_list=False):
    """A tree of types: what a column is, with the children of groups."""
    what = rng.choice(["leaf", "leaf", "leaf", "struct"] + ["list", "map"] * (not in_list)) if depth < 4 else "leaf"
    child = lambda in_list: shape(rng, depth + 1, in_list)  # noqa: E731
    match what:
        case "leaf":
            # pyarrow can't make values of these types inside of others.
            but = {"uuid", "json"} if depth else set()
            return what, rng.choice(sorted(set(LEAVES) - but - ({"nothing"} if in_list else set())))
        case "struct":
            names = rng.sample(["x", "y", "z", "key", "list"], rng.randint(1, 3))
            return what, [(name, child(in_list), rng.random() < 0.5) for name in names]
        case "list":
            return what, child(True), rng.random() < 0.5
        case "map":
            return what, ("leaf", rng.choice(["text", "int64", "date", "fixed"])), child(True)


def type_of(tree):
    match tree:
        case "leaf", name:
            return LEAVES[name][0]
        case "struct", children:
            return pa.struct([pa.field(name, type_of(child), may_be_null(child, nullable)) for name, child, nullable in children])
        case "list", child, nullable:
            return pa.list_(pa.field("element", type_of(child), may_be_null(child, nullable)))
        case "map", key, child:
            return pa.map_(type_of(key), type_of(child))


def may_be_null(tree, nullable):
    return nullable or tree == ("leaf", "nothing")


def value_of(tree, rng, nulls, in_list=False):
    """A value; in a list none is null, because a field can't hold that."""
    inside = lambda child: value_of(child, rng, nulls, True)  # noqa: E731
    match tree:
        case "leaf", name:
            return LEAVES[name][1](rng)
        case "struct", children:
            absent = lambda nullable: nullable and not in_list and rng.random() < nulls  # noqa: E731
            return {name: None if absent(nullable) else value_of(child, rng, nulls, in_list) for name, child, nullable in children}
        case "list", child, _:
            return [inside(child) for _ in range(rng.choice([0, 1, 2, rng.randint(0, 20)]))]
        case "map", key, child:
            return [(inside(key), inside(child)) for _ in range(rng.randint(0, 4))]


def flat(name, tree):
    """The fields that a column becomes: a name, and what takes its value out of that of the column."""
    within = lambda take, child: lambda value: None if value is None else take(value, child)  # noqa: E731
    match tree:
        case "leaf", _:
            yield name, lambda value: value
        case "struct", children:
            for one, child, _ in children:
                for path, get in flat(f"{name}.{one}", child):
                    yield path, within(lambda value, get, one=one: get(value[one]), get)
        case "list", child, _:
            for path, get in flat(name, child):
                yield path, within(lambda values, get: [get(one) for one in values], get)
        case "map", key, child:
            for at, (one, of) in enumerate([("key", key), ("value", child)]):
                for path, get in flat(f"{name}.{one}", of):
                    yield path, within(lambda pairs, get, at=at: [get(pair[at]) for pair in pairs], get)


def leaves_of(path, tree):
    """The columns in the file, and the names of their types."""
    match tree:
        case "leaf", name:
            return [(path, name)]
        case "struct", children:
            return [leaf for name, child, _ in children for leaf in leaves_of(f"{path}.{name}", child)]
        case "list", child, _:
            return leaves_of(f"{path}.list.element", child)
        case "map", key, child:
            return leaves_of(f"{path}.key_value.key", key) + leaves_of(f"{path}.key_value.value", child)


def stored(kind):
    """The type with numbers for times: pyarrow has no value of Python for each of them."""
    if isinstance(kind, pa.BaseExtensionType):
        return stored(kind.storage_type)
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_temporal(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(stored(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(stored(kind.key_type), stored(kind.item_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(stored(kind.value_type), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        of = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return of(kind.value_field.with_type(stored(kind.value_type)))
    return kind


def values(column):
    """The values of a column in Python, with decimals as text and bytes of one size as numbers."""
    def canonical(value):
        match value:
            case decimal.Decimal():
                return format(value, "f")
            case list():
                return [canonical(one) for one in value]
            case tuple():
                return tuple(canonical(one) for one in value)
            case dict():
                return {key: canonical(one) for key, one in value.items()}
            case bytes():
                return list(value)
            case _:
                return value

    return [canonical(value) for value in column.cast(stored(column.type)).to_pylist()]


@pytest.mark.parametrize("seed", range(max(8, FILES // 20)))
def test_files_of_many_shapes(tmp_path, seed):
    """Each schema has several files, with other values, encodings, codecs, pages and row groups. They are read by one
    process, all columns or some in another order."""
    rng = random.Random(f"shapes {seed}")
    trees = [(f"c{at}", shape(rng), rng.random() < 0.7) for at in range(rng.randint(1, 6))]
    fields = pa.schema([pa.field(name, type_of(tree), may_be_null(tree, nullable)) for name, tree, nullable in trees])
    tables, how, int96 = [], [], rng.random() < 0.2
    for number in range(max(1, FILES // max(8, FILES // 20))):
        nulls = rng.choice([0, 0.1, 0.9])
        rows = rng.choice([0, 1, 7, 60, 400])
        arrays = []
        for field, (_, tree, nullable) in zip(fields, trees):
            pool = [value_of(tree, rng, nulls) for _ in range(rng.choice([rows, rng.randint(1, 9)]))]
            column = [None if nullable and rng.random() < nulls else rng.choice(pool) for _ in range(rows)]
            arrays.append(pa.array(column, field.type))
        path = tmp_path / f"{number:03}.parquet"
        data = pa.Table.from_arrays(arrays, schema=fields)
        leaves = {path: leaf for name, tree, _ in trees for path, leaf in leaves_of(name, tree)}
        if int96:
            leaves = {path: leaf for path, leaf in leaves.items() if not leaf.startswith("stamp")}
        how.append(write(path, data, rng, leaves, store_schema=rng.random() < 0.5, use_deprecated_int96_timestamps=int96))
        tables.append(pq.read_table(path))
    found = {path: (name, get) for name, tree, _ in trees for path, get in flat(name, tree)}
    wanted = rng.sample(sorted(found), rng.randint(1, len(found))) if rng.random() < 0.4 else list(found)
    ours = decode(tmp_path, "-o", "columns=" + ",".join(wanted))
    assert ours.column_names == wanted
    for path in wanted:
        name, get = found[path]
        theirs = [get(value) for data in tables for value in values(data[name])]
        assert repr(values(ours[path])) == repr(theirs), f"{path} of {fields}, {how}"
