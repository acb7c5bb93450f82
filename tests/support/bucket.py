"""A bucket in an S3 server of the test's own: the fixture `bucket`."""

import os
import subprocess

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
