"""The cache of records: all is as without it, and what is in it is neither decoded nor fetched again."""

import json
import os
import random

import pipemill
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from caches import FORMATS, blocks, csv, fill, kill_while_filled, large, lines_of, made, printed_with_a_full_disk, records, small_disk, tear
from counting import counted  # noqa: F401 (a fixture)
from drift import rows_of
from e2e import PATIENCE, run
from test_cache import data  # noqa: F401 (a fixture)

pytest.importorskip("numpy")

#: Objects of a folder: more would only take time.
OBJECTS = 2
#: Lines of each object that is larger than a batch.
ROWS = 8_000


def cached(path, /, **source):
    return {**source, "cache": {"path": str(path), "size": "1GiB", "of": "records"}}


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "data"
    made.mkdir()
    return made


@pytest.mark.parametrize("format", FORMATS)
def test_records_and_states_are_the_same(folder, tmp_path, format):
    fill(folder, format, OBJECTS)
    plain, decoder = {"folder": str(folder)}, format.split(".")[0]
    source = cached(tmp_path / "cache", **plain)
    hows = [
        {"batch": 100, "workers": 2, "shuffle": {"seed": 1, "window": 500}, "epochs": 2},
        {"epochs": 3},
        {"workers": 2, "epochs": 2},
        {"batch": 100, "epochs": 2},
        {"shuffle": 7, "epochs": 2, "add_fields": ["__object__"]},
    ]
    # What the others have of their own is in their bytes alone.
    for how in hows if format == "csv" else hows[:1]:
        assert records(source, decoder, **how) == records(plain, decoder, **how)
    options = {"header": "true"} if decoder == "csv" else None
    for first, second in ((source, plain), (plain, source)):
        with pipemill.open(first, decoder, options=options, batch=100, timeout=PATIENCE) as stream:
            count = sum(len(next(stream)) for _ in range(5))
            state = json.loads(json.dumps(stream.state_dict()))
        assert records(second, decoder, batch=100, state=state)[0] == records(plain, decoder)[0][count:]


@pytest.mark.parametrize("format", FORMATS)
def test_blocks_of_an_index_are_kept(folder, tmp_path, format):
    fill(folder, format, OBJECTS)
    decoder = format.split(".")[0]
    index = made(folder, tmp_path / "x.index", decoder)
    source = cached(tmp_path / "cache", index=str(index))
    how = {"batch": 100, "shuffle": {"seed": 3, "blocks": "64KiB"}, "add_fields": ["__index__"]}
    whole = records(index, epochs=3, **how)
    assert records(source, epochs=3, **how) == whole
    if format == "csv":
        assert records(source, workers=2, epochs=3, **how) == whole
        skipping = {**source, "skip": [3, "10-500"]}
        assert records(skipping, epochs=2, **how) == records({"index": str(index), "skip": [3, "10-500"]}, epochs=2, **how)
        shards = {**how, "batch": 64, "shuffle": {**how["shuffle"], "shards": 4}}
        assert records(source, epochs=2, **shards) == records(index, epochs=2, **shards)
    assert records(source) == records(index)


def rows(source, decoder, options):
    with pipemill.open(source, decoder, options=options, timeout=PATIENCE) as stream:
        return [str(row) for batch in stream for row in rows_of(batch)]


def test_what_changes_records_has_others(folder, tmp_path):
    fill(folder, "csv", OBJECTS)
    plain = {"folder": str(folder)}
    source = cached(tmp_path / "cache", **plain)
    for _ in range(2):
        for options in ({"header": "true"}, {"header": "false"}, {"header": "true", "columns": "b"}):
            assert rows(source, "csv", options) == rows(plain, "csv", options)
        for changed in ({}, {"compression": "none"}, {"wrap": "recordio"}):
            decoder = "recordio" if "wrap" in changed else "lines"
            assert rows(source | changed, decoder, None) == rows(plain | changed, decoder, None)
        (folder / "1.csv").write_bytes(csv(9))


def test_an_object_with_an_error_is_decoded_in_each_epoch(folder, tmp_path):
    fill(folder, "csv", OBJECTS)
    (folder / "1.csv").write_bytes(csv(1) + b"1,2,3\n" + csv(2))
    plain = {"folder": str(folder)}
    for epochs in (1, 3):
        bad = [tmp_path / f"{epochs}-{name}.jsonl" for name in ("plain", "cached")]
        for source, file in zip((plain, cached(tmp_path / "cache", **plain)), bad):
            config = tmp_path / "x.toml"
            text = json.dumps(source["cache"]) if "cache" in source else None
            table = "" if text is None else f', cache = {{ path = "{tmp_path}/cache", size = "1GiB", of = "records" }}'
            config.write_text(
                f'[[channel]]\nname = "train"\ndecoder = "csv"\noptions = {{ header = "true" }}\nquarantine = "{file}"\non_error = "quarantine"\n'
                f'source = {{ folder = "{folder}", epochs = {epochs}{table} }}\n'
            )
            checked = run("config", "check", config)
            assert checked.returncode == 0, checked.stderr.decode()
            script = "import pipemill\nfor _ in pipemill.connect('train'): pass"
            finished = run("run", "--config", config, "--", os.environ.get("PIPEMILL_PYTHON", "python3"), "-c", script)
            assert finished.returncode == 0, finished.stderr.decode()
        lines = [[json.loads(line)["offset"] for line in file.read_text().splitlines()] for file in bad]
        # Each place once a run.
        assert lines[0] == lines[1] and len(lines[0]) == 1


