"""Fixtures of the tests with real libraries. A warning that a line of pipemill causes is an error."""

import numpy
import pipemill
import pytest
from e2e import PATIENCE

# So warnings of the libraries about themselves stay warnings.
OURS = ("error:::pipemill", "error:The given NumPy array is not writable")


def pytest_collection_modifyitems(items):
    for item in items:
        for rule in OURS:
            item.add_marker(pytest.mark.filterwarnings(rule))


@pytest.fixture
def ring(tmp_path):
    """Starts a host with a small ring over a file of numbers, and connects to it."""
    started = []

    def connect(array, batch, slots=4, mode="share", consumers=1, **wishes):
        numpy.save(tmp_path / "a.npy", array)
        host = pipemill.host({
            "channel": [{
                "name": "train", "source": {"file": str(tmp_path / "a.npy"), "epochs": 1000},
                "batch": batch, "mode": mode,
                **({"consumers": consumers} if mode != "share" else {}), "ring": {"slots": slots, "slot_size": "64KiB"},
            }]
        })  # fmt: skip
        started.append(host)
        streams = [
            host.connect("train", timeout=PATIENCE, **wishes) for _ in range(consumers)
        ]
        return streams if consumers > 1 else streams[0]

    yield connect
    for host in started:
        host.close()


@pytest.fixture
def opened():
    """Like `pipemill.open`, and closes what it has opened."""
    streams = []

    def opened(*args, **more):
        streams.append(pipemill.open(*args, timeout=PATIENCE, **more))
        return streams[-1]

    yield opened
    for stream in streams:
        stream.close()
