"""Tensors of batches: their types, and that data that is written to them stays with the writer."""

import gc
import json
import os
import random
import resource
import subprocess
import sys

import numpy
import pipemill
import pytest
import torch
from arrow_data import FakeHost, Rows, socket_path
from e2e import PATIENCE, tfrecord
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pipemill.torch import Loader, Tensors, tensors

TYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64",
]  # fmt: skip


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("name", TYPES)
def test_numbers_keep_their_type_and_shape(opened, tmp_path, name, copy):
    rows = numpy.arange(5 * 3 * 2).reshape(5, 3, 2) % 2 if name == "bool" else None
    rows = (numpy.arange(30).reshape(5, 3, 2) if rows is None else rows).astype(name)
    numpy.save(tmp_path / "a.npy", rows)
    batch = next(opened(tmp_path / "a.npy", batch=4))
    found = tensors(batch, copy=copy)
    assert list(found) == ["data"] and (found.valid, found.epoch, found.number) == (4, 0, 0)
    tensor = found["data"]
    assert tensor.dtype == getattr(torch, name) and tensor.shape == (4, 3, 2)
    assert tensor.numpy().tolist() == rows[:4].tolist()
    in_ring = tensor.data_ptr() == batch["data"].ctypes.data
    assert not in_ring, "a tensor can be written to, and the ring can't"
    before = batch["data"].copy()
    tensor.zero_()
    assert (batch["data"] == before).all()
    assert not tensor.any()


