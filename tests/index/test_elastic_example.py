"""examples/elastic: half of the ranks are killed, the others go on, and each record comes once."""

import os
import pathlib
import subprocess

from e2e import PATIENCE

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/elastic"


def test_the_example_prints_what_its_readme_says():
    command = [os.environ.get("PIPEMILL_PYTHON", "python3"), EXAMPLE / "train.py"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    said = (EXAMPLE / "README.md").read_text().split("```text\n")[1].split("```")[0].splitlines()
    for line, expected in zip(finished.stdout.splitlines(), said, strict=True):
        for part in expected.split("…"):
            # The index has digests of its own in each run, and floats are added in another order.
            part = part.split("differ by")[0]
            assert part in line or line.startswith("the state"), (line, expected)
