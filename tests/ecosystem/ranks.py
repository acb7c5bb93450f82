"""Starts a program under torchrun with two ranks."""

import os
import signal
import subprocess
import sys

from e2e import PATIENCE


def torchrun(*words, killed=False):
    """Runs the program with these arguments. `killed`: whether its ranks end by SIGKILL."""
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *map(str, words)
    ]  # fmt: skip
    job = subprocess.Popen(
        command, env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        out, _ = job.communicate(timeout=3 * PATIENCE)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
    out = out.decode(errors="replace")
    if killed:
        assert job.returncode == 1 and "Signal 9 (SIGKILL)" in out, out
    else:
        assert job.returncode == 0, out
