"""The text of docs/benchmarks.md."""

from __future__ import annotations

import statistics
from typing import Any

from . import words
from .figures import median_rate, quotient, rates, short, spread

LIBRARIES = {"peers": "", "older": "in the older environment", "rust": "of Rust"}


def page(peers: dict[str, Any] | None, scaling: dict[str, Any] | None, stages: dict[str, Any] | None) -> str:
    parts = [words.INTRODUCTION]
    if peers is not None:
        parts += compared(peers)
    if scaling is not None:
        parts += scaled(scaling)
    if stages is not None:
        parts += by_stage(stages)
    return "\n".join(parts)


def compared(report: dict[str, Any]) -> list[str]:
    how = words.HOW.format(rounds=report["rounds"], seconds=report["seconds"], warm=report["warm_up"])
    return [
        "## Compared with other readers\n",
        measured_on(report, report["cases"]),
        how,
        "![The rates of the tables below, as bars](pictures/benchmarks-peers.svg)\n",
        *map(table, report["cases"]),
        bars(report["cases"]),
        faster(report["cases"]),
        words.NOT_FAIR,
        libraries(report["versions"]),
    ]


def measured_on(report: dict[str, Any], tables: list[dict[str, Any]]) -> str:
    machine = report["machine"]
    shares = [table["others"] for table in tables]
    return (
        f"Measured {machine['date']} at commit {machine['commit']}, on {machine['cores']} cores of "
        f"{machine['processor']} (a virtual machine), {machine['memory']}, {machine['kernel']}. Other processes took "
        f"{statistics.median(shares):.0%} of the cores' time, {max(shares):.0%} during one table.\n"
        + (f"\n{words.QUICK}" if report["quick"] else "")
    )


def table(case: dict[str, Any]) -> str:
    base = next((median_rate(case, line) for line in case["lines"][:1] if not line["failed"]), None)
    rows = [
        f"### {title(case)}\n",
        f"{sentence(case['work'])}\n",
        f"| reader | {case['unit']} | lowest to highest | relative | CPU, ns a byte | what it does |",
        "|---|---|---|---|---|---|",
    ]
    for line in case["lines"]:
        if line["failed"]:
            rows.append(f"| {line['name']} | | | | | could not run: {cell(line['failed'])} |")
            continue
        median = median_rate(case, line)
        relative = "" if base is None else f"{short(median / base)}"
        cpu = short(statistics.median(line["cpu_ns_per_byte"]))
        row = [line["name"], short(median), spread(rates(case, line)), relative, cpu, cell(line["does"])]
        rows.append(f"| {' | '.join(row)} |")
    return "\n".join(rows) + "\n"


def bars(cases: list[dict[str, Any]]) -> str:
    """The quotients that the project wants to reach."""
    rows = ["### Aims\n", "What pipemill should reach, and what it reached here.\n"]
    rows += ["| | compared with | aim | reached | |", "|---|---|---|---|---|"]
    for case in cases:
        for bar in case["bars"]:
            found = quotient(case, bar)
            reached = "" if found is None else short(found)
            verdict = "not measured" if found is None else "" if found >= bar["least"] else "**missed**"
            per = ", by CPU time" if bar["of"] == "cpu" else ""
            what = f"{title(case)}, {bar['line']}"
            rows.append(f"| {what} | {bar['peer']}{per} | {short(bar['least'])} | {reached} | {verdict} |")
    return "\n".join(rows) + "\n"


def faster(cases: list[dict[str, Any]]) -> str:
    """The readers that are faster than the best line of pipemill, or take less CPU time than it with one worker."""
    rows = []
    for case in cases:
        lines = [line for line in case["lines"] if not line["failed"]]
        ours = [line for line in lines if line["name"].startswith("pipemill")]
        if not ours:
            continue
        best = max(median_rate(case, line) for line in ours)
        least = min(statistics.median(line["cpu_ns_per_byte"]) for line in ours)
        for line in lines:
            if line in ours:
                continue
            rate, cpu = median_rate(case, line) / best, least / statistics.median(line["cpu_ns_per_byte"])
            if rate > 1 or cpu > 1:
                rows.append(f"| {title(case)} | {line['name']} | {short(rate)} | {short(cpu)} |")
    if not rows:
        return "### Where others are ahead\n\nNowhere in these tables.\n"
    head = [
        "### Where others are ahead\n",
        "The rate and the bytes by CPU time, divided by those of pipemill's best line. Above 1, the other reader is ahead.\n",
        "| | reader | rate | bytes by CPU time |",
        "|---|---|---|---|",
    ]
    return "\n".join(head + rows) + "\n"


def libraries(versions: dict[str, dict[str, str]]) -> str:
    rows = ["## Versions\n"]
    for env, found in versions.items():
        about = f", {LIBRARIES[env]}" if LIBRARIES[env] else ""
        names = ", ".join(f"{name} {version}" for name, version in found.items())
        rows.append(f"- {names}{about}")
    return "\n".join(rows) + "\n"


def scaled(report: dict[str, Any]) -> list[str]:
    return [
        "## What a byte costs as things grow\n",
        measured_on(report, report["axes"]),
        words.SCALING.format(rounds=report["axes"][0]["rounds"]),
        "![The tables below as curves](pictures/benchmarks-scaling.svg)\n",
        *map(axis_table, report["axes"]),
    ]


def axis_table(axis: dict[str, Any]) -> str:
    about = words.AXES[axis["axis"]]
    rows = [
        f"### {about.title}\n",
        f"{about.about}\n",
        "| | | CPU, ns a byte | lowest to highest | time, ns a byte | GB/s | start, s |",
        "|---|---|---|---|---|---|---|",
    ]
    for point in axis["points"]:
        name = words.point_name(axis["axis"], point["at"])
        if point["refused"]:
            rows.append(f"| {point['series']} | {name} | refused: {cell(point['refused'])} | | | | |")
            continue
        cpu, wall, start = (statistics.median(point[key]) for key in ("cpu_ns", "wall_ns", "start"))
        row = [point["series"], name, short(cpu), spread(point["cpu_ns"]), short(wall), short(1 / wall), short(start)]
        rows.append(f"| {' | '.join(row)} |")
    return "\n".join(rows) + f"\n\n{about.why}\n"


def title(case: dict[str, Any]) -> str:
    return case["title"][0].upper() + case["title"][1:]


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def by_stage(report: dict[str, Any]) -> list[str]:
    stages = report["stages"]
    rows = [f"| | {' | '.join(stages)} | all |", "|---|" + "---|" * (len(stages) + 1)]
    for row in report["tables"][0]["rows"]:
        times = [row[stage] for stage in stages]
        rows.append(f"| {row['case']} | {' | '.join(map(short, [*times, sum(times)]))} |")
    return [
        "## Where the time of a record goes\n",
        measured_on(report, report["tables"]),
        words.STAGES,
        "\n".join(rows) + "\n",
    ]
