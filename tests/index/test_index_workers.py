"""All workers decode for an index, and it is as true as that of one."""

import random
import subprocess
import threading
from pathlib import Path

import pipemill
import pyarrow.parquet
import pytest
from counting import bucket, counted  # noqa: F401 (fixtures)
from e2e import PATIENCE, PIPEMILL, patiently, run, tfrecord


def workers_of(process):
    """The numbers of the threads that decode."""
    names = [task.read_text().split("-") for task in Path(f"/proc/{process.pid}/task").glob("*/comm")]
    return {int(name[1]) for name in names if name[0] == "worker"}


def test_all_workers_decode(counted, tmp_path):  # noqa: F811
    data = tmp_path / "buckets/data/train"
    for number in range(4):
        (data / f"{number}.txt").write_text("line\n" * 1000)
    seen = threading.Event()
    counted.before = lambda *_: seen.wait(PATIENCE)
    command = ["index", f"{counted.bucket}/", "-d", "lines", "--workers", "3", "--out", str(tmp_path / "x.index")]
    with subprocess.Popen([PIPEMILL, *command]) as process:
        try:
            patiently(lambda: workers_of(process) == {0, 1, 2})
        finally:
            seen.set()
    assert process.returncode == 0


@pytest.mark.parametrize("distance", ["1KiB", "8KiB", "64KiB"])
def test_small_distances_have_places_with_any_number_of_workers(tmp_path, distance):
    numbers, folder = random.Random(distance), tmp_path / "data"
    folder.mkdir()
    for number in range(3):
        texts = [numbers.randbytes(numbers.randrange(100)).hex().encode() for _ in range(3000)]
        (folder / f"{number}.tfrecord").write_bytes(b"".join(map(tfrecord, texts)))
    expected = list(pipemill.cat(folder))
    for workers in 1, 2, 4:
        index = tmp_path / f"{workers}.index"
        options = ("-d", "tfrecord", "--distance", distance, "--workers", str(workers))
        assert run("index", folder, "--out", index, *options).returncode == 0
        table = pyarrow.parquet.read_table(index)
        assert table["records"].to_pylist() == [3000] * 3
        assert all(table["places"].to_pylist()), table["places"]
        with pipemill.Dataset(index) as dataset:
            for number in numbers.sample(range(9000), 50):
                assert dataset[number] == expected[number]
