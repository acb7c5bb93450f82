"""Errors of worker processes reach the program unchanged."""

import concurrent.futures
import multiprocessing

import failing
import pipemill
import pytest
from e2e import PATIENCE
from hosts import start

__all__ = ["start"]

CONTEXTS = [multiprocessing.get_context(name) for name in ("fork", "forkserver", "spawn")]


@pytest.fixture(params=CONTEXTS, ids=lambda context: context.get_start_method())
def context(request):
    return request.param


@pytest.fixture
def path(tmp_path):
    return failing.write(tmp_path)


def test_the_error_itself(path):
    with pytest.raises(pipemill.DecodeError) as caught:
        failing.read(path)
    failing.check(caught.value, path)


def test_a_pool(context, path):
    with context.Pool(1) as pool:
        with pytest.raises(pipemill.DecodeError) as caught:
            pool.apply_async(failing.read, (path,)).get(timeout=PATIENCE)
        failing.check(caught.value, path)


def test_an_executor(context, path):
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        failing.check(pool.submit(failing.read, path).exception(timeout=PATIENCE), path)


def test_an_error_of_a_source_that_is_not_there(context, tmp_path):
    with context.Pool(1) as pool, pytest.raises(pipemill.SourceError, match="no.csv.*can't open it"):
        pool.apply_async(failing.read, (str(tmp_path / "no.csv"),)).get(timeout=PATIENCE)


def test_a_consumer_that_comes_after_the_failure(start, path):
    """It asks for batches that the channel does not have. The reason is that the channel has
    failed.
    """
    host = start(
        f'[[channel]]\nname = "train"\nsource = {{ file = "{path}" }}\ndecoder = "csv"\n'
        'options = { types = "int64" }\n'
    )
    with host.connect() as first:
        with pytest.raises(pipemill.DecodeError):
            list(first)
        with pytest.raises(pipemill.DecodeError) as caught:
            host.connect(batch=2, tail="pad", rank=(0, 2))
    assert "line 4, column 0" in str(caught.value) and caught.value.channel == "train"
    assert (caught.value.record, caught.value.decoder) == (3, "csv")
