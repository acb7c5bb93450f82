"""Fields that say where a record is from: right in any order, on any rank, with any number of workers, after a resume."""

import gzip
import json
import os
import random

import pipemill
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from e2e import PATIENCE, run
from test_access import FORMATS, TYPED, csv, indexed, made, plain, texts

pytest.importorskip("numpy")

PYTHON = os.environ.get("PIPEMILL_PYTHON", "python3")
INDEX, OBJECT = "__index__", "__object__"
BOTH = [INDEX, OBJECT]
BLOCKS = {"seed": 7, "blocks": "64KiB"}


class Known:
    """The records of an index, and the objects that they are from."""

    def __init__(self, index):
        self.records = list(map(plain, pipemill.cat(index)))
        shown = run("index", "show", index, "--objects").stdout.decode().splitlines()
        objects = [line.split("\t") for line in shown if line.count("\t") == 3]
        self.objects = [name.rpartition("/")[2] for records, _, _, name in objects for _ in range(int(records))]
        assert len(self.objects) == len(self.records)

    def check(self, record, fields=BOTH):
        """The number of a record, which is the one that its fields say."""
        assert list(record)[-len(fields) :] == list(fields)
        index, name = record.pop(INDEX), record.pop(OBJECT, None)
        assert plain(record) == self.records[index]
        assert name is None or name.rpartition("/")[2] == self.objects[index]
        return index


def numbers_of(stream, known):
    """The numbers of all records of each epoch, in their order; as records and as columns."""
    epochs = []
    for epoch in stream.epochs():
        seen = []
        for batch in epoch:
            records = [known.check(record) for record in copies(batch)]
            column = batch[INDEX]
            assert column.dtype == "int64" and column.tolist() == records
            assert [known.objects[number] for number in records] == [str(name).rpartition("/")[2] for name in batch[OBJECT]]
            seen += records
        epochs.append(seen)
    return epochs


def copies(batch):
    from pipemill.copied import copied_records

    return copied_records(batch)


def read(index, known, fields=BOTH, **more):
    with pipemill.open(index, add_fields=fields, timeout=PATIENCE, **more) as stream:
        assert [field.name for field in stream.fields][-len(fields) :] == list(fields)
        return numbers_of(stream, known)


@pytest.mark.parametrize("format", FORMATS)
def test_a_record_is_the_one_of_its_number(tmp_path, format):
    index = indexed(tmp_path, format)
    known = Known(index)
    every = list(range(len(known.records)))
    orders = [{}, {"batch": 37}, {"batch": 37, "tail": "drop"}, {"shuffle": 7}]
    orders += [{"batch": 50, "shuffle": {"seed": 7, "window": 300}}, {"batch": 64, "shuffle": BLOCKS}]
    orders += [{"batch": 64, "shuffle": {**BLOCKS, "window": "1MiB"}}]
    for order in orders:
        for workers in (1, 3):
            [seen] = read(index, known, workers=workers, **order)
            if "shuffle" not in order:
                assert seen == every[: len(seen)]
            if order.get("tail") != "drop":
                assert sorted(seen) == every
            assert len(every) - len(seen) < 37
    [seen] = read(index, known, workers=3, order="any")
    assert sorted(seen) == every
    epochs = read(index, known, epochs=2, batch=64, shuffle=BLOCKS)
    assert epochs[0] != epochs[1] and all(sorted(epoch) == every for epoch in epochs)


def test_the_last_record_that_fills_a_batch_keeps_its_number(tmp_path):
    index = indexed(tmp_path)
    known = Known(index)
    with pipemill.open(index, add_fields=BOTH, batch=1000, tail="pad", timeout=PATIENCE) as stream:
        *_, last = stream
        assert last[INDEX].tolist() == [min(number, len(known.records) - 1) for number in range(last[INDEX][0], last[INDEX][0] + 1000)]


@pytest.mark.parametrize("format", ["csv", "csv.gz", "tfrecord"])
def test_parts_shards_and_ranks(tmp_path, format):
    index = indexed(tmp_path, format)
    known = Known(index)
    every = list(range(len(known.records)))
    for order in ({}, {"shuffle": 7}, {"shuffle": BLOCKS, "batch": 16}, {"shuffle": {**BLOCKS, "shards": 4}, "batch": 16}):
        parts = [read(index, known, rank=(rank, 2), **order)[0] for rank in range(2)]
        assert sorted(parts[0] + parts[1]) == every and all(parts)


def test_a_long_object_that_several_workers_decode(tmp_path):
    """A worker that begins inside of an object does not know which record it begins with."""
    data = tmp_path / "data"
    data.mkdir()
    rows = [f"{number} {'x' * (number % 190)}" for number in range(300_000)]
    (data / "0.csv").write_text("n,text\n1,before\n")
    (data / "1.csv").write_text("n,text\n" + "".join(f"{number},{row}\n" for number, row in enumerate(rows)))
    index = made(data, tmp_path / "x.index", "csv", {"header": "true", "types": "n:int64"})
    for order in ({}, {"batch": 1000}, {"batch": 1000, "shuffle": {"seed": 1, "window": 5000}}, {"order": "any"}):
        seen = []
        with pipemill.open(index, add_fields=BOTH, workers=4, timeout=PATIENCE, **order) as stream:
            for batch in stream:
                numbers = batch[INDEX].tolist()
                assert [0 if number == 0 else number - 1 for number in numbers] == [0 if number == 0 else n for number, n in zip(numbers, batch["n"].tolist())]
                assert {str(name)[-5:] for name in batch[OBJECT]} <= {"0.csv", "1.csv"}
                seen += numbers
        assert sorted(seen) == list(range(300_001)) and ("shuffle" in order or "order" in order or seen == sorted(seen))


