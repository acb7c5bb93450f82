"""`pipemill.open` of addresses in S3, with a server of its own; how it says what is missing."""

import pipemill
import pytest
from bucket import KEYS, bucket  # noqa: F401

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
