"""With numpy: which arrays are views, and that no array is writable."""

from __future__ import annotations

import os
import struct
import sys
import types

import pytest
from fakehost import FakeHost, Peer, Rows

import pipemill
from pipemill.column import arrays

np = pytest.importorskip("numpy")


def one_batch(path: str, fields: list, batch: Rows):
    def script(peer: Peer) -> None:
        peer.welcome(fields)
        peer.epoch(0, [batch])
        peer.stream_end()
        peer.linger()

    return FakeHost(path, script)


def floats(n: int, d: int) -> list[tuple[bytes]]:
    return [(struct.pack(f"<{d}f", *range(i, i + d)),) for i in range(n)]


def is_view(array: object, batch: pipemill.Batch) -> bool:
    return np.shares_memory(array, np.frombuffer(batch.payload, "u1"))


@pytest.mark.parametrize("shape", [[], [5], [2, 3], [1, 1, 4]])
def test_dense_fields_are_views_of_shared_memory(path: str, shape: list[int]) -> None:
    d = int(np.prod(shape))
    with one_batch(path, [("x", "float32", shape)], Rows(floats(100, d))):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                x = batch["x"]
                assert (x.shape, x.dtype) == ((100, *shape), np.dtype("<f4"))
                assert is_view(x, batch) and not x.flags.writeable and x.flags.c_contiguous
                assert x.flags.aligned and x.ctypes.data % 64 == 0
                assert (x.reshape(100, d) == np.arange(100)[:, None] + np.arange(d)).all()
                with pytest.raises(ValueError):
                    x.flags.writeable = True
                assert is_view(batch.dense("x"), batch)
                assert batch.offsets("x").dtype == np.uint32
                assert not batch.offsets("x").flags.writeable
            del x


def test_an_array_from_before_a_fork_never_changes_in_the_child(path: str) -> None:
    read, write = os.pipe()
    with one_batch(path, [("x", "float32", [5])], Rows(floats(100, 5))):
        with pipemill.connect("train", path) as stream:
            batch = next(stream)
            x = batch["x"]
            assert is_view(x, batch)
            child = os.fork()
            if child == 0:
                os.close(write)
                os.read(read, 1)  # until the parent has RELEASEd the batch
                os._exit(7 if (x == np.arange(100)[:, None] + np.arange(5)).all() else 1)
            del x, batch
            assert list(stream) == []
    os.close(read)
    os.close(write)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("gap", [b"12345678", b"!"])
def test_evenly_spaced_rows_are_views(path: str, gap: bytes) -> None:
    with one_batch(path, [("x", "float32", [3])], Rows(floats(50, 3), gap=gap)):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                x = batch["x"]
                assert is_view(x, batch) and x.strides == (12 + len(gap), 4)
                assert x[49].tolist() == [49.0, 50.0, 51.0]
            del x


def test_two_interleaved_fields_are_views(path: str) -> None:
    rows = [(struct.pack("<i", i), struct.pack("<2d", i, -i)) for i in range(20)]
    with one_batch(path, [("a", "int32", []), ("b", "float64", [2])], Rows(rows)):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                a, b = batch["a"], batch["b"]
                assert is_view(a, batch) and is_view(b, batch)
                assert a.tolist() == list(range(20)) and b[7].tolist() == [7.0, -7.0]
            del a, b


def test_unevenly_spaced_rows_are_one_read_only_copy(path: str) -> None:
    rows = [(struct.pack("<i", i), b"." * (i % 3)) for i in range(20)]
    with one_batch(path, [("a", "int32", []), ("b", "bytes", [])], Rows(rows)):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                a = batch["a"]
                assert not is_view(a, batch) and not a.flags.writeable
                assert a.tolist() == list(range(20))


def test_bytes_of_one_length_are_a_dense_array(path: str) -> None:
    rows = [(bytes([i] * 7),) for i in range(9)]
    with one_batch(path, [("image", "bytes", [])], Rows(rows, gap=b"crc")):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                images = batch.dense("image")
                assert (images.shape, images.dtype) == ((9, 7), np.uint8)
                assert is_view(images, batch) and (images == np.arange(9)[:, None]).all()
            del images


def test_records_of_different_lengths_are_a_list_of_views(path: str) -> None:
    rows = [(bytes(4 * 2 * n),) for n in range(5)]
    with one_batch(path, [("x", "float32", [0, 2])], Rows(rows)):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                assert [x.shape for x in batch["x"]] == [(n, 2) for n in range(5)]
                assert is_view(batch["x"][3], batch)
                assert isinstance(batch["x"], list)
                with pytest.raises(ValueError, match="0 bytes in row 0, 8 in row 1"):
                    batch.dense("x")