def test_bfloat16_and_numbers_at_odd_addresses(opened, tmp_path):
    import struct

    records = [(1, 0x3FC0, 2.5), (2, 0xC000, -1.0), (3, 0x7F7F, 0.0)]
    data = b"".join(struct.pack("<BHf", *record) for record in records)
    (tmp_path / "a.bin").write_bytes(data)
    fields = {"fields": "n:uint8,b:bfloat16,f:float32"}
    found = tensors(next(opened(tmp_path / "a.bin", "fixed", options=fields, batch=3)))
    assert found["n"].tolist() == [1, 2, 3] and found["f"].tolist() == [2.5, -1, 0]
    assert found["b"].dtype == torch.bfloat16
    assert found["b"].view(torch.int16).tolist() == [0x3FC0, 0xC000 - 0x10000, 0x7F7F]
    found["f"].add_(1)
    assert found["n"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("header", ["a,a.present", "a.present,a"])
def test_a_field_with_the_name_of_a_second_tensor_is_refused(opened, tmp_path, header):
    (tmp_path / "a.csv").write_text(f"{header}\n1,5\n2,6\n")
    options = {"header": True, "types": "int32"}
    batch = next(opened(tmp_path / "a.csv", "csv", options=options, batch=2))
    assert [field.nullable for field in batch.fields] == [True, True]
    with pytest.raises(ValueError, match=r"fields 'a' and 'a\.present' of batch 0 .*leave one of them out"):
        tensors(batch)
    for name in header.split(","):
        found = tensors(next(opened(tmp_path / "a.csv", "csv", options={**options, "columns": name}, batch=2)))
        assert list(found) == [name, f"{name}.present"] and found[f"{name}.present"].all()


def test_an_absent_number_is_an_error_unless_the_program_says_what_to_take(opened, tmp_path):
    (tmp_path / "a.csv").write_text("1,1.5,a\n,,\n3,2.5,c\n")
    types = {"types": "0:int32,1:float64,2:utf8"}
    batch = next(opened(tmp_path / "a.csv", "csv", options=types, batch=3))
    with pytest.raises(pipemill.AbsentError, match=r"'f0' is absent in 1 of 3 .* row 1 of batch 0 .*a\.csv") as caught:
        tensors(batch)
    with pytest.raises(pipemill.AbsentError) as theirs:
        batch["f0"]
    assert str(caught.value) == str(theirs.value)
    with pytest.raises(pipemill.AbsentError, match="'f1' is absent"):
        tensors(batch, absent={"f0": -1})

    found = tensors(batch, absent={"f0": -1, "f1": float("nan")})
    assert found["f0"].tolist() == [1, -1, 3] and found["f0"].dtype == torch.int32
    assert found["f1"][1].isnan() and found["f1"][[0, 2]].tolist() == [1.5, 2.5]
    assert found["f0.present"].tolist() == found["f1.present"].tolist() == [True, False, True]
    assert found["f2"][0::2] == ["a", "c"]
    for wrong in ({"f0": 0.5}, {"f0": float("nan")}, {"f0": 1 << 31}, {"f9": 0}, {"f2": 0}, {"f0": None}):
        with pytest.raises((ValueError, TypeError), match="absent="):
            tensors(batch, absent=wrong)


def test_an_absent_value_of_any_length_is_none_in_its_list(opened, tmp_path):
    rows = [{"v": [1, 2], "b": "x", "s": ["a"]}, {}, {"v": [3, 4], "b": "yz", "s": []}]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    fields = {"fields": "v=/v:int32[]?,b=/b:bytes?,s=/s:utf8[]?"}
    batch = next(opened(tmp_path / "a.jsonl", "jsonl", options=fields, batch=3))
    found = tensors(batch)
    assert [found[name][1] for name in "vbs"] == [None] * 3
    assert found["v"][2].tolist() == [3, 4] and bytes(found["b"][0]) == b'"x"' and found["s"][::2] == [["a"], []]
    assert found.to("cpu")["v"][1] is None and found.pin_memory()["b"][1] is None
    found = tensors(batch, absent={"v": [9], "b": b"", "s": ["none"]})
    assert found["v"][1].tolist() == [9] and found["v"][1].dtype == torch.int32
    assert found["b"][1].tolist() == [] and found["s"][1] == ["none"]
    with pytest.raises(pipemill.AbsentError, match="'v' is absent in 1 of 3 records"):
        tensors(batch, dense="v")


def test_a_loader_takes_the_values_of_absent_ones(tmp_path):
    (tmp_path / "a.csv").write_text("1,a\n,b\n3,\n")
    more = {"options": {"types": "0:int32,1:utf8"}, "batch": 2}
    loader = Loader(tmp_path / "a.csv", "csv", absent={"f0": -1}, **more)
    assert [batch["f0"].tolist() for batch in loader] == [[1, -1], [3]]
    loader.close()
    loader = Loader(tmp_path / "a.csv", "csv", **more)
    with pytest.raises(pipemill.AbsentError, match="absent={'f0': ...}"):
        list(loader)
    loader.close()


def test_whether_a_field_is_a_tensor_or_a_list_does_not_depend_on_lengths(opened, tmp_path):
    records = [b"abc", b"def", b"", b"12345", b"", b"", b"x"]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(map(tfrecord, records)))
    stream = opened(tmp_path / "a.tfrecord", "tfrecord", batch=2, credits=4)
    name, seen = stream.fields[0].name, []
    for batch in stream:
        found = tensors(batch)[name]
        assert isinstance(found, list) and {(one.dtype, one.dim()) for one in found} == {(torch.uint8, 1)}
        seen += [bytes(one.tolist()) for one in found]
        lengths = {len(one) for one in found}
        if len(lengths) == 1:
            dense = tensors(batch, dense=[name])[name]
            assert dense.shape == (len(batch), *lengths) and torch.equal(dense, torch.stack(found))
        else:
            with pytest.raises(ValueError, match="not equally long in all records"):
                tensors(batch, dense=name)
    assert seen == records
    with pytest.raises(KeyError, match="no field 'nothing'"):
        tensors(batch, dense="nothing")


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("shape", [[0], [0, 2], [0, 0]])
@pytest.mark.parametrize("kind", ["bool", "int8", "uint16", "float16", "int32", "int64", "float32", "float64"])
def test_arrays_of_any_length_at_any_address(kind, shape, even):
    """Between the numbers are texts, which may have an odd number of bytes."""
    lengths = [2] * 9 if even else [0, 1, 2, 3, 5, 1, 0, 4, 2]
    width = 2 if shape == [0, 2] else 1
    rows = [numpy.array([n + at for at in range(length * width)], kind) for n, length in enumerate(lengths)]
    texts = [b"a" * (n % 5) for n in range(9)]

    def script(peer):
        peer.welcome([("t", "utf8", []), ("x", {"bool": "boolean"}.get(kind, kind), shape)])
        peer.epoch(0, [Rows([(text, row.tobytes()) for text, row in zip(texts, rows)])])
        peer.stream_end()
        peer.linger()

    with socket_path() as path, FakeHost(path, script), pipemill.connect("train", path, wait=PATIENCE) as stream:
        batch = next(stream)
        for copy in (False, True):
            found = tensors(batch, copy)["x"]
            assert [one.reshape(-1).tolist() for one in found] == [row.tolist() for row in rows]
            assert {one.dtype for one in found} == {getattr(torch, kind)}
            assert [tuple(one.shape) for one in found] == [(one, 2) if width == 2 else (one,) for one in lengths]
            found[2].zero_()
            assert found[3].reshape(-1).tolist() == rows[3].tolist()
        del found, batch
        assert list(stream) == []


