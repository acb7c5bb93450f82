"""The cache of objects in S3: the records are those without it, and what it has is not fetched again."""

import json
import os
import random
import subprocess
import tempfile

import pipemill
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from caches import FORMATS, blocks, csv, fill, kill_while_filled, large, made, printed, printed_with_a_full_disk, program, records, small_disk, tear
from counting import counted  # noqa: F401 (a fixture)
from drift import rows_of
from e2e import PATIENCE, run

pytest.importorskip("numpy")


@pytest.fixture
def data(tmp_path):
    """The folder of the bucket's objects, which has none yet."""
    folder = tmp_path / "buckets/data/train"
    return folder


def cached(folder, **source):
    return {**source, "cache": {"path": str(folder), "size": "1GiB"}}


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


def test_processes_at_once_fetch_each_byte_once(counted, data, tmp_path):  # noqa: F811
    size = large(data)
    command = program(cached(tmp_path / "cache", s3=f"{counted.bucket}/"))
    children = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    outputs = [child.communicate(timeout=PATIENCE)[0] for child in children]
    assert [child.returncode for child in children] == [0] * 3
    assert set(outputs) == {b"".join((data / f"{seed}.txt").read_bytes() for seed in range(6))}
    assert counted.taken()[1] == size


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
    with small_disk(cache, "4m"):
        assert printed_with_a_full_disk(cached(cache, s3=f"{counted.bucket}/")) == 2 * b"".join((data / f"{seed}.txt").read_bytes() for seed in range(6))
        assert 0 < len(blocks(cache)) <= 4


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
