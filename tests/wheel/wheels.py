"""Builds wheels, and installs them into environments with nothing else in them."""

import os
import pathlib
import subprocess
import sys

from e2e import PATIENCE

ROOT = pathlib.Path(__file__).parents[2]
STATIC = os.environ.get("PIPEMILL_STATIC")
#: A Python with the packages that build and check wheels.
TOOLS = pathlib.Path(os.environ.get("PIPEMILL_WHEEL_PYTHON", "python3")).parent

#: Reads rows.csv of the folder that it runs in. Prints the sum, and the path of the program.
USE = """
import pipemill, sys
assert "numpy" not in sys.modules
with pipemill.open("rows.csv", options={"header": True, "types": "int64"}) as stream:
    print(sum(sum(batch["n"]) for batch in stream), stream._host.pid > 0)
print(pipemill.find_binary())
"""


def write_rows(folder):
    (folder / "rows.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(1000)))


def run(*words, check=True, **more):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PIPEMILL", "PYTHON"))}
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=PATIENCE,
        **{"env": clean | more.pop("env", {}), **more},
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def clean_python(folder):
    """An environment with nothing in it, not even pip, which takes seconds to put there."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    return folder / "bin/python"


def install(python, *words):
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--disable-pip-version-check", *words)


def build_wheels(folder):
    """The wheel with the program, and the one without, in this folder."""
    # Without debug symbols, which take most of the time to pack.
    program = folder / "program"
    run("strip", "-o", program, STATIC)
    build = [TOOLS / "hatchling", "build", "-t", "wheel", "-d", folder]
    run(*build, cwd=ROOT / "python")
    run(*build, cwd=ROOT / "python", env={"PIPEMILL_WHEEL_BINARY": str(program)})
    [plain] = folder.glob("*-any.whl")
    [whole] = folder.glob("*linux*.whl")
    return whole, plain
