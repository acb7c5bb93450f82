"""Numbers as the page shows them."""

from __future__ import annotations

import statistics
from typing import Any


def short(value: float) -> str:
    """Three digits: 0.0123, 1.23, 12.3, 123, 1,230."""
    if value == 0:
        return "0"
    value = float(f"{value:.3g}") if abs(value) < 100 else value
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3 if abs(value) >= 0.1 else 4
    return f"{value:.{digits}f}"


def rates(case: dict[str, Any], line: dict[str, Any]) -> list[float]:
    """The rates of a line, in the unit of its case."""
    factor = 1.0 if case["unit"] == "images/s" else line["record_bytes"] / 1e9
    return [rate * factor for rate in line["records_per_s"]]


def median_rate(case: dict[str, Any], line: dict[str, Any]) -> float:
    return statistics.median(rates(case, line))


def spread(values: list[float]) -> str:
    return f"{short(min(values))} to {short(max(values))}"


def line_of(case: dict[str, Any], name: str) -> dict[str, Any]:
    return next(line for line in case["lines"] if line["name"] == name)


def quotient(case: dict[str, Any], bar: dict[str, Any]) -> float | None:
    """The advantage of a line over a peer. None if one of them has no figures."""
    line, peer = line_of(case, bar["line"]), line_of(case, bar["peer"])
    if line["failed"] or peer["failed"]:
        return None
    if bar["of"] == "cpu":
        return statistics.median(peer["cpu_ns_per_byte"]) / statistics.median(line["cpu_ns_per_byte"])
    return median_rate(case, line) / median_rate(case, peer)
