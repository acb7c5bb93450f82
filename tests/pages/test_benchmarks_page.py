"""docs/benchmarks.md is what `bench/python/pages` makes of the reports, and says the figures that are in them."""

import json
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"
MACHINE = {
    "processor": "A Processor", "cores": "2", "memory": "24 GiB", "kernel": "Linux 6.1", "date": "2026-11-24 07:00 UTC",
    "commit": "0123456789ab",
}  # fmt: skip


def line(name, rates, cpu, failed=None):
    return {
        "name": name, "does": f"what {name} does: a|b", "failed": failed, "record_bytes": 1000.0,
        "records_per_s": [rate * 1e6 for rate in rates], "cpu_ns_per_byte": cpu,
    }  # fmt: skip


#: Rates are GB/s, because a record has 1,000 bytes.
PEERS = {
    "machine": MACHINE, "versions": {"peers": {"a": "1.2"}, "older": {"b": "0.9"}, "rust": {"c": "3"}},
    "rounds": 3, "seconds": 0.6, "warm_up": 0.3, "quick": False,
    "cases": [{
        "key": "one", "title": "records of one kind", "work": "one file; all records", "unit": "GB/s",
        "others": 0.02,
        "lines": [
            line("pipemill", [4.0, 2.0, 3.0], [0.5, 0.4, 0.6]),
            line("pipemill, 2 workers", [6.0, 6.0, 6.0], [0.7, 0.7, 0.7]),
            line("slow", [0.3, 0.3, 0.3], [3.0, 3.0, 3.0]),
            line("frugal", [9.0, 9.0, 9.0], [0.1, 0.1, 0.1]),
            line("absent", [], [], failed="ModuleNotFoundError: No module named 'absent'"),
        ],
        "bars": [
            {"line": "pipemill", "peer": "slow", "least": 5.0, "of": "rate"},
            {"line": "pipemill", "peer": "slow", "least": 8.0, "of": "cpu"},
            {"line": "pipemill", "peer": "absent", "least": 1.0, "of": "rate"},
        ],
    }],
}  # fmt: skip


def point(at, cpu, wall, refused=None, series="one"):
    figures = [] if refused else [1.0, 1.0, 1.0]
    return {
        "at": at, "series": series, "cpu_ns": [cpu * one for one in figures], "wall_ns": [wall * one for one in figures],
        "start": [0.04 * one for one in figures], "refused": refused,
    }  # fmt: skip


SCALING = {
    "machine": MACHINE,
    "quick": True,
    "axes": [
        {"axis": "channels", "cores": 2, "rounds": 3, "others": 0.5, "points": [point(1, 0.25, 0.25), point(20, 0.5, 0.2)]},
        {"axis": "records", "cores": 2, "rounds": 3, "others": 0.5, "points": [point(1024, 0.3, 0.3), point(1 << 30, 0, 0, "too large")]},
    ],
}


@pytest.fixture
def write(tmp_path):
    """Writes the page of these reports; returns its folder."""

    def run(**reports):
        for name, report in reports.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(report))
        command = [sys.executable, "-m", "pages", tmp_path, tmp_path / "docs"]
        subprocess.run(command, cwd=ROOT / "bench/python", check=True, stdout=subprocess.DEVNULL, env=os.environ)
        return tmp_path / "docs"

    return run


def rows(page, title):
    """The cells of a section's table."""
    section = page.split(f"## {title}\n", 1)[1].split("\n#")[0]
    return [re.split(r" *(?<!\\)\| *", row.strip("| ")) for row in section.split("\n") if row.startswith("| ")]


def test_a_table_has_medians_spread_and_what_could_not_run(write):
    page = (write(peers=PEERS) / "benchmarks.md").read_text()
    table = {cells[0]: cells[1:] for cells in rows(page, "Records of one kind")}
    assert table["pipemill"] == ["3.00", "2.00 to 4.00", "1.00", "0.500", "what pipemill does: a\\|b"]
    assert table["slow"][:4] == ["0.300", "0.300 to 0.300", "0.100", "3.00"]
    assert "No module named 'absent'" in " ".join(table["absent"])


def test_a_machine_that_was_busy_is_said_to_be(write):
    page = (write(peers=PEERS, scaling=SCALING) / "benchmarks.md").read_text()
    assert "Other processes took 2% of the cores' time" in page
    assert "Other processes took 50% of the cores' time, 50% during one table" in page


def test_a_quick_run_is_said_to_be_one(write):
    page = (write(peers=PEERS, scaling=SCALING) / "benchmarks.md").read_text()
    before, after = page.split("## What a byte costs as things grow")
    assert "A quick run" not in before and "**A quick run**" in after


def test_aims_are_said_to_be_missed(write):
    page = (write(peers=PEERS) / "benchmarks.md").read_text()
    _, reached, missed, unknown = rows(page, "Aims")
    assert reached[1:4] == ["slow", "5.00", "10.0"] and "missed" not in reached[-1]
    assert missed[1:] == ["slow, by CPU time", "8.00", "6.00", "**missed**"]
    assert unknown[-1] == "not measured"


