"""The cache of objects in S3: the records are those without it, and what it has is not fetched again."""

import contextlib
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile

import pipemill
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from counting import counted  # noqa: F401 (a fixture)
from drift import rows_of
from e2e import PATIENCE, run, tfrecord
from killing import kill_hosts

pytest.importorskip("numpy")


def rows(seed, most=4000):
    numbers = random.Random(seed)
    return [f"{seed}-{row},{numbers.randbytes(numbers.randrange(200)).hex()}" for row in range(numbers.randrange(1, most))]


def csv(seed):
    return ("a,b\n" + "".join(row + "\n" for row in rows(seed))).encode()


FORMATS = {
    "csv": csv,
    "csv.gz": lambda seed: gzip.compress(csv(seed)),
    "tfrecord": lambda seed: b"".join(tfrecord(row.encode()) for row in rows(seed, 1000)),
}
OPTIONS = {"csv": {"header": "true"}}


@pytest.fixture
def data(tmp_path):
    """The folder of the bucket's objects, which has none yet."""
    folder = tmp_path / "buckets/data/train"
    return folder


def fill(folder, format, objects=4):
    for path in folder.iterdir():
        path.unlink()
    for seed in range(objects):
        (folder / f"{seed}.{format}").write_bytes(FORMATS[format](seed))
    return sum(path.stat().st_size for path in folder.iterdir())


def cached(folder, **source):
    return {**source, "cache": {"path": str(folder), "size": "1GiB"}}


def records(source, decoder=None, **wishes):
    """The records of each epoch."""
    options = OPTIONS.get(decoder)
    with pipemill.open(source, decoder, options=options, timeout=PATIENCE, **wishes) as stream:
        return [[str(row) for batch in epoch for row in rows_of(batch)] for epoch in stream.epochs()]


def made(source, out, decoder, *options):
    words = [f"--option={name}={value}" for name, value in OPTIONS.get(decoder, {}).items()]
    finished = run("index", source, "--out", out, "-d", decoder, "--distance", "8KiB", *words, *options)
    assert finished.returncode == 0, finished.stderr.decode()
    return out


@pytest.mark.parametrize("format", FORMATS)
def test_each_byte_is_fetched_once_and_the_records_are_the_same(counted, data, tmp_path, format):  # noqa: F811
    size, decoder = fill(data, format), format.split(".")[0]
    prefix = f"{counted.bucket}/"
    [expected] = records(prefix, decoder)
    counted.taken()
    source = cached(tmp_path / "cache", s3=prefix)
    assert records(source, decoder, epochs=3) == [expected] * 3
    assert counted.taken()[1] == size
    assert records(source, decoder, workers=2) == [expected]
    shuffled = records(source, decoder, shuffle=7, epochs=2)
    assert shuffled == records(prefix, decoder, shuffle=7, epochs=2)
    counted.taken()
    named = cached(tmp_path / "cache", s3_object=[f"{prefix}{seed}.{format}" for seed in range(4)])
    assert records(named, decoder) == [expected]
    assert counted.taken() == (0, 0)


@pytest.mark.parametrize("format", FORMATS)
def test_blocks_of_an_index_share_pages_and_resume_from_them(counted, data, tmp_path, format):  # noqa: F811
    size, decoder = fill(data, format), format.split(".")[0]
    index = made(f"{counted.bucket}/", tmp_path / "x.index", decoder)
    how = {"batch": 100, "shuffle": {"seed": 3, "blocks": "64KiB"}}
    whole = records(index, epochs=2, **how)
    source = cached(tmp_path / "cache", index=str(index))
    counted.taken()
    assert records(source, epochs=2, **how) == whole
    fetched = counted.taken()[1]
    # Pages that two blocks have may be needed again before they are stored.
    assert size <= fetched <= 1.5 * size + 4 * 65536
    assert records(source, epochs=2, **how) == whole
    assert records(source, workers=2, epochs=2, **how) == whole
    with pipemill.open(source, epochs=2, timeout=PATIENCE, **how) as stream:
        before = [str(row) for _ in range(5) for row in rows_of(next(stream))]
        state = json.loads(json.dumps(stream.state_dict()))
    after = records(source, epochs=2, state=state, **how)
    assert before + after[0] == whole[0] and after[1:] == whole[1:]
    # Without a shuffle, whole objects are read: what blocks have stored is of use.
    assert records(source) == records(index)
    expected = list(pipemill.cat(index))
    counted.taken()
    with pipemill.Dataset(source) as dataset:
        assert len(dataset) == len(whole[0])
        assert dataset[7] == expected[7]
    assert counted.taken() == (0, 0)


