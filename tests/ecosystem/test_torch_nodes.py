"""`Loader` and `Dataset` as sources of torchdata.nodes: stopped anywhere, a pipeline of nodes
resumes exactly there.
"""

import json

import numpy
import pytest
from e2e import PATIENCE
from pipemill.torch import Dataset, Loader
from torchdata import nodes

BATCH, RECORDS = 4, 22
ONE = [list(range(at, min(at + BATCH, RECORDS))) for at in range(0, RECORDS, BATCH)]


@pytest.fixture
def pipeline(tmp_path):
    """Makes a pipeline with a host of its own, as a new job does. Closes the one before."""
    numpy.save(tmp_path / "a.npy", numpy.arange(6))
    numpy.save(tmp_path / "b.npy", numpy.arange(6, RECORDS))
    made = []

    def pipeline(kind, ahead):
        for one in made:
            one.close()
        made[:] = [kind(str(tmp_path / "*.npy"), "npy", batch=BATCH, tail="pad", credits=ahead + 4, timeout=PATIENCE)]
        node = nodes.IterableWrapper(made[0])
        node = nodes.Mapper(node, lambda batch: (batch.epoch, batch.number, batch["data"][: batch.valid].tolist()))
        if ahead:
            node = nodes.Prefetcher(node, prefetch_factor=ahead)
        # If torchdata 0.11 restarts itself, it keeps an old state after it was resumed at the end
        # of an epoch.
        return nodes.Loader(node, restart_on_stop_iteration=False)

    yield pipeline
    for one in made:
        one.close()


def run(loader, count):
    """This number of batches, across epochs, and the state after them."""
    got = []
    while len(got) < count:
        for batch in loader:
            got.append(batch)
            if len(got) == count:
                break
    return got, loader.state_dict()


@pytest.mark.parametrize("kind, ahead", [(Loader, 0), (Dataset, 3)])
@pytest.mark.parametrize("stop", range(9))
def test_a_pipeline_of_nodes_goes_on_where_it_was_stopped_twice(pipeline, kind, ahead, stop):
    got, state = run(pipeline(kind, ahead), stop)
    for more in (2, 9):
        loader = pipeline(kind, ahead)
        loader.load_state_dict(json.loads(json.dumps(state)))
        left, state = run(loader, more)
        got += left
    assert got == [(at // len(ONE), at, ONE[at % len(ONE)]) for at in range(stop + 11)]
