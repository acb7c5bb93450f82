"""`pipemill cat --output arrow`: an independent reader of Arrow IPC reads what the JSON lines say.
DuckDB reads it too.
"""

import base64
import datetime
import json
import pathlib
import random
import struct
import subprocess
import sys

import duckdb
import nanoarrow as na
import nanoarrow.ipc
import numpy as np
import pyarrow
import pytest
from e2e import PATIENCE, PIPEMILL, run

FIXTURES = pathlib.Path(__file__).parents[2] / "plugins/avro/tests/fixtures"


def arrow(*args, **more):
    """The schema and the records of the output, as Python objects."""
    done = run("cat", "--output", "arrow", *args, **more)
    assert done.returncode == 0, done.stderr
    with na.ipc.InputStream.from_readable(done.stdout) as source, na.ArrayStream(source) as stream:
        schema = stream.schema
        return schema, [record for batch in stream for record in batch.to_pylist()]


def jsonl(*args, **more):
    done = run("cat", "--output", "jsonl", *args, **more)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["fields"] for line in done.stdout.splitlines()]


def plain(value):
    """A value of the JSON lines, as Arrow's readers return it."""
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    if isinstance(value, list):
        return [plain(one) for one in value]
    return {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}.get(value, value)


#: The types that the decoder for JSON Lines has.
TYPES = ["bool", "int32", "int64", "float32", "float64", "utf8"]
SHAPES = {"": (), "[3]": (3,), "[]": (None,)}


def number(word, rng):
    if word == "bool":
        return rng.random() < 0.5
    if word.startswith("int"):
        low, high = (-(2 ** (int(word[3:]) - 1)), 2 ** (int(word[3:]) - 1) - 1)
        return rng.choice([low, high, rng.randint(low, high)])
    # These are exact in all of them.
    return rng.choice([0.0, -1.5, 2.0, 96.0, 0.25])


def value(word, shape, rng):
    if shape:
        size = rng.randrange(4) if shape[0] is None else shape[0]
        return [value(word, shape[1:], rng) for _ in range(size)]
    if word == "utf8":
        return rng.choice(["", "a", "é日本", "\u0000\n\"", "long " * 50])
    return number(word, rng)


def specs():
    """A field of each type and shape, and the same again that may be absent."""
    for word in TYPES:
        for brackets, shape in SHAPES.items():
            if brackets and (word == "bool" or word == "utf8" and brackets != "[]"):
                continue
            for optional in ("", "?"):
                yield word, brackets, shape, optional


@pytest.mark.parametrize("seed", range(3))
def test_all_types_and_shapes(tmp_path, seed):
    rng = random.Random(seed)
    fields = [(f"f{index}", *spec) for index, spec in enumerate(specs())]
    records = [
        {
            name: None if optional and rng.random() < 0.4 else value(word, shape, rng)
            for name, word, _, shape, optional in fields
        }
        for _ in range([1, 9, 300][seed])
    ]
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    option = ",".join(f"/{name}:{word}{brackets}{optional}" for name, word, brackets, _, optional in fields)
    args = ["-d", "jsonl", "-o", f"fields={option}", path]
    schema, found = arrow(*args)
    assert found == records
    assert [field.name for field in schema.fields] == [name for name, *_ in fields]
    assert [field.nullable for field in schema.fields] == [bool(optional) for *_, optional in fields]
    assert jsonl(*args) == [json.loads(json.dumps(record)) for record in records]


