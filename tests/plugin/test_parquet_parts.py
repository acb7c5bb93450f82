"""A Parquet file that can be read at any place is read in parts: the wanted columns of a row group each.
Its records are those of the whole file, wherever a run begins, and no other bytes are fetched.
"""

import io
import random
import shutil
import threading

import pipemill
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from counting import bucket, counted  # noqa: F401 (fixtures)
from e2e import PATIENCE, run
from test_parquet import decode, same, table, write

#: The smallest file that is read in parts.
SMALL = 16 << 10


def big(rng):
    """A random table, of which a file has more bytes than a small one."""
    data = table(rng)
    while not data.num_rows:
        data = table(rng)
    filler = pa.array([rng.randbytes(12) for _ in range(3000)], pa.binary())
    return data.take([rng.randrange(data.num_rows) for _ in range(3000)]).append_column("filler", filler)


def decode_whole(path, *args):
    """The table of a file that is read from a pipe."""
    args = ["cat", "--output", "arrow", "-d", "parquet", "--max-record", "1GiB", *args, "-"]
    done = run(*args, stdin=path.read_bytes())
    assert done.returncode == 0, done.stderr
    return pa.ipc.open_stream(io.BytesIO(done.stdout)).read_all()


@pytest.mark.parametrize("seed", range(15))
def test_parts_have_the_values_of_the_whole_file(tmp_path, seed):
    rng = random.Random(seed)
    path = tmp_path / "in.parquet"
    data = big(rng)
    how = write(path, data, rng)
    assert path.stat().st_size > SMALL
    same(decode(path), pq.read_table(path), how)
    names = rng.sample(data.column_names, rng.randint(1, data.num_columns))
    wanted = ["-o", "columns=" + ",".join(names)]
    found = decode(path, *wanted)
    assert found.column_names == names
    same(found, pq.read_table(path), how)
    assert found.equals(decode_whole(path, *wanted))


def rows(first, count, rng):
    """Numbered rows, with bytes that compress badly."""
    return pa.table(
        {
            "id": pa.array(range(first, first + count)),
            "noise": pa.array([rng.randbytes(20) for _ in range(count)], pa.binary()),
            "inner": pa.StructArray.from_arrays(
                [pa.array([i % 9 for i in range(count)]), pa.array([[i] * (i % 3) for i in range(count)], pa.list_(pa.int64()))], ["a", "b"]
            ),
        }
    )


@pytest.fixture
def folder(tmp_path):
    """Three files of several row groups, and one without rows, with the number of the records."""
    rng = random.Random(5)
    source = tmp_path / "in"
    source.mkdir()
    for number, count in enumerate([4000, 0, 4000, 5500]):
        first = [0, 4000, 4000, 8000][number]
        data = rows(first, max(count, 1), rng).slice(0, count)
        pq.write_table(data, source / f"{number}.parquet", row_group_size=700)
    return source, 13_500


def ids(batches):
    return [int(one) for batch in batches for one in batch["id"]]


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("options", [{}, {"columns": "inner.a,id"}])
def test_row_groups_are_decoded_by_workers_in_order(folder, workers, options):
    source, count = folder
    with pipemill.open(source, batch=64, workers=workers, options=options) as stream:
        assert ids(stream) == list(range(count))


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
    pipemill.index(source, index)
    with pipemill.open(index, batch=50) as stream:
        assert stream.records == count
        assert ids(stream) == list(range(count))
    shuffle = {"seed": 3, "blocks": "64KiB"}
    with pipemill.open(index, batch=50, shuffle=shuffle, add_fields=["__index__"]) as stream:
        both = [(int(one), int(at)) for batch in stream for one, at in zip(batch["id"], batch["__index__"])]
    assert all(one == at for one, at in both)
    found = [one for one, _ in both]
    assert sorted(found) == list(range(count)) and found != sorted(found)
    with pipemill.Dataset(index) as dataset:
        for at in [13_499, 0, 699, 700, 3999, 4000, 9001]:
            assert int(dataset[at]["id"]) == at


def test_an_index_of_objects_in_s3_has_places_inside_of_them(counted, folder, tmp_path):  # noqa: F811
    source, count = folder
    shutil.copytree(source, tmp_path / "buckets/data/rows")
    index = tmp_path / "train.index"
    pipemill.index(counted.bucket.replace("train", "rows"), index, distance="64KiB")
    shuffle = {"seed": 3, "blocks": "64KiB"}
    for workers in [1, 2]:
        with pipemill.open(index, batch=50, workers=workers, shuffle=shuffle, add_fields=["__index__"]) as stream:
            both = [(int(one), int(at)) for batch in stream for one, at in zip(batch["id"], batch["__index__"])]
        assert all(one == at for one, at in both)
        assert sorted(one for one, _ in both) == list(range(count))
    with pipemill.Dataset(index) as dataset:
        counted.taken()
        assert int(dataset[9001]["id"]) == 9001
        # A row group and its footer, of a file of several.
        _, fetched = counted.taken()
        assert fetched < (source / "3.parquet").stat().st_size


