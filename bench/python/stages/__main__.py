"""Profiles a channel's thread, and writes the report: ``python -m stages [--quick]``.

perf interrupts the thread some thousand times a second and records its stack. Each of these samples
is of one stage.
"""

from __future__ import annotations

import argparse
import collections
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from peers.cpu import Others
from peers.machine import machine
from peers.places import Places

STAGES = ["read", "decode", "checksum", "boundary", "check", "index", "grant", "other"]
#: Samples a second: not a divisor of what the kernel does at fixed times.
FREQUENCY = 4999
#: Where a call into the kernel belongs, by what is on the stack.
CALLS = [
    ("read", re.compile(r"ksys_read|sys_pread64|sys_lseek|sys_open")),
    ("grant", re.compile(r"sys_sendmsg|sys_futex|sys_write|sys_epoll")),
]
#: The stage to which a part of the host's code belongs. The first match counts.
CODE = [
    ("checksum", re.compile(r"crc32")),
    ("check", re.compile(r"decoded_records|DecodedRecords|transpose")),
    ("index", re.compile(r"pipemill_channel::batch|^_*mem(move|cpy|set)")),
    ("grant", re.compile(r"pipemill_ring|pipemill_delivery|[Ss]endmsg")),
    ("read", re.compile(r"pipemill_source|^read$|__libc_read")),
    ("boundary", re.compile(r"wasmtime|pipemill_decode|pipemill_channel|clock_gettime|malloc|free|realloc|cfree")),
]


def stage_of(stack: list[tuple[str, str]]) -> str:
    """The stage of a sample. `stack`: names of functions, innermost first, and their files."""
    names = " ".join(name for name, _ in stack)
    for stage, pattern in CALLS:
        if pattern.search(names):
            return stage
    # A page fault belongs to the code that has caused it.
    name, file = next(((name, file) for name, file in stack if "kernel" not in file), ("", ""))
    if file.startswith(("[JIT]", "/tmp/perf-", "//anon", "[unknown]", "/memfd:")) or not file:
        return "decode"
    return next((stage for stage, pattern in CODE if pattern.search(name)), "other")


def samples(text: str) -> Iterator[list[tuple[str, str]]]:
    """The stacks of the main thread in the output of `perf script`."""
    for block in text.split("\n\n"):
        of = re.match(r"\s*\S+\s+(\d+)/(\d+)\s*$", block.lstrip("\n").partition("\n")[0])
        if of and of[1] == of[2]:
            yield re.findall(r"^\s+[0-9a-f]+ (.*) \((.*)\)$", block, re.M)


def profile(bench: str, case: str, seconds: float, data: str) -> dict[str, Any]:
    record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(FREQUENCY), "-g", "-o", data, "--"]
    ran = subprocess.run([*record, bench, "stages", case, str(seconds)], stdout=subprocess.PIPE, text=True, check=True)
    records = int(ran.stdout)
    # The channel runs in the main thread.
    script = ["perf", "script", "-i", data, "--comm", "pipemill-bench", "-F", "comm,pid,tid,ip,sym,dso"]
    text = subprocess.run(script, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    counts = collections.Counter(map(stage_of, samples(text)))
    return {stage: counts[stage] / FREQUENCY * 1e9 / records for stage in STAGES} | {"samples": sum(counts.values())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    if shutil.which("perf") is None:
        sys.exit("make: perf is missing, which says where time goes: install Debian's linux-perf")
    places, others = Places(quick), Others()
    bench, data = str(places.release / "pipemill-bench"), str(places.dir / "perf.data")
    cases = subprocess.run([bench, "stages"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    rows = [{"case": case, **profile(bench, case, 1.0 if quick else 5.0, data)} for case in cases]
    table = {"rows": rows, "others": others.share()}
    places.write_report("stages", {"machine": machine(), "quick": quick, "stages": STAGES, "tables": [table]})


if __name__ == "__main__":
    main()
