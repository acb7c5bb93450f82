"""CONTRIBUTING.md: where unsafe code is."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
UNSAFE = re.compile(r"(?<![\w`])unsafe (\{|fn|impl|extern|trait)")
#: Folders of which the page says nothing: tests may do what they like.
TESTS = ("tests/", "ring/tests/")


def paragraph():
    (found,) = re.findall(r"^Unsafe code is only in .*$", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    return re.findall(r"`([^`]+)`", found.split("A test compares")[0])


def with_unsafe_code():
    for folder in ("host", "ring", "plugins", "deploy", "bench", "fuzz", "examples"):
        for path in (ROOT / folder).rglob("*.rs"):
            name = path.relative_to(ROOT).as_posix()
            lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("//")]
            if "/target/" not in name and not name.startswith(TESTS) and UNSAFE.search("\n".join(lines)):
                yield name


def test_the_list_is_that_of_the_source():
    places = paragraph()
    found = {next((place for place in places if name.startswith(place)), name) for name in with_unsafe_code()}
    assert found == set(places)


def test_all_other_crates_of_the_host_forbid_it():
    roots = [*ROOT.glob("host/*/src/lib.rs"), *ROOT.glob("host/*/src/main.rs")]
    assert len(roots) > 10
    for root in roots:
        crate = root.parents[1].relative_to(ROOT).as_posix()
        may = any(place.startswith(f"{crate}/") for place in paragraph())
        assert ("#![forbid(unsafe_code)]" in root.read_text()) != may, crate
