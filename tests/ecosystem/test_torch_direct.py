"""Copies to a GPU straight from the ring, with a driver that copies on this machine, and only when
a test or the loader asks for it: so each copy is under way as long as possible."""

import ctypes
import gc
import io
import json
import os

import numpy
import pipemill
import pytest
import torch
from arrow_data import serving
from e2e import PATIENCE, patiently, tfrecord
from pipemill import protocol
from pipemill.torch import Loader
from pipemill.torch.direct import Direct


class Driver:
    """A device whose copies are made when their event is waited for."""

    def __init__(self, refuses=False):
        self.refuses, self.registered, self.copies, self.events = refuses, {}, [], []
        self.staged, self.done = 0, 0
        self.at_hand_over = lambda: None

    def register(self, address, size):
        if not self.refuses:
            self.registered[address] = size
        return not self.refuses

    def unregister(self, address):
        assert self.done == len(self.copies), "no copy is under way"
        del self.registered[address]

    def copy(self, source, shown):
        begin, end = source.data_ptr(), source.data_ptr() + source.numel() * source.element_size()
        assert any(at <= begin and end <= at + size for at, size in self.registered.items())
        assert source.is_contiguous()
        copy = torch.full_like(shown(source), 77, memory_format=torch.contiguous_format)
        # No reference is kept: the test checks who holds the memory.
        self.copies.append((begin, source.numel() * source.element_size(), source.dtype, shown, copy))
        return copy

    def stage(self, source):
        self.staged += 1
        return source.clone()

    def event(self):
        self.events.append(Event(self, len(self.copies)))
        return self.events[-1]

    def hand_over(self, event, copies):
        assert event in self.events
        self.at_hand_over()

    def make(self, count):
        """Makes the copies up to this number."""
        for begin, size, dtype, shown, copy in self.copies[self.done : count]:
            source = torch.frombuffer((ctypes.c_ubyte * size).from_address(begin), dtype=dtype)
            copy.copy_(shown(source))
        self.done = max(self.done, count)


class Event:
    def __init__(self, driver, count):
        self.driver, self.count = driver, count

    def query(self):
        return self.driver.done >= self.count

    def synchronize(self):
        self.driver.make(self.count)


@pytest.fixture
def loader(tmp_path):
    """Makes a Loader with such a driver."""
    made = []

    def make(source, decoder, refuses=False, dense=(), **how):
        one = Loader(source, decoder, timeout=PATIENCE, dense=dense, **how)
        one.driver = Driver(refuses)
        one.dataset._direct = Direct(lambda: one.driver, one.dataset._absent, dense)
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()


@pytest.fixture
def numbers(tmp_path):
    """An array of 64 rows of 1000 numbers, and its file."""
    rows = numpy.arange(64 * 1000, dtype="int64").reshape(64, 1000)
    numpy.save(tmp_path / "a.npy", rows)
    return rows, tmp_path / "a.npy"


def waits_for_next(one, of_epoch=16):
    """At each batch, the next one has come before the loader looks for it. After the last one of an
    epoch, nothing comes before it is ACKed."""

    def wait():
        stream = one.dataset._stream
        if stream._receiver.batches % of_epoch:
            patiently(lambda: stream._receiver._peeked is not None or stream._connection.coming() is not None)

    one.driver.at_hand_over = wait


@pytest.mark.parametrize("credits", [1, 2, 3, 4, 9])
def test_no_slot_is_used_again_before_its_copy_has_ended(loader, numbers, credits):
    rows, path = numbers
    one = loader(path, "npy", batch=4, steps=100, credits=credits)
    found = [batch["data"] for batch in one]
    one.dataset._direct.finish()
    assert one.driver.done == len(one.driver.copies) and not one.driver.staged
    for step, tensor in enumerate(found):
        assert numpy.array_equal(tensor, rows[step * 4 % 64 :][:4])


def test_the_next_batch_is_under_way_and_its_copy_is_begun_once(loader, numbers):
    rows, path = numbers
    one = loader(path, "npy", batch=4, steps=20)
    waits_for_next(one)
    for step, batch in enumerate(one):
        assert len(one.driver.copies) == step + 1 + (step != 15)
        assert one.state_dict()["step"] == step + 1
        assert batch["data"][0, 0] == 77, "its own copy is under way, too"


