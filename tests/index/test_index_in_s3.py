"""An index in S3: made, read, shown, merged and updated there; the same as its copy on a disk."""

import contextlib
import json
import os
import socket

import pipemill
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from drift import rows_of
from e2e import PATIENCE, in_background, run


def made(*words):
    finished = run("index", *words)
    assert finished.returncode == 0, finished.stderr
    return finished.stderr.decode()


def read(source, **more):
    with pipemill.open(source, timeout=PATIENCE, **more) as stream:
        return [row for batch in stream for row in rows_of(batch)]


def digest(index):
    return run("index", "show", index).stdout.splitlines()[-1]


INDEX = "s3://data/all/train.index"


@pytest.fixture
def indexed(bucket, tmp_path):  # noqa: F811
    """An index in S3, and the file that it is in the server."""
    assert f"{INDEX}: 8 records in 4 objects" in made(bucket, "--out", INDEX, "-d", "lines")
    return tmp_path / "buckets/data/all/train.index"


def test_an_index_in_s3_is_the_one_in_a_file(bucket, tmp_path, indexed):  # noqa: F811
    local = tmp_path / "local.index"
    made(bucket, "--out", local, "-d", "lines")
    assert local.read_bytes() == indexed.read_bytes()
    assert run("index", "show", INDEX).stdout == run("index", "show", local).stdout
    assert run("index", "check", INDEX).returncode == 0
    expected = read(bucket, decoder="lines")
    for source in (INDEX, {"index": INDEX}, {"index": INDEX, "part_size": "64KiB"}, local):
        assert read(source) == expected and len(expected) == 8
    dataset = pipemill.Dataset(INDEX)
    assert len(dataset) == 8 and dataset[5]["line"] == "c2"
    dataset.close()


def test_a_state_of_the_one_fits_the_other(bucket, tmp_path, indexed):  # noqa: F811
    local = tmp_path / "local.index"
    local.write_bytes(indexed.read_bytes())
    expected = read(INDEX)
    for one, other in ((INDEX, local), (local, INDEX)):
        with pipemill.open(one, batch=3, timeout=PATIENCE) as stream:
            next(stream)
            state = json.loads(json.dumps(stream.state_dict()))
        assert read(other, batch=3, state=state) == expected[3:]


