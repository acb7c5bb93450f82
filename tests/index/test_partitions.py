"""Values of folders as fields, `date=2024-01-01`: those of pyarrow, in any order, with an index and without, after a resume."""

import json
import os
import random
import shutil

import pipemill
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from e2e import PATIENCE, run
from test_access import made

pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
ds = pytest.importorskip("pyarrow.dataset")

FORMATS = {"parquet": ("parquet", {}), "csv": ("csv", {"header": "true", "types": "x:int64"}), "arrow": ("arrow", {})}
TYPES = {"utf8": pa.string(), "int32": pa.int32(), "uint64": pa.uint64(), "float64": pa.float64(), "boolean": pa.bool_()}
TEXTS = ["2024-01-01", "a b", "x/y", "ü€", "100%", "a=b", "%20", "+", "__other__", None]
#: A row that no value of a folder comes from.
WRITTEN = [f"{number} {'x' * (number % 90)}" for number in range(3000)]


def written(folder, format, seed):
    """A folder as pyarrow partitions it; the fields that are asked for, and the rows that pyarrow reads."""
    numbers = random.Random(f"{format} {seed}")
    kinds = {
        "utf8": lambda: numbers.choice(TEXTS),
        "int32": lambda: numbers.choice([0, -7, 2**31 - 1, None]),
        "uint64": lambda: numbers.choice([1, 2**64 - 1]),
        "float64": lambda: numbers.choice([0.5, -1e300, 7.0]),
        "boolean": lambda: numbers.choice([True, False]),
    }
    chosen = [(f"k {at}" if at else "date", numbers.choice(list(kinds))) for at in range(numbers.randrange(1, 4))]
    rows = numbers.randrange(50, 900)
    columns = {name: pa.array([kinds[kind]() for _ in range(rows)], TYPES[kind]) for name, kind in chosen}
    table = pa.table({"x": pa.array(range(rows), pa.int64()), "text": WRITTEN[:rows], **columns})
    schema = pa.schema([(name, TYPES[kind]) for name, kind in chosen])
    flavor = ds.partitioning(schema, flavor="hive")
    ds.write_dataset(table, folder, format=format, partitioning=flavor, max_rows_per_file=97, max_rows_per_group=97)
    expected = ds.dataset(folder, format=format, partitioning=flavor).to_table().to_pylist()
    return [f"{name}={kind}" for name, kind in chosen], sorted(map(repr, expected)), expected


def rows_of(stream):
    return [row for batch in stream for row in batch.to_arrow().to_pylist()]


def read(source, fields, **more):
    with pipemill.open(source, add_fields=fields, timeout=PATIENCE, **more) as stream:
        return rows_of(stream)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("seed", range(4))
def test_values_are_those_of_pyarrow(tmp_path, format, seed):
    data, (decoder, options) = tmp_path / "data", FORMATS[format]
    fields, expected, wanted = written(data, format, seed)
    for more in ({}, {"workers": 3}, {"batch": 20}, {"batch": 20, "workers": 3, "shuffle": {"seed": 1, "window": 90}}):
        rows = read(data, fields, decoder=decoder, options=options, **more)
        assert sorted(map(repr, rows)) == expected
    assert sorted(map(repr, read(data, fields, options=options))) == expected
    index = made(data, tmp_path / "x.index", decoder, options, "--distance", "4KiB")
    for more in ({"batch": 20, "shuffle": {"seed": 3, "blocks": "64KiB"}}, {"workers": 3}):
        assert sorted(map(repr, read(index, fields, **more))) == expected
    parts = [read(index, fields, rank=(rank, 2), batch=16, shuffle=7) for rank in range(2)] if len(expected) > 200 else [read(index, fields)]
    assert sorted(repr(row) for part in parts for row in part) == expected
    with pipemill.Dataset(index, add_fields=fields) as dataset:
        every = random.Random(seed).sample(range(len(dataset)), len(dataset))
        assert sorted(map(repr, dataset[every])) == expected
    names = [field.partition("=")[0] for field in fields]
    printed = run("cat", data, "-d", decoder, *(part for pair in options.items() for part in ("-o", "=".join(pair))), "--add-fields", ",".join(fields))
    rows = [json.loads(line)["fields"] for line in printed.stdout.splitlines()]
    assert sorted(repr([row[name] for name in ["x", *names]]) for row in rows) == sorted(repr([row[name] for name in ["x", *names]]) for row in wanted)


@pytest.mark.parametrize("format", FORMATS)
def test_objects_in_s3_and_the_cache(bucket, tmp_path, format):  # noqa: F811
    data, (decoder, options) = tmp_path / "buckets/data/train", FORMATS[format]
    shutil.rmtree(data)
    fields, expected, _ = written(data, format, 2)
    cached = {"s3": f"{bucket}/", "cache": {"path": str(tmp_path / "cache"), "size": "64MiB"}}
    for source in (f"{bucket}/", cached, cached):
        for workers in (1, 3):
            rows = read(source, fields, decoder=decoder, options=options, workers=workers)
            assert sorted(map(repr, rows)) == expected
    index = made(f"{bucket}/", tmp_path / "x.index", decoder, options, "--add-fields", ",".join(fields))
    assert sorted(map(repr, read(index, None, batch=30, shuffle={"seed": 5, "blocks": "64KiB"}))) == expected
    with pipemill.Dataset(index) as dataset:
        assert sorted(map(repr, dataset)) == expected


