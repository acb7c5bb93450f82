"""The examples in docstrings that need a library, each in a process of its own: some libraries fail
after a fork that another one makes. tests/pages/test_api_page.py runs the others."""

import os
import pathlib
import re
import subprocess
import sys

import docstrings
import numpy
import pytest
from e2e import PATIENCE

EXAMPLES = docstrings.examples(of_ecosystem=True)
ROOT = pathlib.Path(__file__).parents[2]

PROGRAM = """
import pathlib, sys, docstrings, pytest
names = {}
exec(sys.argv[2], names)
names = docstrings.run(sys.argv[1], pathlib.Path.cwd(), pytest.MonkeyPatch(), **names)
exec(sys.argv[3], names)
"""
BEFORE = {
    "torch": "from pipemill.torch import Dataset, Loader\n"
    "from torchdata.stateful_dataloader import StatefulDataLoader",
    "jax": "import jax, pipemill.jax",
    "grain": "import pipemill.grain\naugment = lambda batch: batch",
    "ray": "import pipemill.ray",
    "tf": "import pipemill.tf",
    "hf": "import pipemill.hf",
}
AFTER = {
    "grain.dataset": "assert len(next(iter(data)))",
    "hf.iterable": "assert len(list(data)) == 2",
    "dlpack": "assert x.shape == (3,)",
}


@pytest.mark.parametrize("name, code", EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_an_example_works(name, code, tmp_path):
    docstrings.write_inputs(tmp_path)
    numpy.save(tmp_path / "data" / "a.npy", numpy.arange(64, dtype="f4").reshape(8, 8))
    library = re.search("|".join(rf"\b{one}\b" for one in BEFORE), f"{name} {code}")[0]
    after = next((check for part, check in AFTER.items() if part in code), "")
    paths = [str(ROOT / "python" / "src"), str(ROOT / "tests" / "support")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", PROGRAM, code, BEFORE[library], after]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr[-3000:]


def test_there_are_examples():
    assert {"torch", "jax", "grain", "ray", "tf", "hf"} <= set(re.findall(r"\w+", str(EXAMPLES)))
