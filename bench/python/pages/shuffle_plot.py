"""How well orders mix: a row for each of them, and a table of the same figures."""

from __future__ import annotations

import math
from typing import Any

from . import svg

WIDTH, LEFT, RIGHT, ROW = 760, 250, 90, 20
HEAD = 46


def draw(orders: list[dict[str, Any]]) -> str:
    """The runs of a class as bars on a scale of powers of ten."""
    longest = max(math.log10(order["run"]) for order in orders)
    parts = [
        svg.text(14, 24, "Records of one class in a row", "title"),
        svg.text(14, 40, "the mean, on a scale of powers of ten; ten classes, stored one after the other", "small"),
    ]
    y = float(HEAD + 6)
    for order in orders:
        middle = y + ROW / 2
        width = math.log10(order["run"]) / longest * (WIDTH - LEFT - RIGHT)
        color = "other" if order["name"][0].isupper() or order["name"].startswith("a ") else "first"
        parts += [
            svg.text(LEFT - 8, middle + 4, order["name"].replace("`", ""), "end"),
            svg.bar(LEFT, y + 2, width, ROW - 6, color),
            svg.text(LEFT + max(width, 0.5) + 6, middle + 4, number(order["run"]), "small"),
        ]
        y += ROW
    about = "Mean lengths of runs of one class in several orders; the table has the same figures."
    return svg.picture(WIDTH, y + 10, "How well orders mix", about, parts)


def table(orders: list[dict[str, Any]]) -> str:
    """The same in Markdown."""
    lines = ["| order | distance | run | classes in a batch | neighbours |", "|---|---|---|---|---|"]
    for order in orders:
        figures = [f"{order['distance']:.3f}", number(order["run"]), f"{order['classes']:.2f}", share(order["neighbours"])]
        lines.append(f"| {order['name']} | {' | '.join(figures)} |")
    return "\n".join(lines) + "\n"


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def share(value: float) -> str:
    return f"{value * 100:.0f} %" if value >= 0.01 else f"{value * 100:.4f} %" if value else "0"
