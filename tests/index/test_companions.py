"""An index of objects with companions notices what happens to a companion as if it happened to the object."""

import json
import os
import sys
from pathlib import Path

import pipemill
import pyarrow.parquet as pq
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from e2e import run

sys.path.insert(0, str(Path(__file__).parent.parent / "plugin"))
from test_megatron import damage, write

#: How many records each object has.
COUNTS = {"a": 5, "b": 7}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for name, count in COUNTS.items():
        write(folder / f"{name}.bin", [[[number]] for number in range(count)])
    return folder


#: The sources of an index, by what they name: the folder, both files of each object, or the objects alone.
SOURCES = {
    "folder": lambda folder: [folder],
    "files": lambda folder: [f"{folder}/{name}" for name in ("a.bin", "a.idx", "b.bin", "b.idx")],
    "objects": lambda folder: [f"{folder}/a.bin", f"{folder}/b.bin"],
}


@pytest.fixture(params=SOURCES)
def sources(request):
    return SOURCES[request.param]


def index_of(tmp_path, sources):
    index = tmp_path / "the.index"
    done = run("index", "-d", "megatron", "--out", index, *sources)
    assert done.returncode == 0, done.stderr
    return index


def check(index, *more):
    """The exit code of `index check`, and what it says."""
    done = run("index", "check", index, *more)
    return done.returncode, (done.stdout + done.stderr).decode()


AS_THEY_WERE = (0, "all 2 objects are as they were\n")


def lines(index, count, *more):
    """What `index check` says of the `count` objects that differ."""
    code, said = check(index, *more)
    *lines, last = said.splitlines()
    assert code == 65 and last.split()[1] == str(count) and "make the index again" in last, said
    return [Path(line.split(": ")[0]).name + ": " + line.split(": ", 1)[1] for line in lines]


def refused(index):
    """The error of reading from an index whose first object is not as it was: no record comes before."""
    with pytest.raises(pipemill.PipemillError) as failed:
        with pipemill.open(index) as stream:
            for _ in stream:
                raise AssertionError("a record")
    return str(failed.value)


def update(index):
    return run("index", "--update", index)


def move_an_end(folder):
    """Only where documents end changes: neither the size of the file nor the .bin."""
    damage(folder / "a.bin", ".idx", (folder / "a.idx").stat().st_size - 16, 3, 8)


def test_a_companion_that_has_changed(tmp_path, folder, sources):
    index = index_of(tmp_path, sources(folder))
    assert check(index) == AS_THEY_WERE
    # The same bytes at another time are the same.
    (folder / "a.idx").touch()
    assert check(index) == AS_THEY_WERE
    move_an_end(folder)
    [line] = lines(index, 1)
    assert line.startswith(f"a.bin: its companion {folder}/a.idx was size:") and ", and is size:" in line, line
    error = refused(index)
    assert f"{folder}/a.bin" in error and f"its companion {folder}/a.idx has changed since the index {index} was made" in error, error
    assert update(index).returncode == 0
    assert check(index) == AS_THEY_WERE and len(list(pipemill.cat(index))) == sum(COUNTS.values())


def test_a_companion_that_is_gone(tmp_path, folder, sources):
    index = index_of(tmp_path, sources(folder))
    before = index.read_bytes()
    (folder / "a.idx").rename(folder / "c.idx")
    found = lines(index, 2 if sources is SOURCES["folder"] else 1)
    assert f"a.bin: its companion {folder}/a.idx is missing" in found, found
    assert ("c.idx: is new" in found) == (sources is SOURCES["folder"]), found
    (folder / "c.idx").unlink()
    assert lines(index, 1) == [f"a.bin: its companion {folder}/a.idx is missing"]
    message = f"is not decoded without its companion {folder}/a.idx, which does not exist"
    assert f"{folder}/a.bin" in refused(index) and message in refused(index)
    done = update(index)
    assert done.returncode == 66 and index.read_bytes() == before, done.stderr


def crc64(data):
    """CRC-64/NVME."""
    value = 2**64 - 1
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x9A6C9329AC4BC9B5 if value & 1 else 0)
    return value ^ 2**64 - 1


def test_an_index_says_how_companions_are_named(tmp_path, folder):
    index = index_of(tmp_path, [folder])
    header = json.loads(pq.read_metadata(index).metadata[b"pipemill.index"])
    assert header["companions"] == [{"object": ".bin", "companion": ".idx"}]
    assert [text.count(";with:size:") for text in pq.read_table(index)["identity"].to_pylist()] == [1, 1]
    assert b"beside   `.idx` in place of `.bin`" in run("index", "show", index).stdout
    # Before, it did not. The seal is eight bytes after the text `pipemill`, and is of the file without both.
    data = bytearray(index.read_bytes()).replace(b'"companions"', b'"something_"')
    data[4:20] = bytes(16)
    data[4:20] = b"pipemill" + crc64(data).to_bytes(8, "little")
    index.write_bytes(data)
    code, said = check(index)
    assert code == 65 and f"the names of the companions of {folder}/a.bin: an earlier version has made it; update it" in said, said
    assert len(list(pipemill.cat(index))) == sum(COUNTS.values())
    done = update(index)
    assert done.returncode == 0 and check(index) == AS_THEY_WERE, done.stderr