def test_the_state_does_not_have_the_batch_that_is_ahead(loader, numbers):
    rows, path = numbers
    for stop in (1, 5, 15, 16, 17):
        one = loader(path, "npy", batch=4, steps=stop)
        waits_for_next(one)
        list(one)
        state = json.loads(json.dumps(one.state_dict()))
        other = loader(path, "npy", batch=4, steps=1)
        other.load_state_dict(state)
        [batch] = other
        other.dataset._direct.finish()
        assert numpy.array_equal(batch["data"], rows[stop * 4 % 64 :][:4])


def test_a_pass_that_is_left_drops_what_is_ahead(loader, numbers):
    rows, path = numbers
    one = loader(path, "npy", batch=4)
    waits_for_next(one)
    for epoch in range(3):
        for step, batch in enumerate(one):
            assert batch.epoch == epoch
            if step == 2:
                break
        one.driver.make(len(one.driver.copies))
    one.driver.at_hand_over = lambda: None
    found = list(one)
    one.dataset._direct.finish()
    assert numpy.array_equal(torch.cat([batch["data"] for batch in found]), rows)


def test_the_end_waits_for_copies_and_ends_the_registration(loader, numbers):
    rows, path = numbers
    one = loader(path, "npy", batch=4, steps=5)
    waits_for_next(one)
    found = list(one)
    assert list(one.driver.registered.values()) == [one.dataset._stream._connection._ring._size]
    one.close()
    assert one.driver.done == len(one.driver.copies) == 6
    assert not one.driver.registered
    assert numpy.array_equal(torch.cat([batch["data"] for batch in found]), rows[:20])


def test_a_loader_that_is_dropped_waits_for_its_copies(numbers):
    rows, path = numbers
    one = Loader(path, "npy", batch=4, timeout=PATIENCE)
    driver = Driver()
    one.dataset._direct = Direct(lambda: driver)
    batch = next(iter(one))
    host = one.dataset._reading._host
    del one
    assert driver.done == len(driver.copies) > 0 and numpy.array_equal(batch["data"], rows[:4])
    host.close()
    gc.collect()  # Python warns of its socket here, and not in another test


def test_a_forked_child_leaves_the_registration_to_its_parent(loader, numbers):
    rows, path = numbers
    one = loader(path, "npy", batch=4, steps=8)
    batches = iter(one)
    next(batches)
    child = os.fork()
    if child == 0:
        os._exit(0 if one.driver.registered and not one.driver.done else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    found = [batch["data"] for batch in batches]
    one.dataset._direct.finish()
    assert numpy.array_equal(torch.cat(found), rows[4:32])


def test_a_driver_that_refuses_is_not_used(loader, numbers):
    rows, path = numbers
    one = loader(path, "npy", refuses=True, batch=4, steps=20)
    found = [batch["data"].clone() for batch in one]
    assert not one.driver.copies and not one.driver.staged
    assert numpy.array_equal(torch.cat(found)[:64], rows)


def test_a_batch_in_a_dedicated_buffer_goes_through_pinned_memory(loader, tmp_path):
    # No slot has the size of the last one.
    records = [bytes([n]) * 100 for n in range(31)] + [bytes(32 << 20)]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(map(tfrecord, records)))
    one = loader(tmp_path / "a.tfrecord", "tfrecord", batch=4, epochs=1)
    found = list(one)
    one.dataset._direct.finish()
    [name] = found[0]
    assert one.driver.staged and len(one.driver.copies) == len(found) - 1 == 7
    assert [len(data) for data in found[-1][name]] == [100] * 3 + [32 << 20]


