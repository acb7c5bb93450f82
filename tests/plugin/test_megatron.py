"""Megatron-LM's datasets: a `.bin` is decoded with the `.idx` beside it, and the values are those that numpy reads.

The two files are one object: whatever changes in the `.idx` is noticed as if it were in the `.bin`.
"""

import os
import pathlib
import random
import struct

import numpy as np
import pipemill
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from counting import counted  # noqa: F401 (a fixture)
from e2e import PATIENCE, run

FIXTURES = pathlib.Path(__file__).parents[2] / "plugins/megatron/tests/fixtures"
CODES = {np.uint8: 1, np.int8: 2, np.int16: 3, np.int32: 4, np.int64: 5, np.uint16: 8}


def write(path, documents, dtype=np.uint16, modes=False):
    """Writes a dataset: documents, each a list of sequences of tokens."""
    sequences = [np.array(sequence, dtype) for document in documents for sequence in document]
    sizes = np.array([len(sequence) for sequence in sequences], np.int32)
    pointers = np.concatenate([[0], np.cumsum(sizes[:-1], dtype=np.int64)])[: len(sizes)] * np.dtype(dtype).itemsize
    ends = np.cumsum([0] + [len(document) for document in documents])
    header = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, CODES[dtype], len(sizes), len(ends))
    tables = sizes.tobytes() + pointers.astype(np.int64).tobytes() + ends.astype(np.int64).tobytes()
    path.with_suffix(".idx").write_bytes(header + tables + (b"\1" * len(sizes) if modes else b""))
    path.write_bytes(b"".join(sequence.tobytes() for sequence in sequences))
    return path


