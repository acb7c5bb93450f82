"""CONTRIBUTING.md: where unsafe code is."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
UNSAFE = re.compile(r"(?<![\w`])unsafe (\{|fn|impl|extern|trait)")
#: Folders of which the page says nothing: tests may do what they like.
TESTS = ("tests/", "ring/tests/")


def paragraph():
    (found,) = re.findall(r"^Unsafe code is only in .*$", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    places, forbid = found.split("A test compares")
    return re.findall(r"`([^`]+)`", places), re.findall(r"`(host/[^`]+)`", forbid)


def with_unsafe_code():
    for folder in ("host", "ring", "plugins", "deploy", "bench", "fuzz", "examples"):
        for path in (ROOT / folder).rglob("*.rs"):
            name = path.relative_to(ROOT).as_posix()
            lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("//")]
            if "/target/" not in name and not name.startswith(TESTS) and UNSAFE.search("\n".join(lines)):
                yield name


def test_the_list_is_that_of_the_source():
    places, _ = paragraph()
    found = {next((place for place in places if name.startswith(place)), name) for name in with_unsafe_code()}
    assert found == set(places)


def test_crates_that_forbid_it():
    _, named = paragraph()
    crates = [path.parents[1].relative_to(ROOT).as_posix() for path in ROOT.glob("host/*/src/lib.rs")]
    crates += [path.parents[1].relative_to(ROOT).as_posix() for path in ROOT.glob("host/*/src/main.rs")]
    forbid = {
        crate
        for crate in crates
        for root in ("lib.rs", "main.rs")
        if (ROOT / crate / "src" / root).exists()
        and "#![forbid(unsafe_code)]" in (ROOT / crate / "src" / root).read_text()
    }
    assert forbid == set(named)