def test_companions_that_are_exchanged(tmp_path, folder, sources):
    """Each of them is the content of a companion that the index knows in this folder."""
    index = index_of(tmp_path, sources(folder))
    (folder / "a.idx").rename(folder / "c.idx")
    (folder / "b.idx").rename(folder / "a.idx")
    (folder / "c.idx").rename(folder / "b.idx")
    found = lines(index, 2)
    assert [line.split(" was ")[0] for line in found] == [f"{name}.bin: its companion {folder}/{name}.idx" for name in "ab"]
    assert f"its companion {folder}/a.idx has changed" in refused(index)
    assert update(index).returncode != 0


def test_a_companion_that_came(tmp_path, folder):
    index = index_of(tmp_path, [folder])
    write(folder / "c.bin", [[[1]], [[2]]])
    assert sorted(lines(index, 1)) == ["c.bin: is new", "c.idx: is new"]
    (folder / "c.bin").rename(tmp_path / "c.bin")
    assert lines(index, 1) == ["c.idx: is new"]
    done = update(index)
    assert done.returncode == 66 and b"is the companion of" in done.stderr, done.stderr
    (tmp_path / "c.bin").rename(folder / "c.bin")
    done = update(index)
    assert done.returncode == 0 and b"14 records in 3 objects" in done.stderr, done.stderr
    assert check(index) == (0, "all 3 objects are as they were\n")


def test_objects_that_were_moved(tmp_path, folder, sources):
    index = index_of(tmp_path, sources(folder))
    moved = folder.rename(tmp_path / "moved")
    assert check(index, "--root", moved) == AS_THEY_WERE
    (moved / "b.idx").unlink()
    assert lines(index, 1, "--root", moved) == [f"b.bin: its companion {moved}/b.idx is missing"]


def test_parts_and_their_merged_index(tmp_path, folder):
    parts = [tmp_path / f"{number}.index" for number in range(2)]
    for number, part in enumerate(parts):
        pipemill.index(folder, part, decoder="megatron", part=(number, 2))
    index = tmp_path / "all.index"
    assert run("index", "merge", *parts, "--out", index).returncode == 0
    assert index.read_bytes() == index_of(tmp_path, [folder]).read_bytes()
    (folder / "b.idx").unlink()
    assert lines(index, 1) == [f"b.bin: its companion {folder}/b.idx is missing"]


@pytest.mark.parametrize("names", [["s3://data/pairs/"], ["s3://data/pairs/a.bin", "s3://data/pairs/b.bin"]], ids=["prefix", "names"])
def test_companions_in_s3(tmp_path, bucket, folder, names):  # noqa: F811
    objects = tmp_path / "buckets/data/pairs"
    folder.rename(objects)
    index = index_of(tmp_path, names)
    assert check(index) == AS_THEY_WERE
    idx = (objects / "a.idx").read_bytes()
    move_an_end(objects)
    [line] = lines(index, 1)
    assert line.startswith("a.bin: its companion s3://data/pairs/a.idx was etag:") and ", and is etag:" in line, line
    error = refused(index)
    assert "s3://data/pairs/a.bin" in error and f"its companion s3://data/pairs/a.idx has changed since the index {index} was made" in error, error
    assert update(index).returncode == 0 and check(index) == AS_THEY_WERE
    (objects / "a.idx").unlink()
    # A key that begins with the name of the companion is another object.
    (objects / "a.idx.old").write_bytes(idx)
    found = lines(index, 2 if len(names) == 1 else 1)
    assert "a.bin: its companion s3://data/pairs/a.idx is missing" in found, found
    assert "is not decoded without its companion s3://data/pairs/a.idx" in refused(index)
    (objects / "a.idx.old").rename(objects / "a.idx")
    [line] = lines(index, 1)
    assert "its companion s3://data/pairs/a.idx was etag:" in line, line


def test_a_build_that_goes_on(tmp_path, folder):
    """What was saved of objects with companions is not read again, unless a companion has changed."""
    # More than are saved together.
    for number in range(4100):
        for ending in ("bin", "idx"):
            os.link(folder / f"b.{ending}", folder / f"b{number}.{ending}")
    index, bad = tmp_path / "the.index", folder / "z.bin"

    def going_on():
        write(bad, [[[1]], [[2]]])
        damage(bad, ".idx", 9, 7, 8)
        done = run("index", "-d", "megatron", "--out", index, folder)
        assert done.returncode and b"z.bin" in done.stderr, done.stderr
        return done.stderr.decode().count("going on after 4,096 objects")

    assert [going_on(), going_on()] == [0, 1]
    move_an_end(folder)
    assert going_on() == 0
    write(bad, [[[1]], [[2]]])
    done = run("index", "-d", "megatron", "--out", index, folder)
    assert done.returncode == 0 and b"going on after 4,096 objects" in done.stderr, done.stderr
    assert index.read_bytes() == index_of(tmp_path, [folder]).read_bytes()
