"""Writes the page and its pictures: ``python -m pages REPORTS DOCS``, two folders. A missing report
is left out.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

from . import hosts_plot, markdown, peers_plot, scaling_plot, shuffle_plot


def report(folder: pathlib.Path, name: str) -> Any:
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def main(reports: pathlib.Path, docs: pathlib.Path) -> None:
    peers, scaling, stages = (report(reports, name) for name in ("peers", "scaling", "stages"))
    (docs / "pictures").mkdir(parents=True, exist_ok=True)
    (docs / "benchmarks.md").write_text(markdown.page(peers, scaling, stages))
    if peers is not None:
        (docs / "pictures/benchmarks-peers.svg").write_text(peers_plot.draw(peers))
    if scaling is not None:
        (docs / "pictures/benchmarks-scaling.svg").write_text(scaling_plot.draw(scaling))
    if (orders := report(reports, "shuffle")) is not None:
        (docs / "pictures/shuffle-quality.svg").write_text(shuffle_plot.draw(orders))
    if (hosts := report(reports, "hosts")) is not None:
        (docs / "pictures/hosts.svg").write_text(hosts_plot.draw(hosts))
    print(f"{docs / 'benchmarks.md'} is written")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
