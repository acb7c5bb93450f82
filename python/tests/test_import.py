"""The modules that `import pipemill` imports: a script that only prints its help must not wait for
numpy.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pipemill
import pytest

SOURCE = pathlib.Path(__file__).parents[1] / "src"
#: Modules that take as long to import as the package itself, or longer. It imports them when they are used.
HEAVY = {"numpy", "subprocess", "tempfile", "shutil", "hashlib", "glob", "logging", "inspect", "asyncio", "signal"}


def imported(statement: str) -> set[str]:
    """The modules that are loaded after the statement."""
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); {statement}; print(*sys.modules)"
    # Without the packages of the environment, whose start-up files import more.
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_else() -> None:
    assert imported("import pipemill") - imported("pass") <= {"pipemill", "__future__"}


def test_the_use_of_the_package_imports_nothing_heavy() -> None:
    modules = imported("from pipemill import *")
    assert "pipemill.opening" in modules
    assert not HEAVY & modules


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert "connect" in dir(pipemill) and "__version__" in dir(pipemill)
    with pytest.raises(AttributeError, match="module 'pipemill' has no attribute 'conect'"):
        pipemill.conect  # type: ignore[attr-defined]  # noqa: B018
