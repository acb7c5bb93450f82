"""Fixtures, and the switch that makes numpy impossible to import. ml_dtypes always is."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator

import pytest

if os.environ.get("PIPEMILL_TEST_NO_NUMPY"):
    sys.modules["numpy"] = None  # type: ignore[assignment]
# The tests decide for themselves whether numpy has a bfloat16.
sys.modules["ml_dtypes"] = None  # type: ignore[assignment]

sys.path.insert(0, os.path.dirname(__file__))

from fakehost import HANG_TIMEOUT  # noqa: E402

import pipemill  # noqa: E402


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limits of `connect` that a test does not set: no slow machine reaches these."""
    for name in ("wait", "hold_timeout"):
        monkeypatch.setitem(pipemill.connect.__kwdefaults__, name, HANG_TIMEOUT)


@pytest.fixture
def path() -> Iterator[str]:
    """A path for a socket. It is short, because a socket's path has at most 107 bytes."""
    folder = tempfile.mkdtemp(prefix="pipemill-")
    yield os.path.join(folder, "host.sock")
    shutil.rmtree(folder)
