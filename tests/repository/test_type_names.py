"""One name has one meaning in a crate of the host: no two types of a crate have the same name."""

import collections
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
CRATES = sorted(path.parent for path in ROOT.glob("host/*/Cargo.toml"))
#: Names that may be there several times, and the reason.
REPEATED = {"Args": "each command's arguments, as clap's documents name them"}
TYPE = re.compile(r"^(?:pub(?:\([a-z ]+\))? )?(?:struct|enum|trait|union) (\w+)", re.M)


def types(crate):
    """The names of a crate's types, and how often each is defined. Types of tests don't count."""
    files = [file for file in (crate / "src").rglob("*.rs") if "tests" not in file.parts and file.stem != "tests"]
    return collections.Counter(name for file in files for name in TYPE.findall(file.read_text()))


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_a_name_has_one_meaning(crate):
    found = types(crate)
    assert [name for name, count in found.items() if count > 1 and name not in REPEATED] == []


def test_types_are_found():
    assert sum(sum(types(crate).values()) for crate in CRATES) > 500