def test_several_batches_and_a_choice_of_records(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("".join(f"{n},{n * 0.5},t{n}\n" for n in range(300_000)))
    args = ["-d", "csv", "-o", "types=f0:int64,f1:float64,f2:utf8", path]
    _, all_of_them = arrow(*args)
    assert all_of_them == [{"f0": n, "f1": n * 0.5, "f2": f"t{n}"} for n in range(300_000)]
    for skip, limit in [(0, 1), (0, 0), (5, 7), (100_000, 150_000), (299_999, 5), (400_000, 5)]:
        _, some = arrow(*args, "--skip", skip, "--limit", limit, "--fields", "f2,f0")
        assert some == [{"f2": f"t{n}", "f0": n} for n in range(300_000)][skip : skip + limit]


def test_types_of_avro():
    fields = "boolean,long,double,bytes,string,fixed,kind,other_kind,ints,doubles,strings,blobs,null"
    args = ["-d", "avro", "-o", f"fields={fields}", FIXTURES / "apache-null.avro"]
    schema, found = arrow(*args)
    types = {field.name: field.type.name for field in schema.fields}
    assert types["fixed"] == "FIXED_SIZE_LIST" and types["blobs"] == "LIST" and types["kind"] == "DICTIONARY"
    wanted = [{name: plain(value) for name, value in record.items()} for record in jsonl(*args)]
    assert len(found) > 5
    # NaN does not equal itself.
    assert str(found) == str(wanted).replace("'nan'", "nan").replace("'inf'", "inf").replace("'-inf'", "-inf")


def test_dates_and_times_of_avro():
    args = ["-d", "avro", "-o", "fields=date,time", FIXTURES / "apache-null.avro"]
    schema, found = arrow(*args)
    assert [field.type.name for field in schema.fields] == ["DATE32", "TIME32"]
    start = datetime.date(1970, 1, 1)
    for one, other in zip(found, jsonl(*args)):
        assert (one["date"] - start).days == other["date"]
        time = one["time"]
        seconds = (time.hour * 60 + time.minute) * 60 + time.second
        assert seconds * 1000 + time.microsecond // 1000 == other["time"]


@pytest.mark.parametrize("dtype", "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8".split())
@pytest.mark.parametrize("shape", [(), (4, 3)])
def test_arrays_of_numpy(tmp_path, dtype, shape):
    array = np.random.default_rng(1).integers(0, 100, (20, *shape)).astype(dtype)
    np.savez(tmp_path / "in.npz", x=array)
    _, found = arrow("-d", "npz", "-o", "array=x", tmp_path / "in.npz")
    assert [record["x"] for record in found] == array.tolist()


def test_an_empty_input_is_a_stream_without_records(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    _, found = arrow("-d", "lines", tmp_path / "empty")
    assert found == []


def test_a_failure_leaves_the_stream_without_its_end(tmp_path):
    """A reader can tell that records are missing: the stream has no end mark."""
    path = tmp_path / "in.csv"
    path.write_bytes(b"1\n2\nx\n")
    done = run("cat", "-d", "csv", "-o", "types=int32", "--output", "arrow", path)
    assert done.returncode == 65 and b"`x`" in done.stderr or b"78" in done.stderr
    end = struct.pack("<iI", -1, 0)
    assert done.stdout and not done.stdout.endswith(end)
    path.write_bytes(b"1\n2\n")
    done = run("cat", "-d", "csv", "-o", "types=int32", "--output", "arrow", path)
    assert done.stdout.endswith(end)


def test_duckdb_reads_all_plain_types(tmp_path):
    """By pyarrow's reader, as docs/cli.md says, and by nanoarrow's."""
    path = tmp_path / "in.jsonl"
    records = [
        {"b": True, "i": -5, "l": 2**62, "f": 0.25, "d": -1.5, "t": "é日本", "x": [1.0, 2.0], "n": [7]},
        {"b": False, "i": 2**31 - 1, "l": None, "f": 96.0, "d": 2.0, "t": "", "x": [0.5, 0.0], "n": []},
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    fields = "/b:bool,/i:int32,/l:int64?,/f:float32,/d:float64,/t:utf8,/x:float32[2],/n:int64[]"
    stream = run("cat", "-d", "jsonl", "-o", f"fields={fields}", "--output", "arrow", path).stdout
    types = {"b": "BOOLEAN", "i": "INTEGER", "l": "BIGINT", "f": "FLOAT", "d": "DOUBLE", "t": "VARCHAR"}
    types |= {"x": "FLOAT[2]", "n": "BIGINT[]"}
    wanted = [tuple(tuple(v) if name == "x" else v for name, v in record.items()) for record in records]
    people = pyarrow.ipc.open_stream(stream)
    relation = duckdb.sql("from people")
    assert dict(zip(relation.columns, map(str, relation.types))) == types
    assert relation.fetchall() == wanted
    with na.ipc.InputStream.from_readable(stream) as source:
        people = na.ArrayStream(source)
        assert duckdb.sql("from people").fetchall() == wanted


def test_duckdb_queries_a_pipe(tmp_path):
    """The program of docs/cli.md, and one of many batches whose answer is known."""
    page = (pathlib.Path(__file__).parents[2] / "docs/cli.md").read_text()
    _, program = page.split("$ cat mean.py\n")
    program, rest = program.split("$ pipemill ", 1)
    command, printed = rest.split(" | python mean.py\n")
    (tmp_path / "people.csv").write_text('name,age\nAda,36\n"Grace, ""Amazing""",\n')
    assert query(tmp_path, program, command.split()) == printed.splitlines()[0] + "\n"
    (tmp_path / "people.csv").write_text("age\n" + "".join(f"{n}\n" for n in range(300_000)))
    command = "cat -o types=int64 --output arrow people.csv".split()
    assert query(tmp_path, program, command) == "[(300000, 149999.5)]\n"


def query(folder, program, command):
    """The output of a Python program that reads a command's output from its standard input."""
    with subprocess.Popen([PIPEMILL, *command], cwd=folder, stdout=subprocess.PIPE) as cat:
        done = subprocess.run(
            [sys.executable, "-c", program], stdin=cat.stdout, capture_output=True, text=True, timeout=PATIENCE
        )
        cat.stdout.close()
    assert (done.returncode, cat.returncode) == (0, 0), done.stderr
    return done.stdout
