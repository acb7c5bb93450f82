"""Measures the axes for which this build has no figures, and writes the report: ``python -m scaling
[--quick] [--again]``.

Each axis is a file in the target folder, so a run that was stopped continues from there."""

from __future__ import annotations

import argparse
import json
import os
import subprocess

from peers.cpu import Others
from peers.machine import machine
from peers.places import Places

AXES = ["workers", "channels", "records", "objects", "plugins"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--again", action="store_true", help="also axes that have figures")
    arguments = parser.parse_args()
    places = Places(arguments.quick)
    folder = places.target / "bench" / ("scaling-quick" if arguments.quick else "scaling")
    host = places.release / "pipemill"
    environment = {**os.environ, **({"PIPEMILL_BENCH_QUICK": "1"} if arguments.quick else {})}
    axes = []
    for axis in AXES:
        path = folder / f"{axis}.json"
        # A measurement that was stopped early has no share of other processes.
        old = (
            not path.exists()
            or path.stat().st_mtime < host.stat().st_mtime
            or "others" not in json.loads(path.read_text())
        )
        if old or arguments.again or arguments.quick:
            others = Others()
            subprocess.run([places.release / "pipemill-bench", "scaling", axis], check=True, env=environment)
            found = {**json.loads(path.read_text()), "others": others.share()}
            path.write_text(json.dumps(found))
        axes.append(json.loads(path.read_text()))
    places.write_report("scaling", {"machine": machine(), "quick": arguments.quick, "axes": axes})


if __name__ == "__main__":
    main()
