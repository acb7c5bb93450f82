"""docs/five-minutes.md: its commands run in order from an empty folder, and print what the page has.

`PIPEMILL_GOLDEN=write` writes what they print into the page."""

import os
import pathlib

import pages
import pytest

PATH = pathlib.Path(__file__).parents[2] / "docs" / "five-minutes.md"
PAGE = PATH.read_text()


@pytest.fixture
def found(tmp_path):
    folder = tmp_path / "five"
    folder.mkdir()
    return pages.run_page(PAGE, folder, pages.environment(tmp_path))


def test_the_page_does_what_it_says(found):
    assert len(found) > 10
    if os.environ.get("PIPEMILL_GOLDEN") == "write":
        PATH.write_text(pages.rewritten(PAGE, found))
        return
    pages.check(found)
    # The page shows results instead of describing them: nearly every command prints something.
    assert sum(bool(command.expected) for command in found) > 10


@pytest.mark.parametrize(
    "expected, output, same",
    [
        ("a\n", "a\n", True),
        ("a\n", "a\nb\n", False),
        ("a … b\n", "a 1 b\n", True),
        ("a … b\n", "a 1\n2 b\n", False),
        ("a\n…\nb\n", "a\n1\n2\nb\n", True),
        ("a\n…\n", "b\n", False),
        ("a.b\n", "axb\n", False),
        ("", "a\n", False),
    ],
)
def test_an_output_that_differs_is_found(expected, output, same):
    assert pages.matches(expected, output) == same


def test_only_what_differs_is_written_into_the_page():
    page = "a\n```console\n$ seq 2\n> \n1\n2\n$ date\nold\n```\nb\n```console\n$ ls\n…\n```\n"
    printed = ["1\n2\n", "new\n", "file\n"]
    found = [pages.Command("", output=output) for output in printed]
    assert pages.rewritten(page, found) == page.replace("old", "new")


def test_a_command_that_fails_is_found(tmp_path):
    page = "```console\n$ (exit 3)\n$ echo $?\n3\n$ echo a >&2; false\na\n```\n"
    (tmp_path / "work").mkdir()
    ran = pages.run_page(page, tmp_path / "work", pages.environment(tmp_path))
    assert [(command.output, command.code) for command in ran] == [("", 3), ("3\n", 0), ("a\n", 1)]
    pages.check(ran[:2])
    with pytest.raises(AssertionError, match="exit code is 1"):
        pages.check(ran)
