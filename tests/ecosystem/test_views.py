"""Views of several batches, in several libraries, dropped in any order: a batch is RELEASEd with the last view of it, and
not before, and each view shows its batch as long as it lives."""

import numpy
import polars
import pyarrow
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pipemill.torch import tensors

COLUMNS, BATCH, BATCHES = 64, 4, 3

#: Makes a view of a batch, and returns its numbers in a row.
KINDS = {
    "the batch": (lambda batch: batch, lambda batch: batch["data"].ravel()),
    "array": (lambda batch: batch["data"], lambda array: array.ravel()),
    "part of an array": (lambda batch: batch["data"][1:, ::2].T, None),
    "payload": (lambda batch: batch.payload, None),
    "DLPack": (lambda batch: torch.from_dlpack(batch.dlpack("data")), lambda tensor: tensor.numpy().ravel()),
    "tensors": (tensors, lambda found: found["data"].numpy().ravel()),
    "part of a tensor": (lambda batch: tensors(batch)["data"].view(torch.uint8)[2], None),
    "Arrow": (lambda batch: batch.to_arrow(), lambda found: found.column(0).flatten().to_numpy()),
    "part of Arrow": (lambda batch: batch.to_arrow().slice(1, 2), None),
    "table": (
        lambda batch: pyarrow.Table.from_batches([batch.to_arrow()]),
        lambda table: table.column(0).combine_chunks().flatten().to_numpy(),
    ),
    "polars": (lambda batch: polars.DataFrame(batch)["data"], lambda series: series.to_numpy().ravel()),
}


@pytest.fixture
def stream(ring):
    rows = numpy.arange(64 * COLUMNS, dtype="int64").reshape(64, COLUMNS)
    return ring(rows, batch=BATCH, slots=BATCHES + 3, credits=BATCHES + 1)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_batch_is_held_until_the_last_of_its_views_is_dropped(stream, data):
    held, expected = [], {}
    for _ in range(BATCHES):
        batch = next(stream)
        number = batch._lease.grant.grant
        expected[number] = batch["data"].ravel().copy()
        kinds = data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4))
        held += [(number, kind, KINDS[kind][0](batch)) for kind in kinds]
        batch.ack()
    del batch
    for at in data.draw(st.permutations(range(len(held)))):
        held[at] = None
        check([one for one in held if one is not None], set(stream._connection.open), expected)


def check(left, open, expected):
    """Of the batches `expected`, those with views left are open, and the views show them."""
    assert open & set(expected) == {number for number, _, _ in left}
    for number, kind, view in left:
        numbers = KINDS[kind][1]
        assert numbers is None or (numbers(view) == expected[number]).all(), kind
