"""The tables of docs/pytorch.md, whose cells are tests."""

import pathlib

PAGE = pathlib.Path(__file__).parents[2] / "docs/pytorch.md"


def table(beginning):
    """The rows of the table whose first line begins with this text, and the names of its columns."""
    lines = PAGE.read_text().splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith(beginning))
    end = next(at for at in range(first, len(lines)) if not lines[at].startswith("|"))
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[first:end])
    return rows, head
