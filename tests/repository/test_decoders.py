"""The list of the built-in decoders is `host/builtin/src/table.rs`. Each file that must repeat it
names all of them.
"""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
TABLE = "host/builtin/src/table.rs"
#: Each file with its names, in the order of the table, and how to find them: the first group is a name.
REPEATED = {
    "docs/decoders.md": r"^\| \[`([\w-]+)`\]\(#\1\) \|",
    "host/**/project/wrap.rs": r'^    \("([\w-]+)", "\w+"\),$',
    "fuzz/src/decoders/presets.rs": r"^pub\(super\) const (\w+): &\[Preset\] =",
    "Cargo.toml": r'^    "plugins/((?!build|sdk|parsing)[\w-]+)",$',
    "fuzz/src/lib.rs": r'^    Target \{ name: "([\w-]+)", run: decoders::\w+ \},$',
}


def names(pattern, text):
    found = (match[1].lower().replace("_", "-") for match in re.finditer(pattern, text, re.M))
    return list(dict.fromkeys(found))


def read(glob):
    (path,) = ROOT.glob(glob)
    return path.read_text()


BUILTINS = names(r'^    "([\w-]+)", \d+, ', read(TABLE))


@pytest.mark.parametrize("glob", REPEATED)
def test_the_list_is_that_of_the_table(glob):
    assert len(BUILTINS) > 10
    assert names(REPEATED[glob], read(glob)) == BUILTINS


def test_each_has_its_section_in_the_documents():
    assert set(BUILTINS) <= set(names(r"^## `?([\w-]+)`?$", read("docs/decoders.md")))


def test_plugin_test_is_run_for_each():
    assert set(names(r'passes(?:_with_heads)?\(\s*"([\w-]+)"', read("tests/plugin/conformance.rs"))) == set(BUILTINS)


def test_each_has_mistakes_that_plugin_test_must_find():
    assert {path.stem for path in (ROOT / "tests/plugin/mutants").glob("*.toml")} == set(BUILTINS)


def test_each_is_a_crate_with_the_feature_that_exports_it():
    exporting = {path.parent.name for path in ROOT.glob("plugins/*/Cargo.toml") if "\nexport = []\n" in path.read_text()}
    assert exporting == set(BUILTINS)


def test_those_that_wrap_another_one_are_compiled_apart():
    """The crate of the other decoder is a library in these crates, and must not export a decoder."""
    others = "|".join(BUILTINS)
    manifests = {name: read(f"plugins/{name}/Cargo.toml").partition("[dev-dependencies]")[0] for name in BUILTINS}
    wrappers = [name for name, text in manifests.items() if names(rf"^pipemill-({others})\b", text)]
    assert names(r'^const WRAPPERS: .* = \["([\w-]+)"\];$', read("host/builtin/build.rs")) == wrappers


def test_each_is_tested_with_input_in_pieces():
    tested = {path.parents[2].name for path in ROOT.glob("plugins/*/tests/decoder/splits.rs")}
    assert tested == set(BUILTINS)