def test_an_index_reads_what_it_knows_from_the_cache(counted, data, tmp_path):  # noqa: F811
    fill(data, "csv")
    index = made(f"{counted.bucket}/", tmp_path / "x.index", "csv")
    source = cached(tmp_path / "cache", index=str(index))
    expected = records(source)
    (data / "1.csv").write_bytes(csv(9))
    # Without the cache it is refused.
    with pytest.raises(pipemill.SourceError, match="1.csv"):
        records(index)
    assert records(source) == expected
    # What is listed is what is there now.
    assert records(cached(tmp_path / "cache", s3=f"{counted.bucket}/"), "csv") == records(f"{counted.bucket}/", "csv")


PROGRAM = """
import json, sys, pipemill
source, epochs = json.loads(sys.argv[1]), int(sys.argv[2])
with pipemill.open(source, "lines", epochs=epochs, timeout=300) as stream:
    for batch in stream:
        print(*batch.records(), sep="\\n")
"""


def program(source, epochs=1):
    """The command that prints all lines."""
    return [sys.executable, "-c", PROGRAM, json.dumps(source), str(epochs)]


def printed(source, epochs=1):
    finished = subprocess.run(program(source, epochs), capture_output=True, timeout=PATIENCE)
    assert finished.returncode == 0, finished.stderr.decode()
    return finished.stdout


def blocks(folder):
    return [path for path in folder.glob("v1/??/*") if len(path.name) == 38]


def lines(count, seed):
    numbers = random.Random(seed)
    return "".join(f"{row} {numbers.randbytes(40).hex()}\n" for row in range(count)).encode()


def large(data, objects=6):
    for path in data.iterdir():
        path.unlink()
    for seed in range(objects):
        (data / f"{seed}.txt").write_bytes(lines(40_000, seed))
    return sum(path.stat().st_size for path in data.iterdir())


def test_processes_at_once_fetch_each_byte_once(counted, data, tmp_path):  # noqa: F811
    size = large(data)
    command = program(cached(tmp_path / "cache", s3=f"{counted.bucket}/"))
    children = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    outputs = [child.communicate(timeout=PATIENCE)[0] for child in children]
    assert [child.returncode for child in children] == [0] * 3
    assert set(outputs) == {b"".join((data / f"{seed}.txt").read_bytes() for seed in range(6))}
    assert counted.taken()[1] == size


def kill_while_filled(source, cache, wanted):
    """Kills the host once the cache has so many blocks. Nothing half done has the name of a block."""
    with contextlib.suppress(pipemill.PipemillError):
        with pipemill.open(source, "lines", epochs=50, timeout=PATIENCE) as stream:
            for _ in stream:
                if len(blocks(cache)) >= wanted:
                    kill_hosts()
    left = [path for path in cache.glob("v1/**/*") if path.is_file()]
    assert {path.name for path in left} - {path.name for path in blocks(cache)} <= {"usage", "claims"}


def tear(cache, numbers, cut, written):
    """A power failure may leave files with any content: of these parts of them, one is cut, and one is written to."""
    for path in blocks(cache):
        if numbers.random() < cut:
            os.truncate(path, numbers.randrange(path.stat().st_size))
        elif numbers.random() < written:
            with open(path, "r+b") as torn:
                torn.seek(numbers.randrange(path.stat().st_size))
                torn.write(numbers.randbytes(100))


