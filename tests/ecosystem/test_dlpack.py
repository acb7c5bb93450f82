"""Arrays for libraries that take them by DLPack, of its legacy version and of version 1."""

import gc

import jax
import numpy as np
import pytest
import tensorflow as tf
import torch
from arrow_data import FakeHost, Rows, socket_path
from e2e import PATIENCE

import pipemill


def serve(rows, fields=(("x", "float32", [16]),), gap=b""):
    def script(peer):
        peer.welcome(list(fields))
        peer.epoch(0, [Rows([(one.tobytes(),) for one in batch], gap=gap) for batch in rows])
        peer.stream_end()
        peer.linger()

    return script


ROWS = [np.arange(128, dtype="<f4").reshape(8, 16) + 1000 * number for number in range(4)]


@pytest.mark.parametrize(
    "take",
    [
        np.from_dlpack,
        jax.numpy.from_dlpack,
        torch.from_dlpack,
        lambda array: tf.experimental.dlpack.from_dlpack(array.__dlpack__()),  # legacy
    ],
    ids=["numpy", "jax", "torch", "tensorflow"],
)
def test_views_that_hold_their_batch(take):
    with socket_path() as path, FakeHost(path, serve(ROWS), slots=8) as host:
        with pipemill.connect("train", path, credits=6, wait=PATIENCE) as stream:
            held = []
            for batch in stream:
                held.append(take(batch.dlpack("x")))
                del batch
            for number in (2, 0, 3, 1):
                array, held[number] = held[number], None
                assert number not in host.peers[0].released
                assert (np.asarray(array) == ROWS[number]).all()
                del array
            gc.collect()
    assert sorted(host.peers[0].released) == [0, 1, 2, 3]


def test_what_is_written_stays_here_and_goes_with_the_batch():
    with socket_path() as path, FakeHost(path, serve(ROWS), slots=1):
        with pipemill.connect("train", path, credits=1, wait=PATIENCE) as stream:
            for batch in stream:
                number, array = batch.number, batch.dlpack("x")
                x = torch.from_dlpack(array)
                assert x.data_ptr() == array.__array_interface__["data"][0]
                x.add_(1)
                assert (array == ROWS[number] + 1).all() and (batch["x"] == ROWS[number]).all()
                del x, array, batch


def test_rows_with_gaps_are_a_copy():
    with socket_path() as path, FakeHost(path, serve(ROWS[:1], gap=b"###")):
        with pipemill.connect("train", path, wait=PATIENCE) as stream:
            array = next(stream).dlpack("x")
            assert array.flags.writeable and (array == ROWS[0]).all()
            with pytest.raises(StopIteration):
                next(stream)


def test_a_field_without_an_array():
    text = [[np.frombuffer(b"ab", "u1"), np.frombuffer(b"c", "u1")]]
    with socket_path() as path, FakeHost(path, serve(text, [("x", "utf8", [])])):
        with pipemill.connect("train", path, wait=PATIENCE) as stream:
            with pytest.raises(ValueError, match="'x' is not equally long"):
                next(stream).dlpack("x")
            assert list(stream) == []
