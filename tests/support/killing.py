"""Kills hosts that belong to this process."""

import os
import pathlib
import signal


def hosts():
    """The process ids of the hosts that this process has started."""
    children = pathlib.Path("/proc/self/task").glob("*/children")
    pids = [int(pid) for one in children for pid in one.read_text().split()]
    return [pid for pid in pids if "--owner" in pathlib.Path(f"/proc/{pid}/cmdline").read_text()]


def kill_hosts(number=signal.SIGKILL):
    """As by the kernel. Returns how many there were. They are dead when this returns, and nobody has waited for them."""
    pids = hosts()
    for pid in pids:
        os.kill(pid, number)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return len(pids)