def test_records_of_one_unknown_length_are_one_view(path: str) -> None:
    with one_batch(path, [("x", "float32", [0, 2])], Rows(floats(30, 6))):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                x = batch.dense("x")
                assert x.shape == (30, 3, 2) and is_view(x, batch)
                assert x[29].tolist() == [[29, 30], [31, 32], [33, 34]]
                listed = batch["x"]
                assert isinstance(listed, list) and all(is_view(one, batch) for one in listed)
                assert (np.array(listed) == x).all()
            del x, listed


def test_absent_numbers_raise_an_error_or_get_the_given_value(path: str) -> None:
    rows = [(struct.pack("<f", 1.5),), (None,), (struct.pack("<f", 2.5),)]
    with one_batch(path, [("age", "float32", [])], Rows(rows)):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                with pytest.raises(pipemill.AbsentError) as caught:
                    batch["age"]
                assert (
                    "absent in 1 of 3 records (the first is row 1 of batch 0 of epoch 0, which "
                    "begins with record 0 of 'folder/object-0')"
                ) in str(caught.value)
                assert "batch.column('age', absent=...)" in str(caught.value)
                filled = batch.column("age", absent=float("nan"))
                assert np.isnan(filled[1]) and filled[[0, 2]].tolist() == [1.5, 2.5]
                assert list(batch) == [1.5, None, 2.5]
            del caught


def test_codes_of_categories_are_a_view(path: str) -> None:
    field = ("color", "uint16", [], {"categories": ["red", "blue"]})
    rows = [(struct.pack("<H", i % 2),) for i in range(20)]
    with one_batch(path, [field], Rows(rows, gap=b"!")), pipemill.connect("train", path) as stream:
        for batch in stream:
            codes = batch.dense("color")
            assert (codes.shape, codes.dtype) == ((20,), np.uint16) and is_view(codes, batch)
            assert np.array(batch.fields[0].categories)[codes].tolist() == batch["color"]
        del codes


def test_half_precision_is_a_view(path: str) -> None:
    rows = [(struct.pack("<2e", i, -i / 2),) for i in range(20)]
    with one_batch(path, [("x", "float16", [2])], Rows(rows)):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                x = batch["x"]
                assert (x.shape, x.dtype) == ((20, 2), np.float16) and is_view(x, batch)
                assert x[7].tolist() == [7.0, -3.5]
            del x


def test_bfloat16_has_the_type_of_ml_dtypes(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bfloat16 = np.dtype([("bits", "<u2")])  # any type of two bytes
    module = types.SimpleNamespace(bfloat16=bfloat16)
    monkeypatch.setitem(sys.modules, "ml_dtypes", module)  # type: ignore[arg-type]
    monkeypatch.setattr(arrays, "_DTYPES", {**arrays._DTYPES})
    arrays._DTYPES.pop("bfloat16", None)
    rows = [(struct.pack("<f", i)[2:],) for i in range(20)]
    with one_batch(path, [("x", "bfloat16", [])], Rows(rows)):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                x = batch["x"]
                assert (x.shape, x.dtype) == ((20,), bfloat16) and is_view(x, batch)
                assert x[1]["bits"] == 0x3F80
                assert list(batch) == list(range(20)), "single numbers are floats"
            del x


@pytest.mark.parametrize("seed", range(40))
def test_rows_in_several_pieces_are_copied_as_row_by_row(seed: int) -> None:
    random = np.random.default_rng(seed)
    size = int(random.choice([1, 2, 4, 8]))
    raw = random.integers(0, 256, 60_000, "u1")
    raw.flags.writeable = False
    step, offsets = size + int(random.integers(0, 20)), []
    for _ in range(int(random.integers(1, 90))):
        rows = int(random.integers(1, 20))
        first = int(random.integers(0, len(raw) - step * rows))
        if random.random() < 0.1:
            step = size + int(random.integers(0, 20))
            first = min(first, len(raw) - step * rows)
        offsets += range(first, first + step * rows, step)
    offsets = np.array(offsets, "<u4")
    pieces = arrays.pieces_of(offsets, size, len(raw))
    if pieces is not None:
        rows_of = [range(one[2], one[2] + one[3] * (one[1] - one[0]), one[3]) for one in pieces]
        assert [row for one in rows_of for row in one] == offsets.tolist()
    found = arrays.dense_array(raw, offsets, size, f"uint{8 * size}", ())
    expected = [raw[at : at + size].tobytes() for at in offsets.tolist()]
    assert [one.tobytes() for one in found] == expected and not found.flags.writeable


def test_rows_outside_of_the_payload_are_no_pieces() -> None:
    """Also where the steps of 32 bits look even."""
    step = 1 << 26
    rows = np.arange(200, dtype="u8") * step
    assert arrays.pieces_of(rows.astype("<u4"), 8, 1 << 32) is None
    series = np.arange(200, dtype="<u4") * 8
    assert arrays.pieces_of(series, 8, 1600) == [(0, 200, 0, 8)]
    assert arrays.pieces_of(series, 8, 1599) is None
    series[150] = 0xFFFFFFFF
    assert arrays.pieces_of(series, 8, 1600) is None
