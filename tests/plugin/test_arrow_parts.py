"""An Arrow file that can be read at any place is read in parts: the wanted columns of a batch each. Its
records and errors are those of the whole file, wherever a run begins, and no other bytes are fetched.
"""

import io
import random
import shutil

import pipemill
import polars as pl
import pyarrow as pa
import pytest
from counting import bucket, counted  # noqa: F401 (fixtures)
from e2e import run
from test_arrow_decoder import decode, read, same, table

#: The smallest batches that are read in parts.
SMALL = 16 << 10


def decode_whole(data, *args):
    """The table of a file that is read from a pipe."""
    done = run("cat", "--output", "arrow", "-d", "arrow", "--max-record", "1GiB", *args, "-", stdin=data)
    assert done.returncode == 0, done.stderr
    return pa.ipc.open_stream(io.BytesIO(done.stdout)).read_all()


def write(path, data, rows, **options):
    with pa.ipc.new_file(str(path), data.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in data.to_batches(max_chunksize=rows):
            writer.write_batch(batch)


@pytest.mark.parametrize("seed", range(25))
def test_parts_have_the_values_of_the_whole_file(tmp_path, seed):
    rng = random.Random(seed)
    path, data = tmp_path / "in.arrow", table(rng)
    while not data.num_rows:
        data = table(rng)
    count = rng.randint(1000, 4000)
    filler = pa.array([rng.randbytes(24) for _ in range(count)], pa.binary())
    data = pa.concat_tables([data] * (count // data.num_rows + 1)).slice(0, count).append_column("filler", filler)
    write(path, data.combine_chunks().unify_dictionaries(), rng.randint(700, 2000), compression=rng.choice([None, "lz4", "zstd"]))
    same(decode(path), read(path), path)
    for _ in range(3):
        names = rng.sample(data.column_names, rng.randint(1, data.num_columns))
        wanted = ["-o", "columns=" + ",".join(names)]
        found = decode(path, *wanted)
        assert found.column_names == names
        same(found, read(path).select(names), path)
        assert found.equals(decode_whole(path.read_bytes(), *wanted))


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_large_files_of_polars_are_read(tmp_path, compression):
    path, rng = tmp_path / "in.arrow", random.Random(1)
    frame = pl.DataFrame({"id": range(20_000), "noise": [rng.random() for _ in range(20_000)], "text": [f"{n} " * (n % 9) for n in range(20_000)]})
    words = frame.with_columns(pl.col("text").cast(pl.Categorical).alias("word"))
    for data in (frame, words):
        data.write_ipc(path, compression=compression, record_batch_size=4000)
        expected = data.with_columns(pl.col(pl.Categorical).cast(pl.String)) if data is words else data
        for columns in (None, "noise,id"):
            found = pl.from_arrow(decode(path, *(["-o", f"columns={columns}"] if columns else [])))
            assert found.equals(expected.select(columns.split(",")) if columns else expected)


SCHEMA = pa.schema({"id": pa.int64(), "noise": pa.binary(), "word": pa.dictionary(pa.int32(), pa.string())})


def rows(first, count, rng):
    """Numbered rows, with bytes that compress badly, and a dictionary."""
    columns = {
        "id": pa.array(range(first, first + count)),
        "noise": pa.array([rng.randbytes(40) for _ in range(count)], pa.binary()),
        "word": pa.array([f"word {at % 7}" for at in range(count)], pa.string()).dictionary_encode(),
    }
    return pa.table(columns, SCHEMA)


@pytest.fixture
def folder(tmp_path):
    """Three files of several batches, and one without, with the number of the records."""
    rng, source = random.Random(5), tmp_path / "in"
    source.mkdir()
    for number, (first, count) in enumerate([(0, 4000), (4000, 0), (4000, 4000), (8000, 5500)]):
        write(source / f"{number}.arrow", rows(first, count, rng), 700)
    return source, 13_500


def ids(batches):
    return [int(one) for batch in batches for one in batch["id"]]


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("options", [{}, {"columns": "word,id"}])
def test_batches_are_decoded_by_workers_in_order(folder, workers, options):
    source, count = folder
    with pipemill.open(source, batch=64, workers=workers, options=options) as stream:
        found = [(int(id), str(word)) for batch in stream for id, word in zip(batch["id"], batch["word"])]
    starts = [0] * 4000 + [4000] * 4000 + [8000] * 5500
    assert found == [(at, f"word {(at - start) % 7}") for at, start in zip(range(count), starts)]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_state_inside_of_a_part_is_taken_up(folder, workers):
    source, count = folder
    for taken in [1, 5, 11, 63, 64, 100, 200]:
        with pipemill.open(source, batch=64, workers=workers) as stream:
            found = ids(batch for _, batch in zip(range(taken), stream))
            state = stream.state_dict()
        with pipemill.open(source, batch=64, workers=3 - workers, state=state) as stream:
            found += ids(stream)
        assert found == list(range(count))


def test_an_index_has_places_inside_of_files(folder, tmp_path):
    source, count = folder
    index = tmp_path / "train.index"
    pipemill.index(source, index, distance="16KiB")
    with pipemill.open(index, batch=50) as stream:
        assert stream.records == count
        assert ids(stream) == list(range(count))
    for workers in (1, 3):
        with pipemill.open(index, batch=50, workers=workers, shuffle={"seed": 3, "blocks": "64KiB"}, add_fields=["__index__"]) as stream:
            both = [(int(one), int(at)) for batch in stream for one, at in zip(batch["id"], batch["__index__"])]
        assert all(one == at for one, at in both) and sorted(one for one, _ in both) == list(range(count))
    with pipemill.Dataset(index) as dataset:
        for at in [13_499, 0, 699, 700, 3999, 4000, 9001]:
            assert int(dataset[at]["id"]) == at


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_only_the_wanted_columns_are_fetched_from_s3(counted, tmp_path, compression):  # noqa: F811
    rng, path = random.Random(1), tmp_path / "buckets/data/train/in.arrow"
    columns = {f"c{at}": pa.array([rng.random() for _ in range(300_000)]) for at in range(8)}
    write(path, pa.table({"id": pa.array([rng.getrandbits(60) for _ in range(300_000)])} | columns), 10_000, compression=compression)
    size = path.stat().st_size
    expected = read(path)["id"].to_pylist()
    for workers, options in [(1, {}), (2, {}), (2, {"decoder": "arrow"})]:
        counted.taken()
        with pipemill.open(f"{counted.bucket}/in.arrow", batch=512, workers=workers, options={"columns": "id,c2,c3,c7"}, **options) as stream:
            assert ids(stream) == expected
        # The first records are read before, too: to find the decoder, and to fit the slots.
        _, fetched = counted.taken()
        assert fetched < 1.1 * size * 4 / 9 + (1 << 20), f"{workers} workers, {options}: {fetched} of {size} bytes"


def test_of_streams_and_small_batches_in_s3_no_more_is_fetched(counted, tmp_path):  # noqa: F811
    rng, folder = random.Random(1), tmp_path / "buckets/data/train"
    for path in folder.iterdir():
        path.unlink()
    data = rows(0, 60_000, rng)
    with pa.ipc.new_stream(str(folder / "a.arrows"), data.schema) as writer:
        writer.write_table(data, max_chunksize=5000)
    write(folder / "b.arrow", data, 100)
    for name in ("a.arrows", "b.arrow"):
        counted.taken()
        with pipemill.open(f"{counted.bucket}/{name}", "arrow", batch=512, options={"columns": "id"}) as stream:
            assert ids(stream) == list(range(60_000))
        # It is read once more, to fit the slots.
        requests, fetched = counted.taken()
        size = (folder / name).stat().st_size
        assert fetched < 2 * size + (1 << 20), f"{name}: {fetched} of {size} bytes in {requests} requests"


def test_many_objects_and_states_in_s3(counted, folder, tmp_path):  # noqa: F811
    source, count = folder
    shutil.copytree(source, tmp_path / "buckets/data/rows")
    address = counted.bucket.replace("train", "rows")
    with pipemill.open(address, batch=64, workers=2) as stream:
        found = ids(batch for _, batch in zip(range(70), stream))
        state = stream.state_dict()
    with pipemill.open(address, batch=64, state=state) as stream:
        assert found + ids(stream) == list(range(count))


@pytest.mark.parametrize("seed", range(24))
def test_a_damaged_file_gives_the_error_of_the_whole_file(tmp_path, seed):
    rng, path = random.Random(seed), tmp_path / "in.arrow"
    data = rows(0, 2000, rng)
    write(path, data if seed % 2 else data.drop_columns("word"), 500, compression=rng.choice([None, "zstd"]))
    damaged = bytearray(path.read_bytes())
    place = rng.choice(["tail", "footer", "batches", "cut", "start"])
    footer = len(damaged) - 10 - int.from_bytes(damaged[-10:-6], "little")
    if place == "cut":
        del damaged[rng.randrange(SMALL + 1, len(damaged)) :]
    else:
        spans = {"tail": (len(damaged) - 10, len(damaged)), "footer": (footer, len(damaged) - 10), "batches": (8, footer), "start": (0, 900)}
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(*spans[place])] ^= 1 << rng.randrange(8)
    path.write_bytes(damaged)
    for columns in ([], ["-o", "columns=id"]):
        args = ["cat", "-d", "arrow", "--max-record", "1MiB", *columns]
        parts, whole = run(*args, path), run(*args, "-", stdin=bytes(damaged))
        records = [one.stdout.count(b"\n") for one in (parts, whole)]
        assert (parts.returncode, records[0]) == (whole.returncode, records[1]), (place, parts.stderr, whole.stderr)