def test_an_index_of_files_is_kept_in_s3(bucket, tmp_path):  # noqa: F811
    """The data lies on this machine; the index tells all machines what it is."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.csv").write_text("a,b\n1,x\n2,y\n")
    made(folder, "--out", INDEX)
    assert [row["a"] for row in pipemill.cat(INDEX)] == [1, 2]
    (tmp_path / "moved").mkdir()
    (folder / "a.csv").rename(tmp_path / "moved/a.csv")
    assert len(read({"index": INDEX, "root": str(tmp_path / "moved")})) == 2


def test_an_update_in_place_and_to_another_place(bucket, tmp_path, indexed):  # noqa: F811
    (tmp_path / "buckets/data/train/e.txt").write_text("e1\n")
    local = tmp_path / "local.index"
    made("--update", INDEX, "--out", local)
    assert run("index", "check", INDEX).returncode == 65
    assert "9 records in 5 objects" in made("--update", INDEX)
    assert digest(INDEX) == digest(local) and indexed.read_bytes() == local.read_bytes()
    assert run("index", "check", INDEX).returncode == 0
    # From a file to S3.
    made("--update", local, "--out", "s3://data/all/other.index")
    assert digest("s3://data/all/other.index") == digest(INDEX)


def test_parts_in_s3_are_merged_in_s3(bucket, tmp_path, indexed):  # noqa: F811
    parts = [f"s3://data/parts/{number}.index" for number in range(2)]
    for number, part in enumerate(parts):
        made(bucket, "--out", part, "-d", "lines", "--part", f"{number}/2")
    made("merge", *parts, "--out", "s3://data/all/merged.index")
    assert (tmp_path / "buckets/data/all/merged.index").read_bytes() == indexed.read_bytes()
    made("merge", *parts, "--out", tmp_path / "merged.index")
    assert digest(tmp_path / "merged.index") == digest(INDEX)


def test_an_index_that_is_not_there_or_damaged_is_refused(bucket, indexed):  # noqa: F811
    for source in ("s3://data/all/none.index", {"index": "s3://data/none"}):
        with pytest.raises(pipemill.RefusedError) as caught:
            read(source)
        name = source if isinstance(source, str) else source["index"]
        for text in (f"the index {name}", "404", f"pipemill index SOURCE --out {name}"):
            assert text in str(caught.value)
    shown = run("index", "show", "s3://data/all/none.index")
    assert shown.returncode == 66 and b"s3://data/all/none.index" in shown.stderr
    whole = indexed.read_bytes()
    for damaged in (whole[:-1], whole[:100] + b"x" + whole[101:], b"", b"a,b\n1,2\n"):
        indexed.write_bytes(damaged)
        with pytest.raises(pipemill.RefusedError, match=INDEX) as caught:
            read(INDEX)
        assert "make it again" in str(caught.value) or "has made" in str(caught.value)
        shown = run("index", "show", INDEX)
        assert shown.returncode == 65 and INDEX.encode() in shown.stderr
    for wrong in ("s3://data", "s3://data/folder/", "s3a://data/x.index"):
        assert run("index", "show", wrong).returncode == 64
        assert run("index", bucket, "--out", wrong).returncode == 64
        with pytest.raises(pipemill.RefusedError):
            read({"index": wrong})


def test_an_index_of_another_name_is_not_read_as_data(bucket, tmp_path, indexed):  # noqa: F811
    indexed.rename(tmp_path / "buckets/data/all/train")
    with pytest.raises(pipemill.PipemillError, match="an index of pipemill"):
        read("s3://data/all/train")
    assert len(read({"index": "s3://data/all/train"})) == 8


def test_an_index_is_written_to_a_bucket_that_is_there(bucket):  # noqa: F811
    failed = run("index", bucket, "--out", "s3://none/x.index", "-d", "lines")
    assert failed.returncode == 66 and b"s3://none/x.index: can't be written" in failed.stderr
    assert b"NoSuchBucket" in failed.stderr


def test_options_for_s3_apply_to_the_index(bucket, indexed, monkeypatch):  # noqa: F811
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    assert run("index", "show", INDEX, "--endpoint", endpoint, "--region", "eu-west-1").returncode == 0
    assert run("index", "check", INDEX, "--endpoint", endpoint, "--region", "eu-west-1").returncode == 0
    refused = run("index", "show", INDEX, "--endpoint", endpoint, "--anonymous")
    assert refused.returncode == 65 and b"403" in refused.stderr
    how = {"endpoint": endpoint, "region": "eu-west-1"}
    assert len(read({"index": INDEX, **how})) == 8
    with pytest.raises(pipemill.RefusedError, match="403"):
        read({"index": INDEX, "anonymous": True, **how})


def test_the_index_is_made_from_python(bucket):  # noqa: F811
    pipemill.index(bucket, INDEX, "lines")
    pipemill.index(update=INDEX)
    assert [row["line"] for row in pipemill.cat(INDEX, limit=3)] == ["a1", "a2", "b1"]


def before_list(endpoint, act):
    """The address of a proxy that does something once, before it passes on the first request for a list."""
    host, port = endpoint.removeprefix("http://").split(":")
    listener = socket.create_server(("127.0.0.1", 0))
    todo = [act]

    def serve():
        while True:
            client, _ = listener.accept()
            server = socket.create_connection((host, int(port)))
            in_background(copy, client, server, True)
            in_background(copy, server, client, False)

    def copy(source, target, is_request):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if is_request and b"list-type=2" in data and todo:
                    todo.pop()()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    in_background(serve)
    return "http://127.0.0.1:%d" % listener.getsockname()[1]


def test_an_update_does_not_replace_what_another_one_has_written(bucket, tmp_path, indexed):  # noqa: F811
    (tmp_path / "buckets/data/train/e.txt").write_text("e1\n")
    made("--update", INDEX, "--out", tmp_path / "later.index")
    later = (tmp_path / "later.index").read_bytes()

    def replace():
        (tmp_path / "draft").write_bytes(later)
        (tmp_path / "draft").rename(indexed)

    (tmp_path / "buckets/data/train/f.txt").write_text("f1\n")
    endpoint = before_list(os.environ["AWS_ENDPOINT_URL"], replace)
    failed = run("index", "--update", INDEX, "--endpoint", endpoint)
    assert failed.returncode == 65 and b"was replaced by another writer" in failed.stderr, failed.stderr
    assert indexed.read_bytes() == later
    assert "10 records in 6 objects" in made("--update", INDEX)