def test_what_is_in_the_cache_is_not_fetched(counted, data, tmp_path):  # noqa: F811
    size = large(data, rows=ROWS)
    source = cached(tmp_path / "cache", s3=f"{counted.bucket}/", concurrency=1, part_size="64KiB")
    expected = b"".join((data / name).read_bytes() for name in sorted(path.name for path in data.iterdir()))
    assert lines_of(source) == expected
    assert counted.taken()[1] >= size
    assert lines_of(source, epochs=2) == 2 * expected
    # When the run begins, some requests are under way before it is known what is in the cache.
    assert counted.taken()[1] < size / 2
    index = made(f"{counted.bucket}/", tmp_path / "x.index", "lines")
    how = {"batch": 1000, "shuffle": {"seed": 3, "blocks": "1MiB"}}
    source = cached(tmp_path / "cache", index=str(index), concurrency=1, part_size="64KiB")
    whole = records(index, epochs=1, **how)
    assert records(source, **how) == whole
    counted.taken()
    assert records(source, **how) == whole
    assert counted.taken()[1] < size / 2
    # What is damaged is fetched then.
    for path in blocks(tmp_path / "cache"):
        os.truncate(path, path.stat().st_size // 2)
    assert records(source, **how) == whole
    assert counted.taken()[1] >= size


@pytest.mark.parametrize("seed", range(2))
def test_nothing_of_a_killed_process_is_believed(folder, tmp_path, seed):
    large(folder, rows=ROWS)
    cache, numbers = tmp_path / "cache", random.Random(seed)
    source = cached(cache, folder=str(folder))
    wanted = numbers.randrange(1, 5)
    kill_while_filled(source, cache, wanted)
    tear(cache, numbers, 0.4, 0.6)
    expected = b"".join((folder / f"{seed}.txt").read_bytes() for seed in range(6))
    assert lines_of(source) == expected
    assert lines_of(source) == expected


def test_a_full_disk_costs_the_cache_and_not_the_run(folder, tmp_path):
    large(folder, rows=ROWS)
    cache = tmp_path / "cache"
    with small_disk(cache, "2m"):
        assert printed_with_a_full_disk(cached(cache, folder=str(folder))) == 2 * b"".join((folder / f"{seed}.txt").read_bytes() for seed in range(6))
        assert 0 < len(blocks(cache)) < 6


def test_a_folder_of_others_is_refused(folder, tmp_path):
    fill(folder, "csv", OBJECTS)
    (tmp_path / "cache").mkdir(mode=0o700)
    os.chmod(tmp_path / "cache", 0o777)
    with pytest.raises(pipemill.PipemillError, match="only this user may write to.*chmod go-w"):
        records(cached(tmp_path / "cache", folder=str(folder)), "lines")


def test_bytes_of_files_are_not_kept(folder, tmp_path):
    (tmp_path / "x.toml").write_text(
        f'[[channel]]\nname = "train"\ndecoder = "lines"\nsource = {{ folder = "{folder}", cache = {{ path = "c", size = "1GiB" }} }}\n'
    )
    checked = run("config", "check", tmp_path / "x.toml")
    assert checked.returncode == 64 and b'set of = "records"' in checked.stderr, checked.stderr.decode()


@pytest.mark.parametrize("format", FORMATS)
def test_a_dataset_does_not_decode_again_what_is_kept(folder, tmp_path, format):
    fill(folder, format, OBJECTS)
    index = made(folder, tmp_path / "x.index", format.split(".")[0])
    source = cached(tmp_path / "cache", index=str(index))
    numbers = random.Random(format)
    with pipemill.Dataset(index) as plain:
        asked = [numbers.randrange(len(plain)) for _ in range(200)]
        expected = plain[asked]
        assert not (tmp_path / "cache").exists()
        for _ in range(2):
            with pipemill.Dataset(source) as dataset:
                assert dataset[asked] == expected
            kept = {path: path.stat().st_ino for path in blocks(tmp_path / "cache")}
            assert kept
        # What is there is taken: a process that decodes a block makes another file before it replaces this one.
        whole = {path: path.read_bytes() for path in kept}
        with pipemill.Dataset(source) as dataset:
            assert dataset[asked] == expected
        assert {path: path.stat().st_ino for path in blocks(tmp_path / "cache")} == kept
        # What is torn is decoded again, and stored again.
        tear(tmp_path / "cache", numbers, 0.5, 1)
        assert all(path.read_bytes() != bytes for path, bytes in whole.items())
        with pipemill.Dataset(source) as dataset:
            assert dataset[asked] == expected
        assert {path: path.read_bytes() for path in blocks(tmp_path / "cache")} == whole
