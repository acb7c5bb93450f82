"""Fixtures of the end-to-end tests in Python."""

import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))


@pytest.fixture
def host(tmp_path):
    """Starts `pipemill run` on a configuration whose socket lies in `tmp_path`, with a script and more options."""
    from e2e import PIPEMILL

    started = []

    def start(channels, script=None, *more):
        socket = tmp_path / "s" / "pipemill.sock"
        config = tmp_path / "pipemill.toml"
        config.write_text(f'socket = "{socket}"\n{channels}')
        args = [PIPEMILL, "run", "--config", str(config), *map(str, more)]
        if script is not None:
            path = tmp_path / f"script{len(started)}.py"
            path.write_text("import pipemill, sys, json\n" + script)
            args += ["--", os.environ.get("PIPEMILL_PYTHON", "python3"), str(path)]
        child = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        started.append(child)
        return child

    yield start
    for child in started:
        if child.poll() is None:
            child.kill()
        child.communicate()


@pytest.fixture
def fifos(tmp_path) -> pathlib.Path:
    folder = tmp_path / "fifos"
    folder.mkdir()
    return folder