def small(folder, paths, text="x,text\n1,a\n2,b\n"):
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


TYPED = FORMATS["csv"][1]


def test_an_index_records_them(tmp_path):
    data = small(tmp_path / "data", ["date=1/c=de/0.csv", "date=1/c=en/0.csv", "date=2/c=__HIVE_DEFAULT_PARTITION__/0.csv"])
    index = made(data, tmp_path / "x.index", "csv", TYPED, "--add-fields", "date=int32,c=utf8")
    shown = run("index", "show", index).stdout.decode().splitlines()
    assert shown[-3:-1] == ["added    date  int32", "added    c  utf8"]
    expected = [(date, c) for date, c in ((1, "de"), (1, "en"), (2, None)) for _ in range(2)]
    assert [(row["date"], row["c"]) for row in pipemill.cat(index)] == expected
    assert [(row["date"], row["c"]) for row in read(index, None)] == expected
    # A channel that names fields has these.
    assert [list(row) for row in read(index, ["__index__", "date=utf8"])] == [["x", "text", "__index__", "date"]] * 6
    with pipemill.Dataset(index) as dataset:
        assert [(row["date"], row["c"]) for row in dataset] == expected
        for first, second in (dataset.split([0.5, 0.5], seed=2, by="date"), dataset.split([0.5, 0.5], seed=2, by="c")):
            assert len(first) + len(second) == 6
        first, second = dataset.split([0.5, 0.5], seed=1, by="date")
        assert not {row["date"] for row in first} & {row["date"] for row in second}
    with pipemill.Dataset(index, fields="text", add_fields=["date=utf8"], skip=[0]) as dataset:
        assert [list(row.values()) for row in dataset] == [["b", "1"], ["a", "1"], ["b", "1"], ["a", "2"], ["b", "2"]]
        first, second = dataset.split([0.5, 0.5], seed=1, by="date")
        assert len(first) + len(second) == 5
    # With a skip list, and from an index of objects alone.
    assert [row["c"] for row in read({"index": str(index), "skip": [0, 3]}, None)] == ["de", "en", None, None]
    alone = tmp_path / "objects.index"
    assert run("index", data, "--out", alone, "--objects-only", "--add-fields", "date=int32,c=utf8").returncode == 0
    assert [(row["date"], row["c"]) for row in read(alone, None, decoder="csv", options=TYPED)] == expected
    # Without the fields, the digest is another one.
    other = made(data, tmp_path / "y.index", "csv", TYPED)
    digest = [run("index", "show", one).stdout.decode().splitlines()[-1] for one in (index, other)]
    assert digest[0] != digest[1]


def test_an_index_of_objects_that_differ_is_refused(tmp_path):
    data = small(tmp_path / "data", ["date=1/0.csv", "date=2/0.csv"])
    index = made(data, tmp_path / "x.index", "csv", TYPED, "--add-fields", "date=int32")
    wanted = [("date=x/0.csv", "its folder `date=x`: expected int32, found \"x\""), ("other=1/0.csv", "no folder of its path is named `date=…`")]
    for path, why in wanted:
        small(data, [path])
        for command in (["--update", index], [data, "--out", tmp_path / "y.index", "--add-fields", "date=int32"]):
            for more in ([], ["--objects-only"]) if "--update" not in command else ([],):
                refused = run("index", *command, *more)
                assert refused.returncode != 0 and path in refused.stderr.decode() and why in refused.stderr.decode()
        shutil.rmtree((data / path).parent)
    small(data, ["date=3/0.csv"])
    assert run("index", "--update", index).returncode == 0
    assert [row["date"] for row in pipemill.cat(index)] == [1, 1, 2, 2, 3, 3]
    # Parts with other fields are of other indexes.
    for part, words in ((0, "date=int32"), (1, "date=utf8")):
        made(data, tmp_path / f"{part}.index", "csv", TYPED, "--part", f"{part}/2", "--add-fields", words)
    merged = run("index", "merge", tmp_path / "0.index", tmp_path / "1.index", "--out", tmp_path / "z.index")
    assert merged.returncode != 0 and b"the indexes have different added fields" in merged.stderr
    made(data, tmp_path / "1.index", "csv", TYPED, "--part", "1/2", "--add-fields", "date=int32")
    assert run("index", "merge", tmp_path / "0.index", tmp_path / "1.index", "--out", tmp_path / "z.index").returncode == 0
    assert [row["date"] for row in pipemill.cat(tmp_path / "z.index")] == [1, 1, 2, 2, 3, 3]
    # The index knows the field, so the data may not have it.
    own = small(tmp_path / "own", ["x=1/0.csv"])
    refused = run("index", own, "--out", tmp_path / "own.index", "-o", "header=true", "--add-fields", "x=utf8")
    assert refused.returncode != 0 and b"have a field `x` of their own" in refused.stderr


