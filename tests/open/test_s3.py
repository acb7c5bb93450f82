"""`pipemill.open` of addresses in S3, with a server of its own; how it says what is missing."""

import os
import subprocess

import pipemill
import pytest

SERVER = os.environ.get("PIPEMILL_S3_SERVER")
KEYS = {"AWS_ACCESS_KEY_ID": "open", "AWS_SECRET_ACCESS_KEY": "opens-secret"}


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """A server with some objects; the variables that say how to reach it."""
    if not SERVER:
        pytest.skip("set PIPEMILL_S3_SERVER to the binary s3-server of tests/support/s3")
    folder = tmp_path / "buckets/data/train"
    folder.mkdir(parents=True)
    for name in "abcd":
        (folder / f"{name}.txt").write_text(f"{name}1\n{name}2\n")
    keys = ["--access-key", "open", "--secret-key", "opens-secret"]
    server = subprocess.Popen([SERVER, tmp_path / "buckets", *keys], stdout=subprocess.PIPE, text=True)
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    endpoint = "http://" + server.stdout.readline().split()[-1]
    more = {"AWS_ENDPOINT_URL": endpoint, "AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
    for name, value in (KEYS | more).items():
        monkeypatch.setenv(name, value)
    yield "s3://data/train"
    server.kill()
    server.wait()
    server.stdout.close()


def lines(*args, **wishes):
    with pipemill.open(*args, "lines", **wishes) as stream:
        return [line for batch in stream for line in batch.records()]


def test_a_prefix_objects_and_a_share(bucket):
    whole = [f"{name}{number}" for name in "abcd" for number in (1, 2)]
    assert lines(f"{bucket}/") == lines([f"{bucket}/"]) == whole
    assert lines([f"{bucket}/c.txt", f"{bucket}/a.txt"]) == ["c1", "c2", "a1", "a2"]
    assert lines(f"{bucket}/", shard=(1, 2)) == ["b1", "b2", "d1", "d2"]
    shuffled = lines(f"{bucket}/", shuffle=3)
    assert shuffled != whole and sorted(shuffled) == whole


def test_what_is_missing_is_an_exception(bucket, monkeypatch):
    with pytest.raises(pipemill.SourceError, match="no key begins with this prefix") as caught:
        lines(f"{bucket}/none/")
    assert f"{bucket}/none/" in str(caught.value)
    with pytest.raises(pipemill.SourceError, match="s3://other"):
        lines("s3://other/train/")
    for name in KEYS:
        monkeypatch.delenv(name)
    with pytest.raises(pipemill.SourceError, match="no credentials.*for a public bucket set `anonymous`"):
        lines(f"{bucket}/")
    # What the message asks for is a key of the source. This server wants a signature all the same.
    with pytest.raises(pipemill.SourceError, match="403"):
        lines({"s3": f"{bucket}/", "anonymous": True})
