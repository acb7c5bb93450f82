"""Blocks of all objects in a random order: each record once in each epoch, in an order that depends on index, seed and epoch alone."""

import gzip
import json
import random

import pipemill
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from counting import counted  # noqa: F401 (a fixture)
from drift import rows_of
from e2e import PATIENCE, recordio, run, tfrecord

BLOCKS = "64KiB"


def texts(seed):
    numbers = random.Random(seed)
    return [f"{seed}-{row} {numbers.randbytes(numbers.randrange(100)).hex()}" for row in range(numbers.randrange(1, 4000))]


def csv(rows):
    return ("a,b\n" + "".join(f"{row.split()[0]},{row}\n" for row in rows)).encode()


FORMATS = {
    "csv": (csv, {"header": "true"}),
    "csv.gz": (lambda rows: gzip.compress(csv(rows)), {"header": "true"}),
    "lines": (lambda rows: "".join(row + "\n" for row in rows).encode(), {}),
    "jsonl": (lambda rows: "".join(json.dumps({"a": row}) + "\n" for row in rows).encode(), {"fields": "a=/a:utf8"}),
    "tfrecord": (lambda rows: b"".join(tfrecord(row.encode()) for row in rows[:1500]), {}),
    "recordio": (lambda rows: b"".join(recordio(row.encode()) for row in rows), {}),
}


def indexed(folder, decoder, index, *options):
    """A folder of five files, some of them damaged if errors are skipped, and its index."""
    (write, known), name = FORMATS[decoder], decoder.split(".")[0]
    folder.mkdir(exist_ok=True)
    for seed in range(5):
        (folder / f"{seed}.{decoder}").write_bytes(write(texts(seed)))
    more = [part for name, value in known.items() for part in ("-o", f"{name}={value}")]
    finished = run("index", folder, "--out", index, "-d", name, *more, "--distance", "8KiB", *options)
    assert finished.returncode == 0, finished.stderr
    return {"decoder": name, "options": known}


def epochs_of(source, **more):
    with pipemill.open(source, timeout=PATIENCE, **more) as stream:
        return [[str(row) for batch in epoch for row in rows_of(batch)] for epoch in stream.epochs()]


def blocks(seed=7, **more):
    return {"seed": seed, "blocks": BLOCKS, **more}


@pytest.mark.parametrize("decoder", FORMATS)
def test_each_record_comes_once_in_an_order_of_its_own(tmp_path, decoder):
    index = tmp_path / "x.index"
    how = indexed(tmp_path / "data", decoder, index)
    [whole] = epochs_of(tmp_path / "data", **how)
    first, second = epochs_of(index, batch=100, shuffle=blocks(), epochs=2)
    assert sorted(first) == sorted(second) == sorted(whole)
    assert first != second and first != whole
    [objects] = epochs_of(index, batch=100, shuffle=7)
    assert first != objects
    for workers in (2, 4):
        assert epochs_of(index, batch=100, shuffle=blocks(), epochs=2, workers=workers) == [first, second]
    assert epochs_of(index, batch=100, shuffle=blocks(8)) != [first]


