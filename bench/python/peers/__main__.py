"""Measures: ``python -m peers [--quick] [--only KEY]… [--minutes N]``.

Each case's figures are written when it is over, so a run that was stopped, or whose minutes are
over, continues from there. The last run writes the report, bench/results/peers.json, from which
`pages` makes the page. With `--quick`, files are smaller and rounds are fewer, and the report goes
to the target folder only.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from .cases import Case, cases
from .cpu import Others
from .inputs import make
from .machine import machine, versions
from .places import Places
from .task import WARM_UP
from .turns import measure

ROUNDS, SECONDS = 5, 0.5
QUICK_ROUNDS, QUICK_SECONDS, QUICK_PART = 1, 0.2, 16


@contextlib.contextmanager
def s3_server(places: Places) -> Iterator[str]:
    """The tests' S3 server over the inputs: each folder of them is a bucket."""
    server = subprocess.Popen([places.release / "s3-server", places.inputs], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield "http://" + server.stdout.readline().split()[-1]
    finally:
        server.kill()
        server.wait()


def run(case: Case, rounds: int, seconds: float, places: Places) -> dict[str, Any]:
    files = [make(case.input, line.writer, places) for line in case.lines]
    with contextlib.ExitStack() as stack:
        extra: dict[str, Any] = {}
        if case.input.served:
            endpoint = stack.enter_context(s3_server(places))
            extra = {"endpoint": endpoint, "region": "us-east-1", "anonymous": True}
        others = Others()
        lines = measure(case, files, rounds, seconds, places, extra)
    bars = [dataclasses.asdict(bar) for bar in case.bars]
    return {
        "key": case.key, "title": case.title, "work": case.work, "unit": case.unit, "others": others.share(),
        "lines": lines, "bars": bars,
    }  # fmt: skip


def show(found: dict[str, Any]) -> None:
    print(f"\n{found['title']}; other processes: {found['others']:.0%} of the cores")
    for line in found["lines"]:
        if line["failed"]:
            print(f"  {line['name']:28} {line['failed'][:90]}")
        else:
            rate = statistics.median(line["records_per_s"])
            size, cpu = line["record_bytes"], statistics.median(line["cpu_ns_per_byte"])
            print(
                f"  {line['name']:28} {rate * size / 1e9:8.3f} GB/s  {rate:12.0f} records/s  {cpu:8.2f} ns of CPU a byte"
            )
    sys.stdout.flush()


def quicker(case: Case) -> Case:
    return dataclasses.replace(case, input=dataclasses.replace(case.input, size=case.input.size // QUICK_PART))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", default=[], metavar="KEY")
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("PIPEMILL_BENCH_MINUTES") or "inf"))
    arguments = parser.parse_args()
    places = Places(arguments.quick)
    rounds, seconds = (QUICK_ROUNDS, QUICK_SECONDS) if arguments.quick else (ROUNDS, SECONDS)
    wanted = [quicker(case) if arguments.quick else case for case in cases()]
    host = (places.release / "pipemill").stat()
    # Figures of another build are measured again.
    build = [host.st_mtime_ns, host.st_size, rounds, seconds]
    until = time.monotonic() + arguments.minutes * 60
    for case in wanted:
        result = places.results / f"{case.key}.json"
        if result.exists() and json.loads(result.read_text())["build"] == build:
            continue
        if arguments.only and case.key not in arguments.only:
            continue
        if time.monotonic() > until:
            raise SystemExit("the minutes are over: the same command goes on")
        found = run(case, rounds, seconds, places)
        show(found)
        part = result.with_suffix(".part")
        part.write_text(json.dumps({"build": build, **found}))
        part.rename(result)
    results = [places.results / f"{case.key}.json" for case in wanted]
    if missing := [path.stem for path in results if not path.exists()]:
        print(f"not measured yet: {' '.join(missing)}")
        return
    found = [json.loads(path.read_text()) for path in results]
    for one in found:
        del one["build"]
    report = {
        "machine": machine(), "versions": versions(places), "rounds": rounds, "seconds": seconds, "warm_up": WARM_UP,
        "quick": arguments.quick,
        "cases": found,
    }  # fmt: skip
    places.write_report("peers", report)
    for result in results:
        result.unlink()


if __name__ == "__main__":
    main()