def test_only_the_wanted_columns_are_fetched_from_s3(counted, tmp_path):  # noqa: F811
    rng = random.Random(1)
    columns = {f"c{i}": pa.array([rng.random() for _ in range(300_000)]) for i in range(9)}
    data = pa.table({"id": pa.array(range(300_000))} | columns)
    path = tmp_path / "buckets/data/train/in.parquet"
    pq.write_table(data, path, row_group_size=10_000, use_dictionary=False)
    groups = [pq.read_metadata(path).row_group(group) for group in range(30)]
    wanted = sum(group.column(at).total_compressed_size for group in groups for at in [0, 3, 4, 8])
    for workers, options in [(1, {}), (2, {}), (2, {"decoder": "parquet"})]:
        counted.taken()
        with pipemill.open(
            f"{counted.bucket}/in.parquet", batch=512, workers=workers, options={"columns": "id,c2,c3,c7"}, **options
        ) as stream:
            assert ids(stream) == list(range(300_000))
        # The first records are read before, too: to find the decoder, and to fit the slots.
        _, fetched = counted.taken()
        assert fetched < 1.1 * wanted + (1 << 20), f"{workers} workers, {options}: {fetched} of {path.stat().st_size} bytes"


def test_the_next_object_is_planned_while_one_is_read(counted, tmp_path):  # noqa: F811
    sizes, rng = {}, random.Random(4)
    (tmp_path / "buckets/data/rows").mkdir()
    for number in range(4):
        path = tmp_path / f"buckets/data/rows/{number}.parquet"
        pq.write_table(rows(number * 60_000, 60_000, rng), path, row_group_size=20_000)
        sizes[path.name] = path.stat().st_size
        # Smaller objects are fetched as a whole.
        assert sizes[path.name] > 1 << 20
    asked, held = {name: threading.Event() for name in sizes}, []

    def before(name, wanted):
        if name not in asked:
            return
        first, last = map(int, wanted.removeprefix("bytes=").split("-"))
        following = asked.get(f"{int(name[0]) + 1}.parquet")
        if first == 0 or last == sizes[name] - 1:
            asked[name].set()
        elif following:
            # Its first data do not come before something of the next object is asked for.
            held.append((name, following.wait(PATIENCE)))

    counted.before = before
    address = counted.bucket.replace("train", "rows")
    done = run("cat", "-d", "parquet", "--output", "count", f"{address}/")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"records=240000 ")
    assert {name for name, _ in held} == set(list(sizes)[:3])
    assert all(was_asked for _, was_asked in held), held
    # What is requested ahead is read: nothing is requested again.
    assert len(set(counted.ranges)) == len(counted.ranges), counted.ranges


def test_many_objects_and_states_in_s3(counted, folder, tmp_path):  # noqa: F811
    source, count = folder
    shutil.copytree(source, tmp_path / "buckets/data/rows")
    address = counted.bucket.replace("train", "rows")
    with pipemill.open(address, batch=64, workers=2) as stream:
        found = ids(batch for _, batch in zip(range(70), stream))
        state = stream.state_dict()
    with pipemill.open(address, batch=64, state=state) as stream:
        assert found + ids(stream) == list(range(count))


@pytest.mark.parametrize("seed", range(30))
def test_a_damaged_file_gives_the_error_of_the_whole_file(tmp_path, seed):
    rng = random.Random(seed)
    path = tmp_path / "in.parquet"
    pq.write_table(rows(0, 2000, rng), path, row_group_size=500, write_page_checksum=True)
    data = bytearray(path.read_bytes())
    assert len(data) > SMALL
    place = rng.choice(["tail", "footer", "pages", "cut", "start"])
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    if place == "cut":
        del data[rng.randrange(SMALL + 1, len(data)) :]
    else:
        first, last = {
            "tail": (len(data) - 8, len(data)),
            "footer": (footer, len(data) - 8),
            "pages": (4, footer),
            "start": (0, 4),
        }[place]
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(first, last)] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    for more in [[], ["--on-error", "skip"]]:
        args = ["cat", "-d", "parquet", "--max-record", "1MiB", *more]
        parts = run(*args, path)
        whole = run(*args, "-", stdin=bytes(data))
        records = [one.stdout.count(b"\n") for one in (parts, whole)]
        assert (parts.returncode, records[0]) == (whole.returncode, records[1]), (place, parts.stderr, whole.stderr)


def test_files_after_each_other_are_refused(tmp_path):
    rng = random.Random(7)
    sizes = [(500, 4000), (4000, 500), (2000, 2000)]
    for number, both in enumerate(sizes):
        files = []
        for count in both:
            pq.write_table(rows(0, count, rng), tmp_path / "one.parquet")
            files.append((tmp_path / "one.parquet").read_bytes())
        path = tmp_path / f"both-{number}.parquet"
        path.write_bytes(b"".join(files))
        for source, stdin in [(path, None), ("-", path.read_bytes())]:
            done = run("cat", "-d", "parquet", source, stdin=stdin)
            assert done.returncode == 64, both
            assert b"several Parquet files follow each other" in done.stderr, (both, source, done.stderr)


def test_a_row_group_that_is_too_long_says_what_to_do(tmp_path):
    path = tmp_path / "in.parquet"
    pq.write_table(rows(0, 5000, random.Random(2)), path, row_group_size=5000)
    done = run("cat", "-d", "parquet", "--max-record", "50KiB", path)
    assert done.returncode == 64
    assert b"row group 0 has" in done.stderr and b"read fewer columns" in done.stderr
    done = run("cat", "-d", "parquet", "--max-record", "50KiB", "-o", "columns=id", "--output", "count", path)
    assert done.returncode == 0, done.stderr
