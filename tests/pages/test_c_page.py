"""docs/c.md: its program, compiled and linked as the page says, prints what the page has."""

import os
import pathlib

import pages
import pytest

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "c.md").read_text()
LIBRARY = os.environ.get("PIPEMILL_C")


def test_the_page_does_what_it_says(tmp_path):
    if LIBRARY is None:
        pytest.skip("set PIPEMILL_C to the folder of `make c-library`")
    folder = tmp_path / "c"
    folder.mkdir()
    tmp_path.chmod(0o700)
    found = pages.run_page(PAGE, folder, pages.environment(tmp_path) | {"PIPEMILL_C": LIBRARY})
    assert len(found) == 7
    pages.check(found)
