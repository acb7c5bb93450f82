"""Skip lists: records that never come, in any order; all else is as if the data did not have them."""

import itertools
import json
import pickle
import random

import pipemill
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from counting import counted  # noqa: F401 (a fixture)
from e2e import PATIENCE, run
from test_access import FORMATS, TYPED, csv, indexed, made, plain, texts
from test_added_fields import BLOCKS, INDEX, OBJECT, copies

pytest.importorskip("numpy")


def some_ranges(seed, count):
    """A list of ranges and single numbers in any order, some of which overlap, as a source has it; and all of their numbers."""
    numbers, ranges = random.Random(seed), []
    for _ in range(25):
        first = numbers.randrange(count)
        ranges.append((first, min(first + numbers.choice([0, 0, 1, 5, 70]), count - 1)))
    ranges += [(0, 3), (count - 2, count - 1), (count // 2, count // 2 + 1), (count // 2 + 2, count // 2 + 2)]
    chosen = {number for first, last in ranges for number in range(first, last + 1)}
    return [numbers.choice([first, str(first)]) if first == last else f"{first}-{last}" for first, last in ranges], chosen


def read(source, **more):
    """The numbers in the index of all records, and the records, for each epoch."""
    with pipemill.open(source, add_fields=INDEX, timeout=PATIENCE, **more) as stream:
        epochs = [[(record.pop(INDEX), plain(record)) for batch in epoch for record in copies(batch)] for epoch in stream.epochs()]
        lengths = stream.records, stream.batches
    return epochs, lengths


@pytest.mark.parametrize("format", FORMATS)
def test_skipped_records_never_come(tmp_path, format):
    index = indexed(tmp_path, format)
    whole = list(map(plain, pipemill.cat(index)))
    skip, skipped = some_ranges(format, len(whole))
    source = {"index": str(index), "skip": skip}
    left = [(number, record) for number, record in enumerate(whole) if number not in skipped]
    for order in ({}, {"batch": 37}, {"shuffle": 7}, {"batch": 50, "shuffle": {"seed": 7, "window": 300}}, {"batch": 64, "shuffle": BLOCKS}):
        for workers in (1, 3):
            [seen], (records, batches) = read(source, workers=workers, **order)
            assert seen == left if "shuffle" not in order else sorted(seen) == left
            assert records == len(left) and batches in (None, -(-len(left) // order.get("batch", 1)))
    for order in ({"shuffle": BLOCKS, "batch": 16}, {"shuffle": {**BLOCKS, "shards": 4}, "batch": 16}):
        parts = [read(source, rank=(rank, 2), **order) for rank in range(2)]
        assert sorted(row for [seen], _ in parts for row in seen) == left
        assert [records for _, (records, _) in parts] == [len(seen) for [seen], _ in parts]
        assert abs(len(parts[0][0][0]) - len(parts[1][0][0])) <= (1 if "shards" not in order["shuffle"] else 2)
    with pipemill.Dataset(source, add_fields=INDEX) as dataset:
        assert len(dataset) == len(left)
        every = random.Random(1).sample(range(len(left)), len(left))
        assert [(record.pop(INDEX), plain(record)) for record in dataset[every]] == [left[number] for number in every]


@pytest.mark.parametrize("format", ["csv", "csv.gz", "jsonl", "tfrecord"])
def test_after_a_resume(tmp_path, format):
    """A state knows the number of records that are left before its place, and no other number."""
    index = indexed(tmp_path, format)
    count, numbers = len(pipemill.Dataset(index)), random.Random(format)
    for seed, order in enumerate([{}, {"shuffle": 3}, {"shuffle": {"seed": 3, "window": 200}}, {"shuffle": BLOCKS}, {"shuffle": {**BLOCKS, "shards": 5}}]):
        skip, _ = some_ranges(seed, count)
        # Every third record, so that many places to go on at are next to one that is skipped.
        skip += [str(number) for number in range(0, count, 3)]
        source = {"index": str(index), "skip": skip}
        [whole], _ = read(source, batch=20, **order)
        for workers in (1, 3) if "shards" not in str(order) else (1,):
            for _ in range(4):
                with pipemill.open(source, add_fields=INDEX, batch=20, workers=workers, timeout=PATIENCE, **order) as stream:
                    before = [number for _ in range(numbers.randrange(1, len(whole) // 20)) for number in next(stream)[INDEX].tolist()]
                    state = json.loads(json.dumps(stream.state_dict()))
                assert before == [number for number, _ in whole[: len(before)]]
                assert read(source, batch=20, state=state, workers=workers, **order)[0] == [whole[len(before) :]]


@pytest.mark.parametrize("format", ["csv", "csv.gz", "tfrecord"])
def test_any_number_of_hosts_gets_the_same_batches(tmp_path, format):
    """A job that changes its number of hosts in the middle of an epoch sees each record that is left once."""
    index, numbers = indexed(tmp_path, format), random.Random(format)
    count = len(pipemill.Dataset(index))
    skip, skipped = some_ranges(format, count)
    left = sorted(set(range(count)) - skipped)
    whole = hosts(index, skip, 1, None, None)[0]
    assert sorted(number for step in whole for number in step) == left
    for world in (2, 4, 8):
        assert hosts(index, skip, world, None, None)[0] == whole
    for _ in range(2):
        seen, state = [], None
        while len(seen) < len(whole) - 2:
            steps = min(numbers.randrange(1, len(whole) // 3), len(whole) - 2 - len(seen))
            some, states = hosts(index, skip, numbers.choice([1, 2, 4, 8]), steps, state)
            seen += some
            assert seen == whole[: len(seen)]
            state = numbers.choice(states)


def hosts(index, skip, world, steps, state):
    """The numbers of the records that all hosts get together, for each step; and the states of the hosts."""
    each, states = [], []
    for rank in range(world):
        how = {"shuffle": {**BLOCKS, "shards": 8}, "batch": 32 // world, "rank": (rank, world), "state": state}
        with pipemill.open(index, skip=skip, add_fields=INDEX, timeout=PATIENCE, **how) as stream:
            each.append([batch[INDEX].tolist() for batch in itertools.islice(stream, steps)])
            states.append(json.loads(json.dumps(stream.state_dict())))
    return [sum(step, []) for step in itertools.zip_longest(*each, fillvalue=[])], states


def test_parquet(tmp_path):
    """A file whose decoder plans what is read of it."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    data, numbers, count = tmp_path / "data", random.Random(1), 0
    data.mkdir()
    for name in "ab":
        rows = numbers.randrange(900, 1500)
        noise = pa.array([numbers.randbytes(20) for _ in range(rows)], pa.binary())
        pq.write_table(pa.table({"id": range(count, count + rows), "noise": noise}), data / f"{name}.parquet", row_group_size=100)
        count += rows
    index = made(data, tmp_path / "x.index", None, None, "--distance", "4KiB")
    skip, skipped = some_ranges(1, count)
    left = [number for number in range(count) if number not in skipped]
    for order in ({}, {"workers": 3}, {"batch": 30, "shuffle": BLOCKS}, {"batch": 32, "shuffle": {**BLOCKS, "shards": 4}}):
        with pipemill.open(index, skip=skip, add_fields=INDEX, timeout=PATIENCE, **order) as stream:
            seen = [int(number) for batch in stream for number, at in zip(batch["id"], batch[INDEX]) if number == at or pytest.fail("another number")]
        assert (seen if "shuffle" not in order else sorted(seen)) == left
    with pipemill.Dataset(index, skip=skip) as dataset:
        assert [record["id"] for record in dataset[:]] == left
    [whole], _ = read(str(index), skip=skip, batch=20)
    for steps in (1, 17, 50):
        with pipemill.open(index, skip=skip, add_fields=INDEX, batch=20, timeout=PATIENCE) as stream:
            for _ in range(steps):
                next(stream)
            state = stream.state_dict()
        assert read(str(index), skip=skip, batch=20, state=state)[0] == [whole[20 * steps :]]


def test_a_state_of_another_list_is_refused(tmp_path):
    index = indexed(tmp_path)
    sources = [{"index": str(index)}, {"index": str(index), "skip": ["5"]}, {"index": str(index), "skip": ["6"]}]
    for shuffle in (None, BLOCKS, {**BLOCKS, "shards": 2}):
        for then in sources:
            with pipemill.open(then, batch=20, shuffle=shuffle, timeout=PATIENCE) as stream:
                next(stream)
                state = stream.state_dict()
            assert not shuffle or "shards" not in shuffle or len(json.dumps(state)) < 300
            for now in sources:
                if now == then:
                    continue
                with pytest.raises(pipemill.PipemillError, match="`skip` was .* when the state was taken, and is .* now"):
                    with pipemill.open(now, batch=20, shuffle=shuffle, state=state, timeout=PATIENCE) as stream:
                        next(stream)


def test_a_file_of_numbers(tmp_path, capfd, monkeypatch):
    index, file = indexed(tmp_path), tmp_path / "bad.txt"
    whole = list(map(plain, pipemill.cat(index)))
    file.write_text("# wrong labels\n7\n\n 20-29  # all of them\n7\n25-40\r\n")
    left = [record for number, record in enumerate(whole) if number not in {7, *range(20, 41)}]
    monkeypatch.setenv("PIPEMILL_LOG", "info")
    assert [record for _, record in read(str(index), skip=file)[0][0]] == left
    assert f"22 of {len(whole)} records of its index are skipped" in capfd.readouterr().err
    monkeypatch.chdir(tmp_path)
    dataset = pipemill.Dataset(index, skip="bad.txt")
    assert [plain(record) for record in dataset[:50]] == left[:50]
    # Another host starts in another folder, and the list may have changed: the dataset has not.
    monkeypatch.chdir("/")
    dataset.close()
    file.write_text("0\n")
    assert len(dataset) == len(left) and plain(dataset[7]) == left[7]
    file.write_text("")
    assert len(pipemill.Dataset(index, skip=file)) == len(whole)


def test_it_is_shown(tmp_path):
    index, file = indexed(tmp_path), tmp_path / "x.toml"
    for skip, shown in [('[3, "4-5", "6"]', '[3, "4-5", 6]'), ('"bad.txt"', '"bad.txt"'), ('"s3://data/bad.txt"', '"s3://data/bad.txt"')]:
        file.write_text(f'[[channel]]\nname = "x"\nsource = {{ index = "{index}", skip = {skip} }}\n')
        finished = run("config", "show", file)
        assert finished.returncode == 0 and f"skip = {shown}".encode() in finished.stdout
    file.write_text(f'[[channel]]\nname = "x"\nsource = {{ index = "{index}", skip = [] }}\n')
    assert b"skip" not in run("config", "show", file).stdout


def test_what_is_wrong(tmp_path):
    index, file = indexed(tmp_path), tmp_path / "bad.txt"
    count = len(pipemill.Dataset(index))
    wrong = [
        ([count], f"record {count} is to be skipped, and the index .* has {count} records"),
        (["5-99999999"], "record 99999999 is to be skipped"),
        (["3-"], 'found "3-" in it'),
        (["5-3"], 'found "5-3" in it'),
        (["+3"], 'found "\\+3" in it'),
        (tmp_path / "none.txt", "can't read the skip list .*none.txt: No such file"),
        ("10-20", 'skip = \\["10-20"\\]'),
        (tmp_path, "can't read the skip list .*: Is a directory"),
    ]
    for skip, message in wrong:
        for make in (lambda: pipemill.open(index, skip=skip, timeout=PATIENCE).close(), lambda: pipemill.Dataset(index, skip=skip)):
            with pytest.raises(pipemill.PipemillError, match=message):
                make()
    file.write_text("3\n4 5\n")
    with pytest.raises(pipemill.PipemillError, match="the skip list .*bad.txt: line 2: .*found `4 5`"):
        pipemill.open(index, skip=file, timeout=PATIENCE)
    file.write_bytes(b"3\n\xff\n")
    with pytest.raises(pipemill.PipemillError, match="can't read the skip list .*bad.txt: .*UTF-8"):
        pipemill.open(index, skip=file, timeout=PATIENCE)
    for value, found in [("5", "5"), ("[-5]", '"-5" in it'), ("[true]", "true in it"), ("[3.0]", "3.0 in it")]:
        path = tmp_path / "x.toml"
        path.write_text(f'[[channel]]\nname = "x"\nsource = {{ index = "{index}", skip = {value} }}\n')
        shown = run("config", "show", path)
        assert shown.returncode and f"skip: expected a list of record numbers and ranges, such as [5, \"10-20\"], or the path or s3:// address of a file of them, found {found}" in shown.stderr.decode(), value
    for skip, kind in [([-1], ValueError), ([1.5], TypeError), (5, TypeError), ([None], TypeError), (b"3", TypeError)]:
        with pytest.raises(kind, match="skip="):
            pipemill.Dataset(index, skip=skip)
    for source in (str(tmp_path / "data"), {"folder": str(tmp_path / "data")}):
        with pytest.raises(ValueError, match="skip= is for records of an index"):
            pipemill.open(source, "csv", skip=[3])
    with pytest.raises(ValueError, match="says it again"):
        pipemill.open({"index": str(index), "skip": [3]}, skip=[3])
    with pytest.raises(pipemill.PipemillError, match="it goes with"):
        pipemill.open({"file": str(tmp_path / "data/0.csv"), "skip": [3]}, "csv", timeout=PATIENCE)
    with pytest.raises(pipemill.PipemillError, match="only an index has numbers of records"):
        pipemill.open({"folder": str(tmp_path / "data"), "skip": [3]}, "csv", timeout=PATIENCE)


def test_an_index_of_objects_alone(tmp_path):
    """It has no numbers of records, so what needs them is refused."""
    indexed(tmp_path)
    index = tmp_path / "objects.index"
    assert run("index", tmp_path / "data", "--out", index, "--objects-only").returncode == 0
    whole = list(map(plain, pipemill.cat(index)))
    message = "has objects only, and does not know"
    for wish, lacks in (({"skip": [3]}, "numbers of records"), ({"add_fields": INDEX}, "how many records"), ({"add_fields": [OBJECT, INDEX]}, "how many records")):
        for make in (lambda: pipemill.open(index, timeout=PATIENCE, **wish), lambda: pipemill.Dataset(index, **wish)):
            with pytest.raises(pipemill.RefusedError, match=f"{message} {lacks}.*make it again without `--objects-only`, or leave out"):
                make()
    # An empty list needs no numbers.
    with pipemill.open(index, skip=[], add_fields=OBJECT, timeout=PATIENCE) as stream:
        assert [plain({name: value for name, value in record.items() if name != OBJECT}) for batch in stream for record in copies(batch)] == whole


def test_beside_the_data(tmp_path):
    made_at = indexed(tmp_path)
    data = tmp_path / "data"
    finished = run("index", data, "--out", data / "_pipemill.index", "-d", "csv", "-o", "header=true", "-o", "types=n:int64,b:bytes")
    assert finished.returncode == 0, finished.stderr
    whole = list(map(plain, pipemill.cat(made_at)))
    source = {"folder": str(data), "indexed": True}
    [seen], (records, _) = read(source, skip=range(5, len(whole)))
    assert [record for _, record in seen] == whole[:5] and records == 5


def test_a_long_object_that_several_workers_decode(tmp_path):
    """Its sections begin at records of which their workers don't know the numbers."""
    data = tmp_path / "data"
    data.mkdir()
    rows = [f"{number} {'x' * (number % 900)}" for number in range(50_000)]
    (data / "a.txt").write_text("\n".join(rows))
    index = made(data, tmp_path / "x.index", "lines", {})
    skip = list(range(5, len(rows), 3)) + ["9000-31000"]
    skipped = {*skip[:-1], *range(9000, 31001)}
    left = [number for number in range(len(rows)) if number not in skipped]
    for order in ({}, {"batch": 1000}):
        with pipemill.open(index, skip=skip, add_fields=INDEX, workers=3, timeout=PATIENCE, **order) as stream:
            seen = [(record[INDEX], record["line"]) for batch in stream for record in copies(batch)]
        assert seen == [(number, rows[number]) for number in left]
    for steps in (1, 4, 9):
        with pipemill.open(index, skip=skip, add_fields=INDEX, workers=3, batch=1000, timeout=PATIENCE) as stream:
            for _ in range(steps):
                next(stream)
            state = json.loads(json.dumps(stream.state_dict()))
        for workers in (1, 3):
            with pipemill.open(index, skip=skip, add_fields=INDEX, workers=workers, batch=1000, state=state, timeout=PATIENCE) as stream:
                assert [number for batch in stream for number in batch[INDEX].tolist()] == left[1000 * steps :]


def test_all_records_of_an_object_and_of_all_objects(tmp_path):
    index = indexed(tmp_path)
    counts = [len(texts(seed)) for seed in range(4)]
    whole = list(map(plain, pipemill.cat(index)))
    for skip, left in (
        ([f"{counts[0]}-{counts[0] + counts[1] - 1}"], whole[: counts[0]] + whole[counts[0] + counts[1] :]),
        ([f"0-{len(whole) - 1}"], []),
    ):
        for order in ({}, {"batch": 16, "shuffle": BLOCKS}, {"batch": 16, "shuffle": {**BLOCKS, "shards": 2}}, {"workers": 2}):
            [seen], (records, _) = read({"index": str(index), "skip": skip}, **order)
            assert sorted(record for _, record in seen) == sorted(left) and records == len(left)
        assert len(pipemill.Dataset({"index": str(index), "skip": skip})) == len(left)


def test_with_skipped_errors(tmp_path):
    index, data = indexed(tmp_path), tmp_path / "data"
    for path in sorted(data.iterdir()):
        lines = path.read_bytes().split(b"\n")
        for at in range(30, len(lines), 53):
            lines[at] = b"only one"
        path.write_bytes(b"\n".join(lines))
    made(data, index, "csv", TYPED, "--distance", "4KiB", "--skip-errors")
    whole = list(map(plain, pipemill.cat(index, on_error="skip")))
    skip, skipped = some_ranges(1, len(whole))
    left = [(number, record) for number, record in enumerate(whole) if number not in skipped]
    for order in ({}, {"batch": 30}, {"batch": 30, "shuffle": BLOCKS}, {"workers": 3}):
        [seen], _ = read({"index": str(index), "skip": skip}, on_error="skip", **order)
        assert sorted(seen) == left
        # Nothing is left, and that is no failure.
        everything = {"index": str(index), "skip": [f"0-{len(whole) - 1}"]}
        assert read(everything, on_error="skip", **order)[0] == [[]]


def test_in_s3(bucket, tmp_path):  # noqa: F811
    data = tmp_path / "buckets/data/train"
    for path in data.iterdir():
        path.unlink()
    for seed in range(3):
        (data / f"{seed}.csv").write_bytes(csv(texts(seed)))
    index = made(bucket, tmp_path / "x.index", "csv", TYPED, "--distance", "8KiB")
    whole = list(map(plain, pipemill.cat(index)))
    skip, skipped = some_ranges(1, len(whole))
    (tmp_path / "buckets/data/bad.txt").write_text("\n".join(map(str, skip)))
    left = [(number, record) for number, record in enumerate(whole) if number not in skipped]
    for skip in (skip, "s3://data/bad.txt"):
        for order in ({}, {"batch": 30, "shuffle": BLOCKS}, {"workers": 3}):
            [seen], _ = read(str(index), skip=skip, **order)
            assert sorted(seen) == left
        with pipemill.Dataset(index, skip=skip) as dataset:
            assert list(map(plain, dataset[:])) == [record for _, record in left]
    with pytest.raises(pipemill.PipemillError, match="can't read the skip list s3://data/none.txt: "):
        pipemill.open(index, skip="s3://data/none.txt", timeout=PATIENCE)


def test_what_is_skipped_as_a_whole_is_not_fetched(counted, tmp_path):  # noqa: F811
    objects, data = [texts(0), texts(1), 6 * texts(0)], tmp_path / "buckets/data/train"
    for path in data.iterdir():
        path.unlink()
    for seed, rows in enumerate(objects):
        (data / f"{seed}.txt").write_text("\n".join(rows))
    index = made(counted.bucket, tmp_path / "x.index", "lines", {}, "--distance", "4KiB")
    whole = list(map(plain, pipemill.cat(index)))
    middle = range(len(objects[0]), len(objects[0]) + len(objects[1]))
    for order in ({}, {"shuffle": 7}, {"workers": 3}, {"batch": 32, "shuffle": BLOCKS}, {"batch": 32, "shuffle": {**BLOCKS, "shards": 2}}):
        counted.taken()
        [seen], _ = read(str(index), skip=middle, **order)
        fetched = {name.rpartition("/")[2] for name, _ in counted.gets}
        assert sorted(seen) == [(number, record) for number, record in enumerate(whole) if number not in middle]
        assert fetched == {"0.txt", "2.txt"}
    # Of an object, only the blocks with a record that is left are fetched: here the last one. With workers, no first record is measured.
    counted.taken()
    [seen], _ = read(str(index), skip=range(len(whole) - 1), batch=32, workers=2, shuffle=BLOCKS)
    assert seen == [(len(whole) - 1, whole[-1])]
    assert 0 < counted.taken()[1] < (data / "2.txt").stat().st_size / 2


def test_splits_do_not_move_with_the_list(tmp_path):
    """A record that is left stays in its part, whatever is skipped: nothing moves from a training set to a test set."""
    index = indexed(tmp_path)
    count = len(pipemill.Dataset(index))
    skip, skipped = some_ranges(2, count)
    for by in ({}, {"by": "n"}):
        whole = pipemill.Dataset(index).split([0.5, 0.3, 0.2], seed=7, **by)
        left = pipemill.Dataset(index, skip=skip).split([0.5, 0.3, 0.2], seed=7, **by)
        assert [list(part._numbers) for part in left] == [[number for number in part._numbers if number not in skipped] for part in whole]
    dataset = pipemill.Dataset(index, skip=skip, add_fields=INDEX)
    numbers = sorted(set(range(count)) - skipped)
    assert [record[INDEX] for record in dataset.subset(range(7, 20))] == numbers[7:20]
    assert [record[INDEX] for record in pickle.loads(pickle.dumps(dataset))[-3:]] == numbers[-3:]


def test_a_dataset_without_records(tmp_path):
    dataset = pipemill.Dataset(indexed(tmp_path))
    count = len(dataset)
    left = dataset.without([0, range(5, 9), -1, 7])
    assert list(left._numbers) == [number for number in range(count) if number not in {0, 5, 6, 7, 8, count - 1}]
    assert list(left.without(slice(0, 3))._numbers) == list(left._numbers)[3:]
    assert list(dataset.without(range(10, count))._numbers) == list(range(10))
    assert plain(left[0]) == plain(dataset[1])
    for wrong in ([count], [range(count - 1, count + 1)]):
        with pytest.raises(IndexError, match=f"a dataset with {count} records"):
            dataset.without(wrong)
