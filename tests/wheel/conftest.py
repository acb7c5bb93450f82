"""The wheels, built from this checkout."""

import os

import pytest
from wheels import build_wheels


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """The wheel with the program, and the one without."""
    if not os.environ.get("PIPEMILL_STATIC"):
        pytest.skip("PIPEMILL_STATIC is not set; `make test` does")
    return build_wheels(tmp_path_factory.mktemp("wheels"))