def test_what_is_faster_is_listed(write):
    page = (write(peers=PEERS) / "benchmarks.md").read_text()
    _, *ahead = rows(page, "Where others are ahead")
    assert ahead == [["Records of one kind", "frugal", "1.50", "5.00"]], "divided by the best line of pipemill"


def test_costs_have_a_table_for_each_axis(write):
    page = (write(scaling=SCALING) / "benchmarks.md").read_text()
    _, *channels = rows(page, "Channels")
    assert [cells[1:6] for cells in channels] == [
        ["1", "0.250", "0.250 to 0.250", "0.250", "4.00"],
        ["20", "0.500", "0.500 to 0.500", "0.200", "5.00"],
    ]
    _, small, large = rows(page, "Size of records")
    assert small[1] == "1 KiB" and large[1:3] == ["1 GiB", "refused: too large"]
    assert "Compared with other readers" not in page, "a report that is missing is left out"


def test_bars_are_as_long_as_rates(write):
    picture = ElementTree.parse(write(peers=PEERS) / "pictures/benchmarks-peers.svg").getroot()
    bars = [float(one.get("width")) for one in picture.iter(f"{SVG}rect")][1:]
    assert bars[1] == pytest.approx(2 * bars[0], rel=0.01) and bars[3] == pytest.approx(3 * bars[0], rel=0.01)
    words = [one.text for one in picture.iter(f"{SVG}text")]
    assert "pipemill, 2 workers" in words and "absent" not in words


def test_curves_go_through_the_points(write):
    picture = ElementTree.parse(write(scaling=SCALING) / "pictures/benchmarks-scaling.svg").getroot()
    curves = [one.get("points").split() for one in picture.iter(f"{SVG}polyline")]
    heights = [[float(place.split(",")[1]) for place in curve] for curve in curves]
    assert [len(curve) for curve in curves] == [2, 2, 1, 1]
    assert heights[0][1] < heights[0][0] and heights[1][1] > heights[1][0], "a higher cost is higher"


def test_the_page_is_made_of_the_reports(tmp_path):
    command = [sys.executable, "-m", "pages", ROOT / "bench/results", tmp_path]
    subprocess.run(command, cwd=ROOT / "bench/python", check=True, stdout=subprocess.DEVNULL)
    pictures = ("benchmarks-peers", "benchmarks-scaling", "shuffle-quality", "hosts")
    for name in ("benchmarks.md", *(f"pictures/{picture}.svg" for picture in pictures)):
        same = (tmp_path / name).read_text() == (ROOT / "docs" / name).read_text()
        assert same, f"docs/{name}: make it again: cd bench/python && python3 -m pages ../results ../../docs"


def test_the_table_of_orders_has_the_figures_of_its_report():
    made = "import json, sys; from pages import shuffle_plot; print(shuffle_plot.table(json.load(open(sys.argv[1]))))"
    command = [sys.executable, "-c", made, ROOT / "bench/results/shuffle.json"]
    table = subprocess.run(command, cwd=ROOT / "bench/python", check=True, capture_output=True, text=True).stdout
    assert table.strip() in (ROOT / "docs/the-index.md").read_text()


def test_the_table_of_hosts_has_the_figures_of_its_report():
    made = "import json, sys; from pages import hosts_plot; print(hosts_plot.table(json.load(open(sys.argv[1]))))"
    command = [sys.executable, "-c", made, ROOT / "bench/results/hosts.json"]
    table = subprocess.run(command, cwd=ROOT / "bench/python", check=True, capture_output=True, text=True).stdout
    assert table.strip() in (ROOT / "docs/the-index.md").read_text()


def test_the_page_is_in_the_site():
    assert "(benchmarks.md)" in (ROOT / "docs/README.md").read_text()
    assert "- docs/benchmarks.md\n" in (ROOT / "docs/site/mkdocs.yml").read_text()


def test_each_reader_of_a_case_is_there():
    """Of all libraries only numpy is needed for it: a reader imports its library when it runs."""
    script = (
        "import importlib\n"
        "from peers.cases import cases\n"
        "for case in cases():\n"
        "    names = {line.name for line in case.lines}\n"
        "    assert all({bar.line, bar.peer} <= names for bar in case.bars), case.key\n"
        "    assert len(names) == len(case.lines), case.key\n"
        "    for reader in (line.reader for line in case.lines):\n"
        "        module, function = reader.split('.')\n"
        "        if module == 'rust':\n"
        "            print(reader)\n"
        "        else:\n"
        "            assert callable(getattr(importlib.import_module(f'peers.readers.{module}'), function)), reader\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT / "bench/python", check=True, stdout=subprocess.PIPE, text=True
    )
    in_rust = (ROOT / "bench/src/rust_readers.rs").read_text()
    for reader in set(done.stdout.split()):
        assert f'"{reader}"' in in_rust, reader
