"""The package without numpy: runs tests in a process that can't import it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def test_values_and_arrays_without_numpy() -> None:
    folder = os.path.dirname(__file__)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_values.py",
         "test_types.py", "cases_without_numpy.py"],
        cwd=folder,
        env={**os.environ, "PIPEMILL_TEST_NO_NUMPY": "1"},
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    if "passed" not in done.stdout:
        pytest.fail(done.stdout)
