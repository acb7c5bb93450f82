"""Fixtures, and the switch that runs the tests as if numpy were not installed."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator

import pytest

if os.environ.get("PIPEMILL_TEST_NO_NUMPY"):
    sys.modules["numpy"] = None  # type: ignore[assignment]

sys.path.insert(0, os.path.dirname(__file__))


@pytest.fixture
def path() -> Iterator[str]:
    """Where a socket may be made: short, because a socket's path has at most 107 bytes."""
    folder = tempfile.mkdtemp(prefix="pipemill-")
    yield os.path.join(folder, "host.sock")
    shutil.rmtree(folder)
