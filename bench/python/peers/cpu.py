"""CPU time of this process and of its descendants, and of all others."""

from __future__ import annotations

import os
import pathlib
import time

TICK = 1 / os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """The user and system time of this process and of its descendants, including those that have
    ended. To 10 ms.
    """
    own = os.times()
    total = own.user + own.system + own.children_user + own.children_system
    parents, times = {}, {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name before the last parenthesis may have spaces in it.
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # It has ended.
        process = int(stat.parent.name)
        parents[process] = int(fields[1])
        times[process] = sum(int(field) for field in fields[11:15]) * TICK
    return total + sum(times[process] for process in parents if is_below(process, os.getpid(), parents))


def is_below(process: int, ancestor: int, parents: dict[int, int]) -> bool:
    while process in parents:
        process = parents[process]
        if process == ancestor:
            return True
    return False


class Others:
    """The share of the machine that other processes, and other machines on the same hardware, take
    from here on.
    """

    def __init__(self) -> None:
        self.began, self.busy, self.own = time.perf_counter(), busy_seconds(), cpu_seconds()

    def share(self) -> float:
        """The part of the cores' time, 0 to 1."""
        others = busy_seconds() - self.busy - (cpu_seconds() - self.own)
        return max(0.0, others / (time.perf_counter() - self.began) / (os.cpu_count() or 1))


def busy_seconds() -> float:
    """The time of all cores that was not idle, or was taken by the hypervisor."""
    first = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
    # All time except for idle time and waiting for disks. The time of guests is in the first two.
    return sum(int(first[column]) for column in (1, 2, 3, 6, 7, 8)) * TICK