def test_larger_slots_are_registered_when_they_come(loader):
    rows = numpy.arange(64 * 1000, dtype="int64").reshape(64, 1000)
    file = io.BytesIO()
    numpy.save(file, rows)
    channel = '[[channel]]\nname = "train"\nsource = { file = "FOLDER/a.npy", epochs = 2 }\ndecoder = "npy"\n'
    ring = '[channel.ring]\nslot_size = "64KiB"\n'
    with serving(channel + ring, **{"a.npy": file.getvalue()}) as host:
        one = loader("train", None, socket=host.socket, batch=8, credits=2)
        found = [batch["data"] for _ in range(2) for batch in one]
        one.dataset._direct.finish()
        # The first ones, from which the host has learned how large batches are, had a buffer each.
        assert one.driver.staged == 2 and len(one.driver.copies) == 14
        assert len(one.driver.registered) == 2
        one.close()
        assert not one.driver.registered
    assert numpy.array_equal(torch.cat(found), numpy.concatenate([rows, rows]))


def test_fields_of_all_kinds_are_what_they_are_without_a_gpu(loader, tmp_path):
    texts = ["a", "", "ccc", "dd"]
    (tmp_path / "a.jsonl").write_text("".join(
        json.dumps({"i": n, "t": texts[n % 4], **({"f": n / 4} if n % 3 else {})}) + "\n" for n in range(32)
    ))  # fmt: skip
    how = {"options": {"fields": "i=/i:int32,f=/f:float64?,t=/t:utf8"}, "batch": 8, "absent": {"f": -1}, "epochs": 1}
    plain = Loader(tmp_path / "a.jsonl", "jsonl", timeout=PATIENCE, **how)
    expected = [{name: value for name, value in batch.items()} for batch in plain]
    one = loader(tmp_path / "a.jsonl", "jsonl", **how)
    found = list(one)
    one.dataset._direct.finish()
    assert len(found) == len(expected) == 4
    for batch, whole in zip(found, expected):
        assert set(batch) == set(whole) == {"i", "f", "f.present", "t"}
        for name in ("i", "f", "f.present"):
            assert torch.equal(batch[name], whole[name]) and batch[name].dtype == whole[name].dtype
        assert batch["t"] == whole["t"] == texts * 2
    plain.close()


def test_bytes_of_any_length_are_one_copy(loader, tmp_path):
    records = [bytes([n]) * (n % 5 + 100) for n in range(32)]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(map(tfrecord, records)))
    one = loader(tmp_path / "a.tfrecord", "tfrecord", batch=8, epochs=1)
    found = list(one)
    one.dataset._direct.finish()
    [name] = found[0]
    assert [bytes(data.tolist()) for batch in found for data in batch[name]] == records
    assert len(one.driver.copies) == 4


def test_packed_records_are_copied_as_they_lie_and_taken_apart_there(loader, tmp_path):
    (tmp_path / "a.csv").write_text("".join(f"{n},{n}.5,{-n}\n" for n in range(64)))
    one = loader(tmp_path / "a.csv", "csv", options={"types": "int64,1:float64"}, batch=16, steps=8)
    found = list(one)
    one.dataset._direct.finish()
    for step, batch in enumerate(found):
        rows = [n % 64 for n in range(step * 16, step * 16 + 16)]
        assert batch["f0"].tolist() == rows and batch["f1"].tolist() == [n + 0.5 for n in rows]
        assert batch["f2"].tolist() == [-n for n in rows] and all(one.is_contiguous() for one in batch.values())


def test_an_error_of_the_next_batch_comes_when_it_is_asked_for(loader, tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(
        json.dumps({"i": n, **({} if n == 9 else {"f": n})}) + "\n" for n in range(16)
    ))  # fmt: skip
    how = {"options": {"fields": "i=/i:int32,f=/f:int32?"}, "batch": 4, "epochs": 1}
    one = loader(tmp_path / "a.jsonl", "jsonl", **how)
    waits_for_next(one, of_epoch=4)
    batches = iter(one)
    assert [next(batches)["i"].shape for _ in range(2)] == [(4,)] * 2
    with pytest.raises(pipemill.AbsentError, match="row 1"):
        next(batches)


def test_looking_for_the_next_batch_takes_no_other_message(numbers, loader):
    rows, path = numbers
    one = loader(path, "npy", batch=4, epochs=2)
    one.driver.at_hand_over = lambda: None
    assert [len(list(one)) for _ in range(2)] == [16, 16]
    with pytest.raises(pipemill.PipemillError, match="the data are over"):
        next(iter(one))
    assert one.dataset._stream._connection.coming() != protocol.GRANT
