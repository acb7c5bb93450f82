"""An index beside its data, which is found on request, and an index of objects alone."""

import os
import shutil

import pipemill
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from drift import rows_of
from e2e import PATIENCE, run

NAME = "_pipemill.index"


def made(*words):
    finished = run("index", *words)
    assert finished.returncode == 0, finished.stderr
    return finished.stderr.decode()


def read(source, **more):
    with pipemill.open(source, timeout=PATIENCE, **more) as stream:
        return [row for batch in stream for row in rows_of(batch)]


def refused(source, *texts, **more):
    with pytest.raises(pipemill.PipemillError) as caught:
        read(source, **more)
    for text in texts:
        assert text in str(caught.value)


@pytest.fixture
def data(tmp_path):
    """A folder of three files, two of them in a folder of their own."""
    folder = tmp_path / "data"
    (folder / "more").mkdir(parents=True)
    for number, name in enumerate(("a.csv", "more/b.csv", "more/c.csv")):
        (folder / name).write_text("a,b\n" + "".join(f"{number * 1000 + row},x\n" for row in range(200)))
    return folder


def test_an_index_beside_its_folder_is_found_on_request(data, tmp_path):
    beside = {"folder": str(data), "indexed": True}
    refused(beside, f"the index {data}/{NAME}", f"pipemill index {data} --out {data}/{NAME}", "`indexed`")
    expected = read(data)
    made(data, "--out", data / NAME)
    assert read(beside) == read(data) == expected
    with pipemill.open(beside, batch=100, timeout=PATIENCE) as stream:
        assert stream.records == 600
    with pipemill.open(data, batch=100, timeout=PATIENCE) as stream:
        assert stream.records is None
    assert read(beside, batch=50, shuffle={"seed": 1, "blocks": "64KiB"}) != expected
    dataset = pipemill.Dataset(beside)
    assert dataset[200]["a"] == 1000
    dataset.close()
    # What is new is not read, and what has changed is refused.
    (data / "d.csv").write_text("a,b\n1,x\n")
    assert read(beside) == expected
    (data / "a.csv").write_text("a,b\n1,x\n")
    refused(beside, "a.csv", "has changed")


@pytest.mark.parametrize("inner", [False, True], ids=["all", "all in one folder"])
def test_a_folder_is_moved_with_its_index(data, tmp_path, inner):
    """The folder of all files may be one inside of the folder that is named."""
    if inner:
        (data / "a.csv").unlink()
    made(data, "--out", data / NAME)
    expected = read(data)
    shutil.move(data, tmp_path / "moved")
    assert read({"folder": str(tmp_path / "moved"), "indexed": True}) == expected


def test_an_index_is_never_data(data, tmp_path):
    expected = read(data)
    for place in (data, data / "more"):
        made(data, "--out", place / NAME)
        # Neither in the folder nor in its index, nor with hidden files.
        shown = run("index", "show", "--objects", place / NAME).stdout.decode()
        assert "3 objects" in made(data, "--out", tmp_path / "x.index") and NAME not in shown
    (data / ".hidden.csv").write_text("a,b\n7,x\n")
    assert len(read({"folder": str(data), "hidden": True})) == len(expected) + 1
    for pattern in (f"{data}/**", f"{data}/*/*", f"{data}/more/_*"):
        listed = run("ls", "--config", config(tmp_path, f'glob = "{pattern}", hidden = true'))
        assert NAME.encode() not in listed.stdout, listed


def config(folder, source):
    path = folder / "pipemill.toml"
    path.write_text(f'[[channel]]\nname = "x"\ndecoder = "csv"\nsource = {{ {source} }}\n')
    return path


def test_an_index_beside_other_data_is_refused(data, tmp_path):
    made(data / "more", "--out", data / "more" / NAME)
    shutil.copy(data / "more" / NAME, data / NAME)
    # It is of the folder inside, which may have been moved: its files are not here.
    refused({"folder": str(data), "indexed": True}, "b.csv")
    made(data / "a.csv", data / "more", "--out", data / NAME)
    refused({"folder": str(data), "indexed": True}, "is of", "and not of the data beside it")


@pytest.mark.parametrize(
    "source, text",
    [
        ('folder = "d", indexed = true, compression = "gzip"', "compression: does not go with `indexed`"),
        ('folder = "d", indexed = true, hidden = true', "hidden: does not go with `indexed`"),
        ('file = "d", indexed = true', "indexed: does not go with `file`"),
        ('index = "d", indexed = true', "indexed: does not go with `index`"),
        ('s3 = ["s3://b/a", "s3://b/c"], indexed = true', "one prefix"),
    ],
)
def test_what_does_not_go_with_an_index_beside_the_data(tmp_path, source, text):
    finished = run("config", "check", config(tmp_path, source))
    assert finished.returncode != 0 and text.encode() in finished.stderr + finished.stdout, finished