@pytest.mark.parametrize("seed", range(3))
def test_nothing_of_a_killed_process_is_believed(counted, data, tmp_path, seed):  # noqa: F811
    large(data)
    cache = tmp_path / "cache"
    source = cached(cache, s3=f"{counted.bucket}/")
    numbers = random.Random(seed)
    wanted = numbers.randrange(1, 12)
    kill_while_filled(source, cache, wanted)
    tear(cache, numbers, 0.3, 0.3)
    expected = b"".join((data / f"{seed}.txt").read_bytes() for seed in range(6))
    assert printed(source) == expected
    counted.taken()
    assert printed(source) == expected
    assert counted.taken() == (0, 0)


def test_a_full_disk_costs_the_cache_and_not_the_run(counted, data, tmp_path):  # noqa: F811
    large(data)
    cache = tmp_path / "cache"
    cache.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "none", cache], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("only root can mount a small disk")
    try:
        command = program(cached(cache, s3=f"{counted.bucket}/"), epochs=2)
        finished = subprocess.run(command, capture_output=True, timeout=PATIENCE)
        log = finished.stderr.decode()
        assert finished.returncode == 0, log
        assert log.count("can't be written") == 1 and "make room on its disk" in log, log
        assert finished.stdout == 2 * b"".join((data / f"{seed}.txt").read_bytes() for seed in range(6))
        assert 0 < len(blocks(cache)) <= 4
    finally:
        subprocess.run(["umount", cache], check=True)


def test_a_cache_smaller_than_the_data_keeps_a_part(counted, data, tmp_path):  # noqa: F811
    size = large(data, 12)
    source = cached(tmp_path / "cache", s3=f"{counted.bucket}/")
    source["cache"]["size"] = "16MiB"
    printed(source, epochs=3)
    kept = sum(path.stat().st_size for path in blocks(tmp_path / "cache"))
    assert 0.8 * (16 << 20) < kept <= 16 << 20
    from_cache = 3 * size - counted.taken()[1]
    # The last room may be filled by a small block of a later epoch.
    whole = 2 * (kept - 512 * len(blocks(tmp_path / "cache")))
    assert whole - (2 << 20) <= from_cache <= whole


def test_a_folder_of_others_is_refused(counted, data, tmp_path):  # noqa: F811
    (tmp_path / "cache").mkdir(mode=0o700)
    os.chmod(tmp_path / "cache", 0o777)
    with pytest.raises(pipemill.SourceError, match="only this user may write to.*chmod go-w"):
        records(cached(tmp_path / "cache", s3=f"{counted.bucket}/"), "lines")
    assert counted.taken() == (0, 0)


@pytest.mark.parametrize(
    ("cache", "words"),
    [
        ('{ size = "1GiB" }', "path"),
        ('{ path = "x" }', "size"),
        ('{ path = "x", size = "1KiB" }', "16MiB"),
        ('{ path = "x", size = "1GiB", of = "pixels" }', "records"),
        ('{ path = "x", size = "1GiB", off = 1 }', "off"),
        ('"x"', "cache"),
    ],
)
def test_wrong_settings_are_faults(cache, words, tmp_path):
    file = tmp_path / "x.toml"
    file.write_text(f'[[channel]]\nname = "train"\ndecoder = "lines"\nsource = {{ s3 = "s3://b/", cache = {cache} }}\n')
    checked = run("config", "check", file)
    assert checked.returncode == 64 and words in checked.stderr.decode(), checked.stderr.decode()
    file.write_text(f'[[channel]]\nname = "train"\ndecoder = "lines"\nsource = {{ fifo = "/", cache = {cache} }}\n')
    assert b"does not go with `fifo`" in run("config", "check", file).stderr


def test_an_argument_is_answered():
    with pytest.raises(TypeError, match="source says that"):
        pipemill.open("s3://b/", cache={"path": tempfile.gettempdir()})
