"""The package without numpy: the same tests again, in a process that can't import it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def test_all_of_it_works_without_numpy() -> None:
    folder = os.path.dirname(__file__)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_values.py",
         "test_plain_arrays.py"],
        cwd=folder,
        env={**os.environ, "PIPEMILL_TEST_NO_NUMPY": "1"},
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    if "passed" not in done.stdout:
        pytest.fail(done.stdout)