def test_an_index_below_its_prefix(bucket, tmp_path):  # noqa: F811
    beside = {"s3": bucket, "indexed": True}
    refused(beside, f"{bucket}/{NAME}", f"pipemill index {bucket} --out {bucket}/{NAME}")
    made(bucket, "--out", f"{bucket}/{NAME}", "-d", "lines")
    assert (tmp_path / "buckets/data/train" / NAME).exists()
    expected = read(bucket, decoder="lines")
    assert len(expected) == 8
    for source in (beside, {"s3": bucket + "/", "indexed": True}, {"s3": bucket, "hidden": True}):
        assert read(source, decoder="lines") == expected
    assert "4 objects" in made(bucket, "--out", tmp_path / "x.index", "-d", "lines")
    made("s3://data", "--out", f"{bucket}/{NAME}", "-d", "lines")
    refused(beside, "is of s3://data", "not of the data beside it", decoder="lines")


def test_an_index_of_objects_alone_pins_them(data, tmp_path):
    index = tmp_path / "x.index"
    assert f"{index}: 3 objects" in made("--objects-only", data, "--out", index)
    assert read(index) == read(data)
    assert read(index, workers=2, batch=50, shuffle=3) == read(data, workers=2, batch=50, shuffle=3)
    assert read(index, rank=(1, 2)) == read(data, rank=(1, 2))
    with pipemill.open(index, batch=50, timeout=PATIENCE) as stream:
        assert stream.records is None and stream.batches is None
    shown = run("index", "show", index).stdout.decode()
    assert "records  not known" in shown and "objects  3" in shown
    assert run("index", "check", index).returncode == 0
    (data / "d.csv").write_text("a,b\n1,x\n")
    checked = run("index", "check", index)
    assert (checked.returncode, checked.stdout) == (65, f"{data}/d.csv: is new\n".encode())
    assert "4 objects" in made("--update", index)
    assert run("index", "check", index).returncode == 0
    (data / "a.csv").write_text("a,b\n1,x\n")
    refused(index, "a.csv", "has changed")


def test_what_needs_records_is_refused_with_objects_alone(data, tmp_path):
    index = tmp_path / "x.index"
    made("--objects-only", data, "--out", index)
    texts = (f"the index {index} has objects only", "without `--objects-only`")
    refused(index, *texts, batch=50, shuffle={"seed": 1, "blocks": "64KiB"})
    refused(index, *texts, batch=50, shuffle={"seed": 1, "blocks": "64KiB", "shards": 2})
    with pytest.raises(pipemill.PipemillError) as caught:
        pipemill.Dataset(index)
    assert all(text in str(caught.value) for text in texts)
    failed = run("index", "merge", index, "--out", tmp_path / "y.index")
    assert failed.returncode == 65 and b"not of a part" in failed.stderr
    for words in (["-d", "csv"], ["--part", "0/2"], ["--skip-errors"]):
        assert run("index", "--objects-only", data, "--out", index, *words).returncode == 64
    assert run("index", "--objects-only", "-", "--out", index).returncode == 64
    missing = run("index", "--objects-only", data / "none.csv", "--out", index)
    assert missing.returncode == 66 and b"none.csv" in missing.stderr
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert run("index", "--objects-only", fifo, "--out", index).returncode == 65


def test_a_state_of_objects_alone(data, tmp_path):
    index, again = tmp_path / "x.index", tmp_path / "again.index"
    made("--objects-only", data, "--out", index)
    expected = read(index)
    with pipemill.open(index, batch=100, timeout=PATIENCE) as stream:
        for _ in range(3):
            next(stream)
        state = stream.state_dict()
    made("--objects-only", data, "--out", again)
    assert read(again, batch=100, state=state) == expected[300:]
    (data / "d.csv").write_text("a,b\n1,x\n")
    made("--objects-only", data, "--out", again)
    refused(again, "objects", batch=100, state=state)


def test_objects_alone_of_a_bucket_are_listed_and_not_read(bucket, tmp_path):  # noqa: F811
    index = "s3://data/x.index"
    for name in "abcd":
        os.chmod(tmp_path / f"buckets/data/train/{name}.txt", 0o644)
    assert "4 objects of 24 B" in made("--objects-only", bucket, "--out", index)
    assert read(index, decoder="lines") == read(bucket, decoder="lines")
    (tmp_path / "buckets/data/train/c.txt").write_text("C1\nC2\n")
    refused(index, "c.txt", decoder="lines")


def test_objects_alone_from_python(data, tmp_path):
    index = tmp_path / "x.index"
    pipemill.index(data, index, objects_only=True)
    assert read(index) == read(data)
