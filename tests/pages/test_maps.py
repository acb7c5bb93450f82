"""The maps of the source that people read: the way of a byte in CONTRIBUTING.md, the crates, and the modules in the
first comment of each folder."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
WAY = re.findall(r"^\| `([\w.:]+)` \| `([\w./-]+)` \|", PAGE, re.M)
#: Folders whose first file names its modules.
FOLDERS = sorted(
    {path.parent for pattern in ("host/*/src/**/mod.rs", "host/*/src/lib.rs") for path in ROOT.glob(pattern)}
    | {ROOT / "ring/src/host"}
)


def test_each_function_on_the_way_of_a_byte_is_where_the_page_says():
    assert len(WAY) > 10
    for function, path in WAY:
        owner, _, name = function.replace(".", "::").rpartition("::")
        text = (ROOT / path).read_text()
        assert re.search(rf"\b(fn|def) {name}\b", text), f"{path} has no {name}"
        assert not owner or re.search(rf"\b{owner}\b", text), f"{path} does not name {owner}"


def test_each_crate_of_the_host_is_in_the_picture():
    crates = {path.parent.name for path in ROOT.glob("host/*/Cargo.toml")}
    picture = PAGE[PAGE.index("## Layers") : PAGE.index("## The way of a byte")]
    assert {crate for crate in crates if not re.search(rf"\b{crate}\b", picture)} == set()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(ROOT).as_posix())
def test_each_module_is_named_in_the_first_comment_of_its_folder(folder):
    first = next(folder / name for name in ("lib.rs", "mod.rs") if (folder / name).exists())
    text = first.read_text()
    modules = set(re.findall(r"^(?:pub(?:\([\w ]+\))? )?mod (\w+);", text, re.M)) - {"tests"}
    comment = "\n".join(line for line in text.splitlines() if line.startswith("//!"))
    named = set(re.findall(r"`(\w+)`", comment))
    assert modules - named == set(), f"{first.relative_to(ROOT)} does not say what these modules are"