def test_thousands_of_lengths_take_few_descriptors_of_a_worker(opened, tmp_path):
    """A list's tensors are parts of one, so it can be sent to another process as one."""
    (tmp_path / "a.tfrecord").write_bytes(b"".join(tfrecord(b"x" * (n % 9)) for n in range(2000)))
    from pipemill.torch import Dataset

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    data = Dataset(tmp_path / "a.tfrecord", "tfrecord", batch=2000, tail="pad", epochs=1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        loader = torch.utils.data.DataLoader(data, None, num_workers=1)
        (found,) = [next(iter(batch.values())) for batch in loader]
        assert [len(one) for one in found] == [n % 9 for n in range(2000)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        data.close()


def test_what_is_written_is_gone_when_the_slot_is_used_again(ring):
    rows = numpy.arange(64 * 1000, dtype="int64").reshape(64, 1000)
    stream = ring(rows, batch=4)
    seen, chance = {}, random.Random(4)
    for step in range(160):
        batch = next(stream)
        found = tensors(batch)["data"]
        expected = torch.from_numpy(rows[step * 4 % 64 :][:4])
        assert torch.equal(found, expected), f"stale bytes at step {step}"
        at = seen.setdefault(found.data_ptr(), [])
        at.append(step)
        if chance.random() < 0.7:
            found.add_(1)  # all pages
            assert torch.equal(found, expected + 1)
        elif chance.random() < 0.5:
            found[2, 500] = -1  # one page
        del found, batch
    assert max(map(len, seen.values())) > 20, "no slot was used again"


def test_what_one_consumer_writes_no_other_one_sees(ring):
    rows = numpy.arange(64 * 1000, dtype="int64").reshape(64, 1000)
    streams = ring(rows, batch=4, mode="broadcast", consumers=2)
    for step in range(40):
        first, second = (next(stream) for stream in streams)
        one = tensors(first)["data"].add_(1)
        expected = torch.from_numpy(rows[step * 4 % 64 :][:4])
        two = tensors(second)["data"]
        assert torch.equal(two, expected) and torch.equal(one, expected + 1)
        assert (first["data"] == expected.numpy()).all(), "the batch's own arrays do not change"
        first.ack(), second.ack()  # an epoch ends when both have
        del first, second, one, two


def test_a_large_batch_in_memory_of_its_own_can_be_written_to(ring):
    rows = numpy.arange(8 * 20_000, dtype="int64").reshape(8, 20_000)
    stream = ring(rows, batch=4)  # 640 kB, where a slot has 64
    for step in range(6):
        batch = next(stream)
        found = tensors(batch)["data"]
        expected = torch.from_numpy(rows[step * 4 % 8 :][:4])
        assert torch.equal(found, expected)
        found.add_(1)
        assert torch.equal(found, expected + 1) and (batch["data"] == expected.numpy()).all()
        del found, batch


def test_a_forked_child_has_what_its_parent_had_and_its_own_writes(ring):
    rows = numpy.arange(64 * 1000, dtype="int64").reshape(64, 1000)
    stream = ring(rows, batch=4)
    batch = next(stream)
    found = tensors(batch)["data"]
    found[0, 0] = -7
    go_on, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(go_on, 1)
        good = found[0, 0] == -7 and torch.equal(found[1:], torch.from_numpy(rows[1:4]))
        found.fill_(5)
        os._exit(0 if good and (found == 5).all() else 1)
    del found, batch
    for _ in range(40):
        next(stream)  # the host has filled all slots again
    os.write(told, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_batch_is_held_until_its_last_view_is_dropped(ring_of_rows, data):
    stream, rows, steps = ring_of_rows
    expected = torch.from_numpy(rows[steps[0] * 4 % 64 :][:4])
    steps[0] += 1
    batch = next(stream)
    number = batch._lease.grant.grant
    found = tensors(batch)
    tensor = found["data"]
    views = [
        batch, found, tensor, tensor[1], tensor.T, tensor.view(torch.uint8), tensor.numpy(),
        batch["data"], memoryview(batch["data"])[2:], tensors(batch)["data"][3:],
    ]  # fmt: skip
    del found, tensor
    batch.ack()
    del batch
    for at in data.draw(st.permutations(range(len(views)))):
        assert number in stream._connection.open, "RELEASEd while a view lives"
        left = next((view for view in views if isinstance(view, torch.Tensor) and view.shape == (4, 1000)), None)
        assert left is None or torch.equal(left, expected)
        del left
        views[at] = None
    assert number not in stream._connection.open


@pytest.fixture
def ring_of_rows(ring):
    rows = numpy.arange(64 * 1000, dtype="int64").reshape(64, 1000)
    return ring(rows, batch=4), rows, [0]


def test_without_proc_pages_are_dropped_in_any_case(ring, monkeypatch):
    real = os.open

    def without_proc(path, *more, **keys):
        if path == "/proc/self/pagemap":
            raise FileNotFoundError(path)
        return real(path, *more, **keys)

    monkeypatch.setattr(os, "open", without_proc)
    test_what_is_written_is_gone_when_the_slot_is_used_again(ring)


@pytest.mark.parametrize("lengths", [[30] * 40, [20 + n % 5 for n in range(40)], [3] * 4, [0] * 3, [70]])
def test_a_list_moves_as_one_tensor(opened, tmp_path, lengths):
    records = [bytes([n] * length) for n, length in enumerate(lengths)]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(map(tfrecord, records)))
    found = tensors(next(opened(tmp_path / "a.tfrecord", "tfrecord", batch=len(records))))
    moves = []
    moved = found._mapped(lambda tensor: moves.append(tensor) or tensor.clone())
    # The many bytes that are no part of them, such as the frames of short records, are not moved
    # with them.
    assert len(moves) == (len(lengths) if 0 < sum(lengths) < 16 * len(lengths) else 1)
    assert [bytes(one.tolist()) for one in moved["data"]] == records
    moved["data"][0].fill_(9)
    assert bytes(found["data"][0].tolist()) == records[0]


def test_the_dict_is_what_trainers_take(opened, tmp_path):
    import pickle

    numpy.save(tmp_path / "a.npy", numpy.arange(12.0).reshape(4, 3))
    found = tensors(next(opened(tmp_path / "a.npy", batch=4)))
    other = pickle.loads(pickle.dumps(found))
    for one in (other, found.to("cpu"), found.pin_memory()):
        assert isinstance(one, Tensors) and isinstance(one, dict)
        assert torch.equal(one["data"], found["data"]) and (one.valid, one.number) == (4, 0)
    meta = found.to("meta")
    assert meta["data"].device.type == "meta"


def test_after_the_stream_is_closed_tensors_stay_and_new_ones_are_refused(ring):
    stream = ring(numpy.arange(64.0).reshape(16, 4), batch=4)
    batch = next(stream)
    found = tensors(batch)["data"]
    stream.close()
    found.add_(1)
    assert found[0].tolist() == [1, 2, 3, 4]
    with pytest.raises(pipemill.ClosedError):
        tensors(batch)
    gc.collect()


def test_a_program_that_keeps_tensors_to_its_end_ends_quietly(tmp_path):
    numpy.save(tmp_path / "a.npy", numpy.arange(64.0).reshape(-1, 4))
    (tmp_path / "job.py").write_text(
        "import pipemill\nfrom pipemill.torch import tensors\n"
        "with pipemill.open('a.npy', 'npy', batch=4) as stream:\n"
        "    for batch in stream:\n"
        "        found = tensors(batch)\n"
    )
    job = subprocess.run(
        [sys.executable, "job.py"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=True
    )  # fmt: skip
    assert job.stderr == ""
