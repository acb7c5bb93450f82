"""A thousand hosts that divide one index: a range for each way, and a table of the same figures."""

from __future__ import annotations

from typing import Any

from . import svg

WIDTH, LEFT, RIGHT, ROW = 760, 210, 120, 24
HEAD = 46


def draw(report: dict[str, Any]) -> str:
    """The records of the hosts, from the fewest to the most, as bars around their mean."""
    rows = report["rows"]
    most = max(row["records"][1] / row["share"] for row in rows) * 1.02
    scale = (WIDTH - LEFT - RIGHT) / most
    middle = LEFT + scale
    parts = [
        svg.text(14, 24, f"Records of {report['hosts']:,} hosts", "title"),
        svg.text(14, 40, "from the host with the fewest to the one with the most; the line is the mean", "small"),
    ]
    y = float(HEAD + 6)
    end = y + ROW * len(rows)
    for row in rows:
        low, high = (records / row["share"] for records in row["records"])
        parts += [
            svg.text(LEFT - 8, y + 16, row["name"].replace("`", ""), "end"),
            svg.bar(LEFT + low * scale - 1, y + 4, (high - low) * scale + 2, ROW - 10, "first"),
            svg.text(LEFT + high * scale + 8, y + 15, f"{low * 100:.2f} to {high * 100:.2f} %", "small"),
        ]
        y += ROW
    parts.append(svg.line(middle, HEAD + 2, middle, end, "grid"))
    about = "The least and the largest part of the records that a host has; the table has the same figures."
    return svg.picture(WIDTH, end + 10, "How equal the parts of hosts are", about, parts)


def table(report: dict[str, Any]) -> str:
    """The same in Markdown."""
    lines = [
        "| order | records of a host | bytes beyond its records | objects or blocks of a host | the order: time, memory |",
        "|---|---|---|---|---|",
    ]
    for row in report["rows"]:
        least, most = row["records"]
        low, high = row["requests"]
        more = " to ".join(f"{share * 100:.2f} %" for share in row["more"]) if row["more"][1] else "0"
        order = f"{row['seconds']:.2f} s, {row['memory'] / (1 << 20):.0f} MiB" if "seconds" in row else ""
        share = f"{least / row['share'] * 100:.4g} % to {most / row['share'] * 100:.4g} % of the mean"
        lines.append(f"| {row['name']} | {share} | {more} | {low:,} to {high:,} | {order} |")
    return "\n".join(lines) + "\n"
