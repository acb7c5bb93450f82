"""A panel for each axis: the cost of a byte, as CPU time and as time."""

from __future__ import annotations

import math
import statistics
from typing import Any

from . import svg
from .figures import short
from .words import AXES, point_name

WIDTH, HEIGHT, COLUMNS = 380, 250, 2
#: The sides of a panel's plot within the panel.
LEFT, TOP, RIGHT, BOTTOM = 56, 52, 28, 54
COLORS = ["first", "second", "third"]


def draw(report: dict[str, Any]) -> str:
    parts: list[str] = []
    axes = report["axes"]
    for number, axis in enumerate(axes):
        x, y = number % COLUMNS * WIDTH, number // COLUMNS * HEIGHT
        parts += panel(axis, x, y)
    rows = math.ceil(len(axes) / COLUMNS)
    about = "Nanoseconds for each byte of the input over the number of workers, channels, objects, plugins, and the size of records."
    return svg.picture(WIDTH * COLUMNS, rows * HEIGHT + 8, "The cost of a byte", about, parts)


def panel(axis: dict[str, Any], x: float, y: float) -> list[str]:
    points = [point for point in axis["points"] if not point["refused"]]
    values = [statistics.median(point[kind]) for point in points for kind in ("cpu_ns", "wall_ns")]
    highest = nice(max(values))
    places = sorted({point["at"] for point in points})
    low, high = math.log(places[0]), math.log(places[-1])
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(place: int, value: float) -> tuple[float, float]:
        along = (math.log(place) - low) / (high - low) if high > low else 0.5
        return x + LEFT + along * width, y + TOP + height * (1 - value / highest)

    parts = [
        svg.text(x + 14, y + 26, AXES[axis["axis"]].title, "title"),
        svg.text(x + 14, y + 42, "ns a byte: CPU time as a line, time dashed", "small"),
    ]
    for step in range(5):
        value = highest * step / 4
        _, level = at(places[0], value)
        parts.append(svg.line(x + LEFT, level, x + WIDTH - RIGHT, level, "grid"))
        parts.append(svg.text(x + LEFT - 6, level + 4, short(value), "small end"))
    for place in places:
        along, _ = at(place, 0)
        parts.append(svg.text(along, y + HEIGHT - BOTTOM + 16, point_name(axis["axis"], place), "small mid"))
    series = list(dict.fromkeys(point["series"] for point in points))
    for color, name in zip(COLORS, series):
        for kind, dashed in (("cpu_ns", False), ("wall_ns", True)):
            curve = [at(point["at"], statistics.median(point[kind])) for point in points if point["series"] == name]
            parts.append(svg.curve(curve, color, dashed))
            if not dashed:
                parts += [svg.dot(*place, color) for place in curve]
    return parts + legend(series, x, y)


def legend(series: list[str], x: float, y: float) -> list[str]:
    parts, along = [], x + 14.0
    for color, name in zip(COLORS, series):
        parts.append(svg.bar(along, y + HEIGHT - 24, 10, 10, color))
        parts.append(svg.text(along + 14, y + HEIGHT - 15, name, "small"))
        along += 26 + 5.6 * len(name)
    return parts


def nice(value: float) -> float:
    """The next number that divides into four well."""
    power = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if step * power >= value)
