"""Errors of a DataLoader's workers reach the program unchanged."""

import multiprocessing
import pickle

import failing
import pipemill
import pytest
import torch.utils.data
from e2e import PATIENCE
from pipemill.torch import Dataset
from pipemill.torch.worker_errors import travelling
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader


@pytest.fixture(scope="module", autouse=True)
def preloaded():
    multiprocessing.set_forkserver_preload(["pipemill.torch"])


@pytest.fixture
def path(tmp_path):
    return failing.write(tmp_path)


@pytest.fixture
def dataset(path):
    data = Dataset(path, "csv", options={"types": "int64"}, batch=2, tail="pad", timeout=PATIENCE)
    yield data
    data.close()


@pytest.mark.parametrize("kind", [DataLoader, StatefulDataLoader])
@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("workers", [1, 2])
def test_the_error_of_a_worker(dataset, path, kind, context, workers):
    loader = kind(dataset, batch_size=None, num_workers=workers, multiprocessing_context=context)
    with pytest.raises(pipemill.DecodeError) as caught:
        for _ in loader:
            pass
    failing.check(caught.value, path)
    assert "in DataLoader worker process" in str(caught.value.__cause__)


class Reads(torch.utils.data.IterableDataset):
    """A data set of a program: PyTorch rebuilds its errors from their text."""

    def __init__(self, path):
        self.path = path

    def __iter__(self):
        yield failing.read(self.path)


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_the_error_of_a_data_set_of_the_program(path, context):
    loader = DataLoader(Reads(path), batch_size=None, num_workers=1, multiprocessing_context=context)
    with pytest.raises(pipemill.DecodeError, match="line 4, column 0") as caught:
        next(iter(loader))
    assert caught.value.kind == "decode"


def test_a_second_pass_and_an_error_that_is_pickled_in_the_worker(dataset, path):
    loader = DataLoader(dataset, batch_size=None, num_workers=1, persistent_workers=True)
    for _ in range(2):
        with pytest.raises(pipemill.DecodeError) as caught:
            for _ in loader:
                pass
        failing.check(caught.value, path)


def of_a_worker(path):
    """A worker of another library handles an error this way: it pickles it."""
    try:
        failing.read(path)
    except pipemill.DecodeError as error:
        once = travelling(travelling(error))
        assert isinstance(once, pipemill.DecodeError) and type(once).__name__ == "DecodeError"
        return pickle.dumps(once)


def test_an_error_that_travels_can_be_pickled_itself(path):
    failing.check(pickle.loads(of_a_worker(path)), path)
