"""examples/cnn: killed in the middle and started again, it prints the same as a run that is not
killed.
"""

import pathlib
import signal
import subprocess
import sys

import pytest
from e2e import PATIENCE

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/cnn"

#: Runs the example, and kills it at a step, before or after the checkpoint that is saved there.
KILLED = """
import os, sys, train
folder, checkpoint, step, where = sys.argv[1:]

class Job(train.Job):
    def step(self, batch):
        super().step(batch)
        if where == "before" and self.steps == int(step):
            os.kill(os.getpid(), 9)

    def save(self, path):
        super().save(path)
        if where == "after" and self.steps == int(step):
            os.kill(os.getpid(), 9)

train.Job = Job
train.main(folder, checkpoint)
"""


def run(*words, code=0):
    command = [sys.executable, "-u", *map(str, words)]
    job = subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True, timeout=3 * PATIENCE)
    assert job.returncode == code, job.stderr
    return job.stdout, job.stderr


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    run("make_images.py", folder)
    return folder


@pytest.fixture(scope="module")
def whole(images, tmp_path_factory):
    """The output of a run that is not killed."""
    printed, _ = run("train.py", images, tmp_path_factory.mktemp("whole") / "checkpoint.pt")
    assert printed.startswith("epoch 1 of 4: 40 steps, accuracy")
    return printed.splitlines()


def test_a_killed_run_goes_on_with_the_images_that_it_had_not_seen(images, whole, tmp_path):
    checkpoint = tmp_path / "checkpoint.pt"
    # In the middle of an epoch and between two checkpoints, at the end of an epoch, and right after a start.
    printed = []
    for step, where in ((57, "before"), (80, "after"), (81, "before")):
        out, _ = run("-c", KILLED, images, checkpoint, step, where, code=-signal.SIGKILL)
        printed += out.splitlines()
    out, log = run("train.py", images, checkpoint)
    assert "goes on after step 80" in log
    # The model is the same too: it is as accurate in each epoch.
    assert [printed[0], *out.splitlines()] == whole and whole[-1].startswith("the images in their order: ")
