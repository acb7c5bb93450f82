"""The pool of buffers on the way to a GPU, with memory of the CPU in place of both: a buffer is
reused when it is free, and never before."""

import threading

import numpy
import torch
from pipemill.torch import tensors
from pipemill.torch.staging import Staging

CPU = torch.device("cpu")


class Pool:
    """A pool whose buffers a test sees, and whose copies end when the test says."""

    def __init__(self):
        self.made, self.events = [], []
        self.staging = Staging(self._allocate, self._event)

    def _allocate(self, size):
        self.made.append(torch.empty(size, dtype=torch.uint8))
        return self.made[-1]

    def _event(self, device):
        self.events.append(threading.Event())
        self.events[-1].query = self.events[-1].is_set
        return self.events[-1]

    def move(self, tensor, non_blocking=True):
        return self.staging.through_buffer(tensor, CPU, non_blocking)


def test_a_buffer_is_not_used_while_a_copy_from_it_is_under_way():
    pool = Pool()
    first, second = (pool.move(torch.full((1000,), n)) for n in (1, 2))
    assert len(pool.made) == 2 and pool.made[0].data_ptr() != pool.made[1].data_ptr()
    pool.events[0].set()
    third = pool.move(torch.full((1000,), 3))
    assert len(pool.made) == 2 and pool.made[0][:8].view(torch.int64) == 3 and pool.made[1][:8].view(torch.int64) == 2
    assert [one.unique().tolist() for one in (first, second, third)] == [[1], [2], [3]]


def test_a_copy_that_is_waited_for_leaves_its_buffer_free():
    pool = Pool()
    for n in range(5):
        assert pool.move(torch.full((10, 100), float(n)), non_blocking=False).unique().tolist() == [n]
    assert len(pool.made) == 1 and not pool.events


def test_a_buffer_that_is_too_small_or_much_too_large_is_left():
    pool = Pool()
    for size in (1000, 1 << 20, 900):
        pool.move(torch.zeros(size, dtype=torch.uint8), non_blocking=False)
    assert sorted(map(len, pool.made)) == [4096, 1 << 20]
    assert pool.move(torch.zeros((0, 4))).shape == (0, 4)


def test_few_buffers_are_kept():
    pool = Pool()
    for _ in range(40):
        pool.move(torch.zeros(100))
    assert len(pool.made) == 40 and len(pool.staging._buffers) == 16


def test_types_and_shapes_come_through():
    pool = Pool()
    for dtype in (torch.bool, torch.uint16, torch.bfloat16, torch.float64):
        tensor = (torch.arange(24).reshape(2, 3, 4) % 2).to(dtype)
        moved = pool.move(tensor)
        assert moved.dtype == dtype and torch.equal(moved, tensor)
    # An array that is not contiguous, as a field of packed records.
    wide = torch.arange(24).reshape(4, 6)
    assert torch.equal(pool.move(wide[:, 1:3]), wide[:, 1:3])


def test_what_was_moved_stays_when_the_slot_is_used_again_and_shows_no_write(ring):
    rows = numpy.arange(64 * 1000, dtype="int64").reshape(64, 1000)
    stream, pool, moved = ring(rows, batch=4), Pool(), []
    for step in range(40):
        batch = next(stream)
        found = tensors(batch)["data"]
        moved.append(pool.move(found))
        if step % 2:
            pool.events[-1].set()
        found.add_(1)
        del found, batch
    for step, tensor in enumerate(moved):
        assert torch.equal(tensor, torch.from_numpy(rows[step * 4 % 64 :][:4]))
        tensor.add_(1)
