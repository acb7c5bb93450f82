"""Arrays when numpy is not installed. `test_no_numpy.py` runs this file."""

from __future__ import annotations

import struct

import pytest
from fakehost import FakeHost, Peer, Rows

import pipemill


def test_arrays_are_memoryviews_with_a_shape(path: str) -> None:
    rows = [(struct.pack("<4f", *range(i, i + 4)),) for i in range(3)]

    def script(peer: Peer) -> None:
        peer.welcome([("x", "float32", [2, 2])])
        peer.epoch(0, [Rows(rows), Rows(rows, gap=b"!")])
        peer.stream_end()
        peer.linger()

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        with pytest.raises(ImportError):
            import numpy  # noqa: F401
        for batch in stream:
            x = batch["x"]
            assert isinstance(x, memoryview) and x.readonly
            assert (x.format, x.shape) == ("f", (3, 2, 2))
            assert x[2, 1, 0] == 4.0
            assert (x.obj is batch.payload.obj) is (batch.number == 0)
            assert batch.offsets("x").format == "I"
            del x
