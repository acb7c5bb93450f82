"""README.md: its first screen has the things that a person looks for, and its figure is that of
docs/benchmarks.md.
"""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FIRST = README[: README.index("\n## ")]


def test_it_can_be_read_in_one_go():
    assert len(README.splitlines()) < 150


def test_the_first_screen():
    order = ["way-of-a-byte.svg", "    make demo", "    make test", "It is for you if", "not the right fit for"]
    places = [FIRST.index(it) for it in [*order, "How fast", "Install", "pip install"]]
    assert places == sorted(places)


def test_the_figures_are_those_of_the_benchmarks():
    page = (ROOT / "docs/benchmarks.md").read_text()
    table = re.search(r"^### TFRecord, 1 KiB\n(.*?)^### ", page, re.M | re.S)[1]
    rates = dict(re.findall(r"^\| ([^|]+) \| ([\d.]+) \|", table, re.M))
    ours = rates["pipemill"]
    other = max((rate for name, rate in rates.items() if name.startswith("tf.data")), key=float)
    assert f"one channel delivers {ours} GB/s as numpy arrays. `tf.data` delivers {other} GB/s" in FIRST