def test_an_object_that_differs_is_refused_before_its_first_record(tmp_path):
    paths = [f"date={date}/c=de/{date}.csv" for date in range(5)]
    for at, (path, why) in enumerate((
        ("date=3/country=de/3.csv", "no folder of its path is named `c=…`, which `add_fields` asks for; it has `date`, `country`"),
        ("date=3.5/c=de/3.csv", 'its folder `date=3.5`: expected int32, found "3.5"'),
        ("date=3/c=de/c=en/3.csv", "two folders of its path are named `c=…`"),
    )):
        data = small(tmp_path / str(at), [*paths[:3], path, *paths[4:]])
        for more in ({}, {"workers": 3}, {"batch": 3}, {"on_error": "skip"}, {"workers": 3, "on_error": "skip", "on_plugin_error": "skip-object"}):
            seen = []
            with pytest.raises(pipemill.PipemillError) as raised:
                with pipemill.open(data, "csv", options=TYPED, add_fields=["date=int32", "c=utf8"], timeout=PATIENCE, **more) as stream:
                    for batch in stream:
                        seen += batch["date"].tolist()
            assert why in str(raised.value) and str(data / path) in str(raised.value)
            assert seen == [0, 0, 1, 1, 2, 2][: len(seen)] and len(seen) >= 6 - more.get("batch", 0)
        printed = run("cat", data, "--add-fields", "date=int32,c=utf8")
        assert printed.returncode != 0 and why in printed.stderr.decode() and path in printed.stderr.decode()


def test_a_state_goes_on_with_the_same_fields(tmp_path):
    data = tmp_path / "data"
    fields, _, _ = written(data, "parquet", 3)
    index = made(data, tmp_path / "x.index", "parquet", {}, "--distance", "4KiB")
    numbers = random.Random(1)
    for source in (data, index):
        for more in ({}, {"shuffle": 3}, {"shuffle": {"seed": 3, "window": 100}}, {"shuffle": {"seed": 3, "blocks": "64KiB"}}, {"shuffle": {"seed": 3, "blocks": "64KiB", "shards": 2}}):
            if source == data and isinstance(more.get("shuffle"), dict) and "blocks" in more["shuffle"]:
                continue
            how = {"decoder": "parquet", "batch": 20, **more}
            whole = read(source, fields, **how)
            for workers in (1, 3) if "shards" not in str(more) else (1,):
                with pipemill.open(source, add_fields=fields, workers=workers, timeout=PATIENCE, **how) as stream:
                    before = [row for _ in range(numbers.randrange(1, len(whole) // 20)) for row in next(stream).to_arrow().to_pylist()]
                    state = json.loads(json.dumps(stream.state_dict()))
                assert before == whole[: len(before)]
                assert read(source, fields, state=state, workers=workers, **how) == whole[len(before) :]
            for other in (None, ["__object__"], [word.replace("date=utf8", "date=int32") for word in fields][:-1] or None):
                with pytest.raises(pipemill.PipemillError, match="`schema`|the fields of its records|fields"):
                    read(source, other, state=state, **how)


def test_what_can_not_be_added_is_said(tmp_path):
    data = small(tmp_path / "data", ["x=1/0.csv"])
    wrong = [
        (data, ["date"], 'for a folder\'s value, write "date=utf8"'),
        (data, ["date=text"], "NAME=TYPE for the value of a folder"),
        (data, ["date=bytes"], "NAME=TYPE for the value of a folder"),
        (data, ["date=utf8", "date=int32"], "names `date` twice"),
        (data, ["x=utf8"], "have a field `x` of their own"),
        ({"fifo": str(tmp_path / "fifo")}, ["x=utf8"], "the input has no folder `x=…`"),
    ]
    os.mkfifo(tmp_path / "fifo_0")
    for source, fields, message in wrong:
        with pytest.raises(pipemill.PipemillError) as raised:
            read(source, fields, decoder="csv", options=TYPED)
        assert message in str(raised.value)
    config = tmp_path / "pipemill.toml"
    config.write_text(f'[[channel]]\nname = "x"\ndecoder = "csv"\nsource = {{ files = "{data}/**/*.csv" }}\nadd_fields = ["y z=int64", "__object__"]\n')
    checked = run("config", "check", config)
    assert checked.returncode == 0, checked.stderr
    assert b'add_fields = ["y z=int64", "__object__"]' in run("config", "show", config).stdout
    assert run("cat", data, "--add-fields", "date").returncode == 64
    assert run("index", data, "--out", tmp_path / "i", "--add-fields", "__index__").returncode == 64
