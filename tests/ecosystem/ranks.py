"""Ranks as processes: a function in each of them, or a program under torchrun."""

import multiprocessing
import os
import signal
import subprocess
import sys

from e2e import PATIENCE


def forkserver(*modules):
    """Starts processes that have these modules at once."""
    multiprocessing.set_forkserver_preload(["pipemill.torch", *modules])
    return multiprocessing.get_context("forkserver")


def run_ranks(context, function, ranks):
    """Runs a function in a process for each rank, with its arguments in `ranks`, to the end of all."""
    started = [context.Process(target=function, args=arguments) for arguments in ranks]
    for one in started:
        one.start()
    for one in started:
        one.join(PATIENCE)
    codes = [one.exitcode for one in started]
    for one in started:
        one.kill()
    assert codes == [0] * len(started), "a rank hangs, or has failed"


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