@pytest.mark.parametrize("format", ["csv", "csv.gz", "jsonl"])
def test_after_a_resume(tmp_path, format):
    index = indexed(tmp_path, format)
    known, numbers = Known(index), random.Random(format)
    for order in ({}, {"shuffle": {"seed": 3, "window": 200}}, {"shuffle": BLOCKS}, {"shuffle": {**BLOCKS, "shards": 5}}):
        [whole] = read(index, known, batch=20, **order)
        for workers in (1, 3) if "shards" not in order.get("shuffle", {}) else (1,):
            for _ in range(3):
                how = {"add_fields": BOTH, "batch": 20, "workers": workers, **order}
                with pipemill.open(index, timeout=PATIENCE, **how) as stream:
                    before = [number for _ in range(numbers.randrange(1, len(whole) // 20)) for number in next(stream)[INDEX].tolist()]
                    state = json.loads(json.dumps(stream.state_dict()))
                assert before == whole[: len(before)]
                assert read(index, known, batch=20, state=state, workers=workers, **order) == [whole[len(before) :]]


def test_skipped_errors(tmp_path):
    index, data = indexed(tmp_path), tmp_path / "data"
    for path in sorted(data.iterdir()):
        lines = path.read_bytes().split(b"\n")
        for at in range(30, len(lines), 53):
            lines[at] = b"only one"
        path.write_bytes(b"\n".join(lines))
    made(data, index, "csv", TYPED, "--distance", "4KiB", "--skip-errors")
    with pipemill.Dataset(index, on_error="skip", add_fields=BOTH) as dataset:
        expected = {record.pop(INDEX): plain(record) for record in dataset}
    assert sorted(expected) == list(range(len(dataset)))
    for more in ({}, {"batch": 30}, {"batch": 30, "shuffle": BLOCKS}, {"workers": 3}):
        with pipemill.open(index, add_fields=BOTH, on_error="skip", timeout=PATIENCE, **more) as stream:
            seen = {record.pop(INDEX): plain(record) for batch in stream for record in copies(batch)}
        assert seen == expected


def test_random_access(tmp_path):
    index = indexed(tmp_path)
    known = Known(index)
    with pipemill.Dataset(index, add_fields=BOTH) as dataset:
        every = random.Random(1).sample(range(len(dataset)), len(dataset))
        assert [known.check(record) for record in dataset[every]] == every
        assert dataset.batch([5, 3])[INDEX].tolist() == [5, 3]
        first, second = dataset.split([0.5, 0.5], seed=1)
        assert [record[INDEX] for record in second[:5]] == list(second._numbers[:5])
    for fields in ("n", [INDEX, "n"]):
        with pipemill.Dataset(index, fields=fields, add_fields=INDEX) as dataset:
            assert dataset[7] == {"n": 7, INDEX: 7}
            assert list(dataset[7]) == (["n", INDEX] if fields == "n" else [INDEX, "n"])


def test_records_from_s3(bucket, tmp_path):  # noqa: F811
    data = tmp_path / "buckets/data/train"
    for path in data.iterdir():
        path.unlink()
    for seed in range(3):
        (data / f"{seed}.csv").write_bytes(csv(texts(seed)))
    (data / "3.csv.gz").write_bytes(gzip.compress(csv(texts(3))))
    index = made(bucket, tmp_path / "x.index", "csv", TYPED, "--distance", "8KiB")
    known = Known(index)
    for order in ({}, {"workers": 3}, {"batch": 64, "shuffle": BLOCKS}, {"batch": 64, "shuffle": {**BLOCKS, "shards": 4}}):
        [seen] = read(index, known, **order)
        assert sorted(seen) == list(range(len(known.records)))
    with pipemill.Dataset(index, add_fields=BOTH) as dataset:
        assert [known.check(record) for record in dataset] == list(range(len(known.records)))


def test_the_object_needs_no_index(tmp_path):
    indexed(tmp_path)
    data = tmp_path / "data"
    for more in ({}, {"batch": 100}, {"workers": 2}, {"batch": 100, "shuffle": {"seed": 1, "window": 500}}):
        with pipemill.open(data, "csv", options=TYPED, add_fields=[OBJECT], timeout=PATIENCE, **more) as stream:
            seen = {(record[OBJECT], record["n"], record["b"]) for batch in stream for record in copies(batch)}
        assert seen == {(f"{data}/{seed}.csv", n, row.encode()) for seed in range(4) for n, row in enumerate(texts(seed))}
    printed = run("cat", data / "1.csv", "--add-fields", OBJECT, "--fields", f"a,{OBJECT}", "--output", "csv", "--limit", 1)
    assert printed.stdout.decode().splitlines()[1] == f"1-0,{data}/1.csv"
    first = next(pipemill.cat(data, "csv", options=TYPED, add_fields=OBJECT))
    assert list(first) == ["n", "a", "b", OBJECT]


def test_a_state_without_the_fields_is_refused_or_accepted(tmp_path):
    index = indexed(tmp_path)
    known = Known(index)
    for shuffle in (None, BLOCKS, {**BLOCKS, "shards": 2}):
        how = {"batch": 20, "shuffle": shuffle}
        [whole] = read(index, known, **how)
        for then, now in ((None, BOTH), (BOTH, None), ([OBJECT], BOTH)):
            with pipemill.open(index, add_fields=then, timeout=PATIENCE, **how) as stream:
                next(stream), next(stream)
                state = stream.state_dict()
            for _ in range(2):
                with pytest.raises(pipemill.PipemillError, match="`schema`.*accept it: `schema`"):
                    with pipemill.open(index, add_fields=now, state=state, timeout=PATIENCE, **how) as stream:
                        next(stream)
            with pipemill.open(index, add_fields=now, state=state, accept="schema", timeout=PATIENCE, **how) as stream:
                if now:
                    assert numbers_of(stream, known) == [whole[40:]]
                else:
                    assert [plain(record) for batch in stream for record in copies(batch)] == [known.records[number] for number in whole[40:]]


#: Prints a text, the object and the number of each record.
READ = """
import json, pipemill
from pipemill.copied import copied_records
rows = [row for batch in pipemill.connect("x") for row in copied_records(batch)]
print(json.dumps([[row["a"], row["__object__"], row["__index__"]] for row in rows]))
"""


def test_a_mix_has_the_numbers_of_its_channels(tmp_path):
    config, known = tmp_path / "pipemill.toml", {}
    for name, objects in (("one", 4), ("two", 2)):
        (tmp_path / name).mkdir()
        index = indexed(tmp_path / name, objects=objects)
        known[name] = [record["a"] for record in pipemill.cat(index)]
        with config.open("a") as file:
            file.write(f'[[channel]]\nname = "{name}"\nsource = {{ index = "{index}" }}\nadd_fields = ["{OBJECT}", "{INDEX}"]\n')
    mix = '[[channel]]\nname = "x"\nsource = { mix = { one = 1, two = 1 }, until = "all" }\nbatch = 50\n'
    (tmp_path / "read.py").write_text(READ)
    channels = config.read_text()
    config.write_text(channels + mix)
    finished = run("run", "--config", config, "--", PYTHON, tmp_path / "read.py")
    assert finished.returncode == 0, finished.stderr
    seen = {"one": [], "two": []}
    for text, name, number in json.loads(finished.stdout):
        folder = name.split("/")[-3]
        assert text == known[folder][number] and name.endswith(f"/{text[0]}.csv")
        seen[folder].append(number)
    assert {folder: sorted(numbers) for folder, numbers in seen.items()} == {folder: list(range(len(one))) for folder, one in known.items()}
    config.write_text(channels + mix + f'add_fields = ["{OBJECT}"]\n')
    finished = run("config", "check", config)
    assert finished.returncode != 0 and b"a mix decodes nothing; set it in the channels that are mixed" in finished.stderr


def test_what_can_not_be_added_is_said(tmp_path):
    index, data = indexed(tmp_path), tmp_path / "data"
    wrong = [
        (data, {"add_fields": INDEX}, "only an index knows the number that `__index__` is; make one with `pipemill index`"),
        (index, {"add_fields": "__number__"}, "expected a list of `__index__`, `__object__`, and NAME=TYPE for the value of a folder"),
        (index, {"add_fields": [OBJECT, OBJECT]}, "names `__object__` twice"),
    ]
    for source, how, message in wrong:
        with pytest.raises(pipemill.PipemillError) as raised:
            pipemill.open(source, timeout=PATIENCE, **how).close()
        assert message in str(raised.value)
    with pytest.raises(TypeError, match="configuration says that: `add_fields`"):
        pipemill.connect("x", add_fields=OBJECT)
    printed = run("cat", data, "--add-fields", INDEX)
    assert printed.returncode == 64 and b"read from an index" in printed.stderr
    (tmp_path / "own").mkdir()
    (tmp_path / "own/0.csv").write_text("a,__index__\n1,2\n")
    own = made(tmp_path / "own", tmp_path / "own.index", "csv", {"header": "true"})
    with pytest.raises(pipemill.PipemillError, match="have a field `__index__` of their own.*`add_fields`"):
        pipemill.open(own, add_fields=INDEX, timeout=PATIENCE)
    with pytest.raises(pipemill.PipemillError, match="have a field `__index__` of their own"):
        pipemill.Dataset(own, add_fields=INDEX)
    with pipemill.open(own, add_fields=OBJECT, timeout=PATIENCE) as stream:
        assert [[str(value) for value in record.values()] for batch in stream for record in copies(batch)] == [["1", "2", str(tmp_path / "own/0.csv")]]
