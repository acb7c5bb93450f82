"""docs/python.md: its programs run in order from an empty folder, and print what the page has.

`PIPEMILL_GOLDEN=write` writes what they print into the page."""

import inspect
import os
import pathlib
import re

import pages
import pipemill
import pytest

pytest.importorskip("numpy")
PATH = pathlib.Path(__file__).parents[2] / "docs" / "python.md"
PAGE = PATH.read_text()


def test_the_page_does_what_it_says(tmp_path):
    folder = tmp_path / "python"
    folder.mkdir()
    found = pages.run_page(PAGE, folder, pages.environment(tmp_path))
    assert len(found) > 10
    if os.environ.get("PIPEMILL_GOLDEN") == "write":
        PATH.write_text(pages.rewritten(PAGE, found))
        return
    pages.check(found)
    assert sum(bool(command.expected) for command in found) > 10


def test_each_argument_is_on_the_page_with_its_default():
    parameters = inspect.signature(pipemill.open).parameters
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (.*?) \|", PAGE, re.MULTILINE)
    shown = {name: row for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert set(parameters) - {"source", "decoder"} <= set(shown)
    for name in ("epochs", "credits", "hold_timeout"):
        assert f"{parameters[name].default:g}" in shown[name][1]