@pytest.mark.parametrize("decoder", ["csv", "csv.gz"])
@pytest.mark.parametrize("window", [None, 3000, "1MiB"])
def test_parts_and_states(tmp_path, window, decoder):
    index = tmp_path / "x.index"
    indexed(tmp_path / "data", decoder, index)
    shuffle = blocks() if window is None else blocks(window=window)
    [whole] = epochs_of(index, batch=100, shuffle=shuffle)
    parts = [epochs_of(index, batch=100, shuffle=shuffle, rank=(rank, 3))[0] for rank in range(3)]
    assert [row for part in parts for row in part] == whole if window is None else sorted(row for part in parts for row in part) == sorted(whole)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    numbers = random.Random(str(window))
    for workers in (1, 3):
        for _ in range(4):
            with pipemill.open(index, batch=100, shuffle=shuffle, workers=workers, timeout=PATIENCE) as stream:
                before = [str(row) for _ in range(numbers.randrange(1, len(whole) // 100)) for row in rows_of(next(stream))]
                state = json.loads(json.dumps(stream.state_dict()))
            assert before == whole[: len(before)]
            for now in (1, 2):
                assert epochs_of(index, batch=100, shuffle=shuffle, workers=now, state=state) == [whole[len(before) :]]


@pytest.mark.parametrize("tail", ["drop", "keep"])
def test_the_length_of_a_part_of_blocks_is_known(tmp_path, tail):
    index = tmp_path / "x.index"
    indexed(tmp_path / "data", "lines", index)
    seen = []
    for rank in range(3):
        with pipemill.open(index, batch=100, tail=tail, shuffle=blocks(), epochs=3, rank=(rank, 3), timeout=PATIENCE) as stream:
            epochs = [[len(batch) for batch in epoch] for epoch in stream.epochs()]
            seen += [(stream.records, stream.batches)]
            assert {len(epoch) for epoch in epochs} == {stream.batches}
            assert tail == "drop" or {sum(epoch) for epoch in epochs} == {stream.records}
    assert max(records for records, _ in seen) - min(records for records, _ in seen) <= 1


def test_parts_of_blocks_resume_inside_of_their_first_and_last_block(tmp_path):
    index = tmp_path / "x.index"
    indexed(tmp_path / "data", "csv", index)
    [whole] = epochs_of(index, batch=10, shuffle=blocks(), rank=(1, 3))
    for delivered in (0, 1, 2, len(whole) // 10 - 1):
        with pipemill.open(index, batch=10, shuffle=blocks(), rank=(1, 3), timeout=PATIENCE) as stream:
            before = [str(row) for _ in range(delivered) for row in rows_of(next(stream))]
            state = json.loads(json.dumps(stream.state_dict()))
        assert before == whole[: len(before)]
        assert epochs_of(index, batch=10, shuffle=blocks(), rank=(1, 3), state=state) == [whole[len(before) :]]


def test_parts_of_blocks_have_no_balance(tmp_path):
    indexed(tmp_path / "data", "csv", tmp_path / "x.index")
    config = tmp_path / "x.toml"
    source = f'{{ index = "{tmp_path}/x.index", part = {{ index = 0, count = 2 }}, balance = "size" }}'
    config.write_text(f'[[channel]]\nname = "x"\nsource = {source}\nbatch = 10\nshuffle = {{ seed = 1, blocks = "64KiB" }}\n')
    finished = run("config", "check", config)
    assert finished.returncode != 0 and b"equal numbers of records" in finished.stderr


def test_damaged_records_are_skipped_once(tmp_path):
    index, data = tmp_path / "x.index", tmp_path / "data"
    how = indexed(data, "csv", index)
    for path in sorted(data.iterdir()):
        lines = path.read_bytes().split(b"\n")
        for at in range(50, len(lines), 97):
            lines[at] = b"only one"
        path.write_bytes(b"\n".join(lines))
    finished = run("index", data, "--out", index, "-d", "csv", "-o", "header=true", "--distance", "8KiB", "--skip-errors")
    assert finished.returncode == 0, finished.stderr
    [whole] = epochs_of(data, **how, on_error="skip")
    for workers in (1, 3):
        [seen] = epochs_of(index, batch=100, shuffle=blocks(), on_error="skip", workers=workers)
        assert sorted(seen) == sorted(whole)


@pytest.mark.parametrize("decoder", ["csv", "csv.gz"])
def test_blocks_in_s3(bucket, tmp_path, decoder):  # noqa: F811
    index, data = tmp_path / "x.index", tmp_path / "buckets/data/train"
    for path in data.iterdir():
        path.unlink()
    how = indexed(data, decoder, index)
    finished = run("index", bucket, "--out", index, "-d", "csv", "-o", "header=true", "--distance", "8KiB")
    assert finished.returncode == 0, finished.stderr
    [whole] = epochs_of(bucket, **how)
    for workers in (1, 3):
        [seen] = epochs_of(index, batch=100, shuffle=blocks(), workers=workers)
        assert sorted(seen) == sorted(whole) and seen != whole
    for more in ({"shuffle": blocks()}, {}):
        [expected] = epochs_of(index, batch=100, **more)
        for delivered in (1, 20, 35):
            with pipemill.open(index, batch=100, timeout=PATIENCE, **more) as stream:
                before = [str(row) for _ in range(delivered) for row in rows_of(next(stream))]
                state = stream.state_dict()
            assert epochs_of(index, batch=100, state=state, **more) == [expected[len(before) :]]


def test_an_index_of_other_data_is_noticed_in_its_blocks(tmp_path):
    """The objects have the sizes, the times and the blocks of the index, but its places are of others: only a forged index says so."""
    index = tmp_path / "x.index"
    indexed(tmp_path / "data", "csv", index)
    (tmp_path / "data/2.csv").write_text("a,b\n1,2\n")
    with pytest.raises(pipemill.PipemillError, match="2.csv.*has changed since the index"):
        epochs_of(index, batch=100, shuffle=blocks())


def test_blocks_need_an_index(tmp_path):
    indexed(tmp_path / "data", "csv", tmp_path / "x.index")
    with pytest.raises(pipemill.PipemillError, match="only an index knows where the blocks"):
        epochs_of(tmp_path / "data", decoder="csv", batch=100, shuffle=blocks())
    with pytest.raises(pipemill.PipemillError, match="batches of one object each"):
        epochs_of(tmp_path / "x.index", batch=100, batch_across="object", shuffle=blocks())


def test_a_state_of_blocks_needs_their_places(tmp_path):
    """An index with other places has other blocks, so the order of records is another one."""
    index, other = tmp_path / "x.index", tmp_path / "y.index"
    indexed(tmp_path / "data", "csv", index)
    with pipemill.open(index, batch=100, shuffle=blocks(), timeout=PATIENCE) as stream:
        next(stream)
        state = stream.state_dict()
    with pipemill.open(index, batch=100, shuffle=7, timeout=PATIENCE) as stream:
        next(stream)
        of_objects = stream.state_dict()
    finished = run("index", tmp_path / "data", "--out", other, "-d", "csv", "-o", "header=true", "--distance", "300KiB")
    assert finished.returncode == 0
    with pytest.raises(pipemill.PipemillError, match="shuffle.*at the places"):
        epochs_of(other, batch=100, shuffle=blocks(), state=state)
    rest = epochs_of(index, batch=100, shuffle=7, state=of_objects)
    assert epochs_of(other, batch=100, shuffle=7, state=of_objects) == rest


def test_a_long_compressed_object_is_divided_among_workers(counted, tmp_path):  # noqa: F811
    """Without blocks, too: workers begin at places of the index, and a state is good for any number of them."""
    data, numbers = tmp_path / "buckets/data/train", random.Random(5)
    for path in data.iterdir():
        path.unlink()
    rows = [f"{row} {numbers.randbytes(2000).hex()}" for row in range(5000)]
    (data / "0.gz").write_bytes(gzip.compress("".join(row + "\n" for row in rows).encode(), 1))
    assert (data / "0.gz").stat().st_size > 8 << 20
    index = tmp_path / "x.index"
    finished = run("index", counted.bucket, "--out", index, "-d", "lines")
    assert finished.returncode == 0, finished.stderr

    def lines(**how):
        with pipemill.open(index, batch=100, timeout=PATIENCE, **how) as stream:
            return [line for batch in stream for line in batch.records()]

    begun = []
    for workers in (1, 3):
        counted.ranges = []
        assert lines(workers=workers) == rows
        begun.append({int(wanted.split("=")[1].split("-")[0]) for _, wanted in counted.ranges if wanted})
    # One worker takes parts of 8 MiB, one after the other.
    assert all(start % (8 << 20) == 0 for start in begun[0]) and any(start % (8 << 20) for start in begun[1])
    for first, second in ((3, 1), (1, 3), (3, 2)):
        with pipemill.open(index, batch=100, workers=first, timeout=PATIENCE) as stream:
            before = [line for _ in range(numbers.randrange(1, 49)) for line in next(stream).records()]
            state = json.loads(json.dumps(stream.state_dict()))
        assert before + lines(workers=second, state=state) == rows
