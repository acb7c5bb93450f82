"""Bars for each case: the median rate of each reader, with its lowest and highest."""

from __future__ import annotations

from typing import Any

from . import svg
from .figures import median_rate, rates, short

WIDTH, LEFT, RIGHT, ROW = 760, 210, 90, 18
HEAD = 30


def draw(report: dict[str, Any]) -> str:
    parts: list[str] = []
    y = 14.0
    for case in report["cases"]:
        lines = [line for line in case["lines"] if not line["failed"]]
        if not lines:
            continue
        most = max(max(rates(case, line)) for line in lines)
        parts.append(svg.text(14, y + 14, plain(case["title"]), "title"))
        parts.append(svg.text(WIDTH - 14, y + 14, case["unit"], "small end"))
        y += HEAD - 6
        for line in lines:
            parts += one(case, line, y, (WIDTH - LEFT - RIGHT) / most)
            y += ROW
        y += 12
    about = "Rates of each reader for each kind of input; the tables of the page have the same figures."
    return svg.picture(WIDTH, y + 4, "pipemill compared with other readers", about, parts)


def one(case: dict[str, Any], line: dict[str, Any], y: float, scale: float) -> list[str]:
    found, median = rates(case, line), median_rate(case, line)
    middle = y + ROW / 2
    color = "first" if line["name"].startswith("pipemill") else "other"
    return [
        svg.text(LEFT - 8, middle + 4, line["name"], "end"),
        svg.bar(LEFT, y + 2, median * scale, ROW - 5, color),
        svg.line(LEFT + min(found) * scale, middle, LEFT + max(found) * scale, middle, "spread"),
        svg.text(LEFT + max(found) * scale + 6, middle + 4, short(median), "small"),
    ]


def plain(title: str) -> str:
    return title[0].upper() + title[1:]
