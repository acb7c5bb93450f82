"""What `import pipemill` brings with it: a script that only asks for help must not wait for numpy."""

from __future__ import annotations

import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(__file__).parents[1] / "src"
#: Modules that take as long to import as the package itself, or longer. It imports them when they are used.
HEAVY = {"numpy", "subprocess", "tempfile", "shutil", "hashlib", "glob", "logging", "inspect", "asyncio", "signal"}


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); before = set(sys.modules); import pipemill; print(*sys.modules)"
    # Without the packages of the environment, whose start-up files import more.
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())
    assert "pipemill.opening" in done.stdout
