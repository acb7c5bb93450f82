"""`pipemill.open` of addresses in S3, with a server of its own; its messages about what is missing."""

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
    assert lines(f"{bucket}/", rank=(1, 2)) == ["b1", "b2", "d1", "d2"]
    shuffled = lines(f"{bucket}/", shuffle=3)
    assert shuffled != whole and sorted(shuffled) == whole


def test_a_share_without_objects(bucket):
    """Objects of a list are counted at once; objects behind a prefix are not, and the end of the
    epoch reports it.
    """
    objects = [f"{bucket}/{name}.txt" for name in "abc"]
    assert lines(objects, rank=(2, 3)) == ["c1", "c2"]
    with pytest.raises(pipemill.SourceError, match="has 3 objects, which are dealt to 4, so rank 3 of 4 gets none"):
        pipemill.open(objects, "lines", rank=(3, 4))
    assert lines(f"{bucket}/", rank=(3, 4)) == ["d1", "d2"]
    with pipemill.open(f"{bucket}/", "lines", rank=(4, 5), epochs=2) as stream:
        with pytest.raises(pipemill.SourceError, match="rank 4 of 5 got no batch of epoch 0"):
            next(stream)
    # A caller who says that the source may be empty gets no error.
    assert lines({"s3": f"{bucket}/", "allow_empty": True}, rank=(4, 5)) == []


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
    # The key that the message names is a key of the source. This server requires a signature all
    # the same.
    with pytest.raises(pipemill.SourceError, match="403"):
        lines({"s3": f"{bucket}/", "anonymous": True})