def read(path):
    """The documents of a dataset, as numpy reads them."""
    index = path.with_suffix(".idx").read_bytes()
    version, code, count, ends = struct.unpack_from("<QBQQ", index, 9)
    assert version == 1
    [dtype] = [dtype for dtype, known in CODES.items() if known == code]
    sizes = np.frombuffer(index, np.int32, count, 34)
    pointers = np.frombuffer(index, np.int64, count, 34 + 4 * count)
    starts = np.frombuffer(index, np.int64, ends, 34 + 12 * count)
    tokens = np.memmap(path, dtype, "r") if path.stat().st_size else np.empty(0, dtype)
    sequences = [tokens[at // np.dtype(dtype).itemsize :][:size] for at, size in zip(pointers, sizes)]
    return [sequences[first:last] for first, last in zip(starts, starts[1:])]


def documents(seed, count=60, longest=90):
    rng = random.Random(seed)
    sequences = lambda: rng.choice([0, 1, 1, 2, 5])  # noqa: E731
    return [[[rng.randrange(100) for _ in range(rng.randrange(longest))] for _ in range(sequences())] for _ in range(count)]


def records(path, **options):
    found = pipemill.cat(path, decoder="megatron", options=options)
    return [(plain(record["tokens"]), plain(record["document"])) for record in found]


def plain(value):
    """Numbers of an array as those of a list, which compares faster than it is made one by one."""
    return np.asarray(value).tolist()


def expected(path, records="sequence"):
    of = enumerate(read(path))
    if records == "document":
        return [([int(token) for sequence in document for token in sequence], number) for number, document in of]
    return [(plain(sequence), number) for number, document in of for sequence in document]


def windows(path, length):
    tokens = [(token, number) for sequence, number in expected(path) for token in sequence]
    cut = [tokens[at : at + length] for at in range(0, len(tokens) - length + 1, length)]
    return [([token for token, _ in window], [number for _, number in window]) for window in cut]


@pytest.mark.parametrize("name", ["uint16", "int32", "modes"])
def test_files_of_the_formats_own_writer(name):
    path = FIXTURES / f"{name}.bin"
    for way in ("sequence", "document"):
        assert records(path, records=way) == expected(path, way)
    found = [(list(tokens), list(documents)) for tokens, documents in records(path, length="5", tail="drop")]
    assert found == windows(path, 5)


@pytest.mark.parametrize("name", ["uint16", "int32", "modes"])
def test_the_writer_here_writes_what_the_formats_own_does(tmp_path, name):
    path = FIXTURES / f"{name}.bin"
    dtype = np.uint16 if name == "uint16" else np.int32
    again = write(tmp_path / "again.bin", read(path), dtype, modes=name == "modes")
    for ending in (".bin", ".idx"):
        assert again.with_suffix(ending).read_bytes() == path.with_suffix(ending).read_bytes()


@pytest.mark.parametrize("seed", range(12))
def test_random_datasets(tmp_path, seed):
    dtype = list(CODES)[seed % len(CODES)]
    path = write(tmp_path / "a.bin", documents(seed, count=seed * 7), dtype)
    for way in ("sequence", "document"):
        assert records(path, records=way) == expected(path, way)
    for length in (1, 7, 200):
        found = [(list(tokens), list(numbers)) for tokens, numbers in records(path, length=str(length), tail="drop")]
        assert found == windows(path, length)


def large(path, seed=1):
    """A dataset of several parts."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 4000, 6000)
    return write(path, [[rng.integers(0, 60_000, size)] for size in sizes])


def test_a_large_dataset_in_parts_with_workers(tmp_path):
    path = large(tmp_path / "a.bin")
    wanted = expected(path)
    for workers in (1, 3):
        with pipemill.open(path, decoder="megatron", workers=workers, timeout=PATIENCE) as stream:
            found = [(plain(record["tokens"]), plain(record["document"])) for batch in stream for record in batch]
        assert found == wanted
    # A record of this length begins in one part and ends in the next.
    found = records(path, length="100003", tail="drop")
    assert found == windows(path, 100_003)


def test_a_folder_has_one_object_for_each_pair(tmp_path):
    for name in ("b", "a"):
        write(tmp_path / f"{name}.bin", documents(name))
    wanted = expected(tmp_path / "a.bin") + expected(tmp_path / "b.bin")
    assert records(tmp_path) == wanted
    # A pattern of a shell names all files.
    done = run("cat", "-d", "megatron", *sorted(tmp_path.iterdir()))
    assert done.returncode == 0 and len(done.stdout.splitlines()) == len(wanted), done.stderr
    (tmp_path / "b.bin").rename(tmp_path / "c.bin")
    with pytest.raises(pipemill.PipemillError, match="b.idx.*is the companion of .*b.bin, which is not among the objects"):
        records(tmp_path)
    (tmp_path / "b.idx").unlink()
    with pytest.raises(pipemill.PipemillError, match="c.bin.*is not decoded without its companion .*c.idx, which does not exist"):
        records(tmp_path)


def test_what_is_no_object_is_refused(tmp_path):
    path = write(tmp_path / "a.bin", documents(1))
    for name, words in [("a.idx", "is the companion of"), ("a.dat", "has no companion")]:
        (tmp_path / "a.dat").write_bytes(b"")
        done = run("cat", "-d", "megatron", tmp_path / name)
        assert done.returncode and words in done.stderr.decode(), done.stderr
    done = run("cat", "-d", "megatron", "-", stdin=path.read_bytes())
    assert done.returncode and "can't be read at any place" in done.stderr.decode(), done.stderr
    fifo = tmp_path / "pipe.bin"
    os.mkfifo(fifo)
    done = run("cat", "-d", "megatron", "--compression", "gzip", path)
    assert done.returncode and "can't be read at any place" in done.stderr.decode(), done.stderr


def damage(path, ending, at, value, size):
    path = path.with_suffix(ending)
    data = bytearray(path.read_bytes())
    data[at : at + size] = value.to_bytes(size, "little", signed=value < 0)
    path.write_bytes(data)


@pytest.mark.parametrize(
    "at, value, size, words",
    [
        (0, 0, 1, "expected an index of Megatron-LM"),
        (9, 2, 8, "expected version 1 at byte 9 of the .idx, found 2"),
        (17, 9, 1, "expected the code of a type, 1 to 8, at byte 17 of the .idx, found 9"),
        (18, 4, 8, "expected an .idx of"),
        (18, -1, 8, "expected an .idx of"),
        (26, 0, 8, "expected at least one document index"),
        (34, -1, 4, "sequence 0: expected its number of tokens at byte 34 of the .idx, found -1"),
        (34, 4, 4, "sequence 1: expected it to begin at byte 8 of the .bin, where the sequence before it ends; found 6 at byte 54"),
        (42, 3, 4, "sequence 2: expected it to end at byte 14 of the .bin, the size of the .bin"),
        (46, 2, 8, "sequence 0 begins at byte 2 of the .bin"),
        (54, -6, 8, "sequence 1 begins at byte -6 of the .bin, as byte 54 of the .idx says; expected 0 to 14"),
        (70, 1, 8, "document index 0, at byte 70 of the .idx: expected 0, found 1"),
        (78, 4, 8, "document index 1, at byte 78 of the .idx: expected 0 to 3, found 4"),
        (86, 2, 8, "document index 2, at byte 86 of the .idx: expected 3, the number of sequences"),
    ],
)
def test_damage_says_where_it_is(tmp_path, at, value, size, words):
    path = write(tmp_path / "a.bin", [[[1, 2, 3], [4, 5]], [[6, 7]]])
    damage(path, ".idx", at, value, size)
    done = run("cat", "-d", "megatron", path)
    assert done.returncode and words in done.stderr.decode().replace("\n", " "), done.stderr


def test_files_that_are_cut(tmp_path):
    for ending, left, words in [(".bin", 10, "cut short"), (".bin", 9, "no multiple"), (".idx", 90, "expected an .idx of"), (".idx", 20, "header of 34 bytes")]:
        path = write(tmp_path / "a.bin", [[[1, 2, 3], [4, 5]], [[6, 7]]])
        os.truncate(path.with_suffix(ending), left)
        done = run("cat", "-d", "megatron", path)
        assert done.returncode and words in done.stderr.decode(), done.stderr


def index_of(tmp_path, source):
    index = tmp_path / "the.index"
    done = run("index", "-d", "megatron", "--out", index, source)
    assert done.returncode == 0, done.stderr
    return index


def test_an_index_knows_both_files(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    path = large(data / "a.bin")
    wanted = expected(path)
    index = index_of(tmp_path, data)
    with pipemill.Dataset(index) as dataset:
        assert len(dataset) == len(wanted)
        for number in (0, len(wanted) - 1, len(wanted) // 2):
            record = dataset[number]
            assert (list(map(int, record["tokens"])), int(record["document"])) == wanted[number]
    with pipemill.open(index, shuffle={"seed": 1, "blocks": "1MiB"}, timeout=PATIENCE) as stream:
        found = [(plain(record["tokens"]), plain(record["document"])) for batch in stream for record in batch]
    assert sorted(found) == sorted(wanted) and found != wanted
    # The same bytes at another time are the same; others are not.
    os.utime(path.with_suffix(".idx"), (1, 1))
    assert len(list(pipemill.cat(index))) == len(wanted)
    done = run("index", "check", index)
    assert done.returncode == 0 and b"all 1 objects are as they were" in done.stdout, done.stderr
    damage(path, ".idx", 34, 77, 4)
    done = run("index", "check", index)
    assert done.returncode and b"a.idx was size:" in done.stdout, done.stdout + done.stderr
    with pytest.raises(pipemill.PipemillError, match="has changed since the index .* was made"):
        list(pipemill.cat(index))


def test_each_part_of_an_index_knows_both_files(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    count = sum(len(expected(large(data / f"{name}.bin", seed))) for seed, name in enumerate("abc"))
    parts = [tmp_path / f"{number}.index" for number in range(2)]
    for number, part in enumerate(parts):
        pipemill.index(data, part, decoder="megatron", part=(number, 2))
    done = run("index", "merge", *parts, "--out", tmp_path / "all.index")
    assert done.returncode == 0, done.stderr
    with pipemill.Dataset(tmp_path / "all.index") as dataset:
        assert len(dataset) == count


def test_objects_with_larger_plans_are_divided(tmp_path):
    """Of a sequence of one token, the plan has 4 bytes of the .bin and 12 of the .idx: more than the .bin has."""
    count = 400_000  # Each part of the plan has 65,536 sequences at most.
    write(tmp_path / "a.bin", [np.arange(count).reshape(-1, 1)], np.int32)
    index = tmp_path / "the.index"
    pipemill.index(tmp_path / "a.bin", index, decoder="megatron", distance="16KiB")
    shuffle = {"seed": 1, "blocks": "64KiB"}
    with pipemill.open(index, batch=1000, shuffle=shuffle, add_fields=["__index__"], timeout=PATIENCE) as stream:
        found = [int(one) for batch in stream for one in batch["__index__"]]
    assert found != sorted(found) and sorted(found) == list(range(count))
    numbers = list(range(0, count, 49_973))
    with pipemill.Dataset(index, cache="1MiB") as dataset:
        assert [int(record["tokens"][0]) for record in dataset[numbers]] == numbers


def test_a_restart_notices_another_index(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    path = large(data / "a.bin")
    wanted = [tokens for tokens, _ in expected(path)]
    options = dict(decoder="megatron", batch=500, timeout=PATIENCE)
    for source in (path, data):
        with pipemill.open(source, **options) as stream:
            batches = iter(stream)
            found = [list(map(int, record["tokens"])) for _ in range(5) for record in next(batches)]
            state = stream.state_dict()
        with pipemill.open(source, state=state, **options) as stream:
            found += [list(map(int, record["tokens"])) for batch in stream for record in batch]
        assert found == wanted
        # Only where documents end changes, and neither the size of the file nor the .bin.
        index = path.with_suffix(".idx")
        before, times = index.read_bytes(), index.stat()
        damage(path, ".idx", index.stat().st_size - 16, 5998, 8)
        with pytest.raises(pipemill.PipemillError) as failed:
            with pipemill.open(source, state=state, **options) as stream:
                list(stream)
        assert "state" in str(failed.value)
        index.write_bytes(before)
        os.utime(index, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_objects_in_s3(tmp_path, bucket):  # noqa: F811
    folder = tmp_path / "buckets/data/pairs"
    folder.mkdir()

    def upload(path):
        (folder / path.name).write_bytes(path.read_bytes())

    for name in "ab":
        path = large(tmp_path / f"{name}.bin", ord(name))
        upload(path)
        upload(path.with_suffix(".idx"))
    wanted = expected(tmp_path / "a.bin") + expected(tmp_path / "b.bin")
    assert records("s3://data/pairs/") == wanted
    assert records("s3://data/pairs/a.bin", records="document") == expected(tmp_path / "a.bin", "document")
    index = index_of(tmp_path, "s3://data/pairs/")
    assert len(list(pipemill.cat(index))) == len(wanted)
    state = None
    with pipemill.open("s3://data/pairs/", decoder="megatron", batch=500, timeout=PATIENCE) as stream:
        next(iter(stream))
        state = stream.state_dict()
    damage(folder / "a.bin", ".idx", 34 + 12 * 6000 + 8, 0, 8)
    with pytest.raises(pipemill.PipemillError, match="has changed since the index"):
        list(pipemill.cat(index))
    with pytest.raises(pipemill.PipemillError, match="state"):
        with pipemill.open("s3://data/pairs/", decoder="megatron", batch=500, state=state, timeout=PATIENCE) as stream:
            list(stream)
    (folder / "a.idx").unlink()
    with pytest.raises(pipemill.PipemillError, match="a.bin.*is not decoded without its companion s3://data/pairs/a.idx, which does not exist"):
        records("s3://data/pairs/")
    upload(tmp_path / "a.idx")
    (folder / "b.bin").unlink()
    with pytest.raises(pipemill.PipemillError, match="b.idx.*is the companion of s3://data/pairs/b.bin"):
        records("s3://data/pairs/")


def test_each_epoch_has_the_objects_of_one_list(tmp_path, bucket):  # noqa: F811
    """The list is kept for all epochs, with the companions in it."""
    folder = tmp_path / "buckets/data/pairs"
    folder.mkdir()
    for name in "ab":
        write(folder / f"{name}.bin", documents(ord(name)))
    wanted = expected(folder / "a.bin") + expected(folder / "b.bin")
    for source in "s3://data/pairs/", str(folder):
        with pipemill.open(source, decoder="megatron", epochs=3, timeout=PATIENCE) as stream:
            found = [(plain(record["tokens"]), plain(record["document"])) for batch in stream for record in batch]
        assert found == 3 * wanted


def test_the_kit_tests_pairs():
    # A document without a token has no byte by which an input that ends before it could differ.
    for options, name in ([], "uint16"), (["records=document"], "int32"), (["length=7", "tail=drop"], "uint16"):
        words = [word for option in options for word in ("-o", option)]
        done = run("plugin", "test", "megatron", *words, "--cases", "60", "--data", FIXTURES / f"{name}.bin")
        assert done.returncode == 0, done.stdout + done.stderr
        assert b"every instance makes the same plan" in done.stdout


def test_blocks_of_an_object_have_one_plan(counted, tmp_path):  # noqa: F811
    dataset = tmp_path / "buckets/data/train/a.bin"
    # Several parts: each has 65,536 sequences at most.
    count = 250_000
    write(dataset, [np.arange(32 * count, dtype=np.uint16).reshape(count, 32)])
    index = tmp_path / "train.index"
    pipemill.index(f"{counted.bucket}/a.bin", index, decoder="megatron", distance="16KiB")
    del counted.ranges[:]
    shuffle = {"seed": 3, "blocks": "64KiB"}
    with pipemill.open(index, batch=10_000, shuffle=shuffle, add_fields=["__index__"]) as stream:
        found = [int(one) for batch in stream for one in batch["__index__"]]
    assert found != sorted(found) and sorted(found) == list(range(count))
    heads = [wanted for name, wanted in counted.ranges if name == "a.idx" and wanted == "bytes=0-33"]
    tokens = {wanted for name, wanted in counted.ranges if name == "a.bin"}
    # Before the stream, one more is made to look at the first records.
    assert len(heads) <= 2 and len(tokens) >= 4, (heads, tokens)
