"""ArrayRecord files: the records are those that array_record's writer wrote, and its reader has read."""

import gzip
import pathlib
import random

import pipemill
import pytest
from e2e import PATIENCE, run

FIXTURES = pathlib.Path(__file__).parents[2] / "plugins/array-record/tests/fixtures"
LONG = ["long-none", "long-zstd"]


def record(n):
    """A record of `make.py`."""
    size = [0, 1, 33, 500, 3000][n % 5] + n
    return bytes((n + i * i // 3) % 256 for i in range(size if n else 0))


def wanted(name):
    """The records of a fixture."""
    if name in LONG:
        return [b"", random.Random(7).randbytes(70_000), b"x", record(19) * 5]
    return [record(n) for n in range(24)]


def payloads(records):
    return [bytes(one["data"]) for one in records]


@pytest.fixture(params=["none-1", "zstd-1", "zstd-7", "brotli-65536", "snappy-7", "padded", *LONG])
def file(request, tmp_path):
    """A file, and its records."""
    path = tmp_path / f"{request.param}.array_record"
    path.write_bytes(gzip.decompress((FIXTURES / f"{path.name}.gz").read_bytes()))
    return path, wanted(request.param)


def test_records_are_those_that_were_written(file):
    path, expected = file
    # The decoder is found by the name and the first bytes.
    assert payloads(pipemill.cat(path)) == expected
    assert payloads(pipemill.cat(FIXTURES / f"{path.name}.gz")) == expected


def test_records_are_given_by_number(file, tmp_path):
    path, expected = file
    pipemill.index(path, tmp_path / "one.index")
    with pipemill.Dataset(tmp_path / "one.index") as dataset:
        assert len(dataset) == len(expected)
        for at in (len(expected) - 1, 0, 2):
            assert bytes(dataset[at]["data"]) == expected[at]


def test_workers_divide_a_long_file(tmp_path):
    # Files of whole blocks may follow each other.
    names = ["zstd-7", "none-1", "long-none", "long-zstd", "padded"] * 12
    whole = b"".join(gzip.decompress((FIXTURES / f"{name}.array_record.gz").read_bytes()) for name in names)
    path = tmp_path / "all.array_record"
    path.write_bytes(whole)
    expected = [one for name in names for one in wanted(name)]
    for workers in (1, 2):
        with pipemill.open(path, batch=16, workers=workers, timeout=PATIENCE) as stream:
            assert [bytes(one) for batch in stream for one in batch["data"]] == expected


def test_a_state_inside_of_a_file_is_taken_up(tmp_path):
    path, expected = FIXTURES / "zstd.riegeli", wanted("zstd")
    with pipemill.open(path, batch=5, timeout=PATIENCE) as stream:
        found = [bytes(one) for _, batch in zip(range(2), stream) for one in batch["data"]]
        state = stream.state_dict()
    with pipemill.open(path, batch=5, state=state, timeout=PATIENCE) as stream:
        found += [bytes(one) for batch in stream for one in batch["data"]]
    assert found == expected


def test_damage_costs_a_group_and_transposed_records_are_refused(tmp_path):
    damaged = bytearray((FIXTURES / "none.riegeli").read_bytes())
    damaged[300] ^= 1
    (tmp_path / "a.riegeli").write_bytes(damaged)
    done = run("cat", tmp_path / "a.riegeli")
    assert done.returncode != 0 and b"byte offset 64" in done.stderr and b"another hash" in done.stderr, done.stderr
    assert payloads(pipemill.cat(tmp_path / "a.riegeli", on_error="skip")) == wanted("none")[12:]
    done = run("cat", FIXTURES / "transposed.array_record.gz")
    assert done.returncode != 0 and b"without the option `transpose`" in done.stderr, done.stderr
