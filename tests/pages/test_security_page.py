"""docs/security.md: its limits are those of the program."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "Mi": 1 << 20}
#: The start of a row or sentence of the page, and the constant that it tells.
LIMITS = {
    "| log lines |": ("host/decode/src/call/host_state.rs", "MAX_LOG_MESSAGES"),
    "| its schema |": ("host/decode/src/call/host_state.rs", "MAX_FIELDS"),
    "| metadata of an object |": ("host/decode/src/call/metadata.rs", "MAX_METADATA_BYTES"),
    "| its options |": ("host/decode/src/plugin.rs", "MAX_OPTIONS"),
    "| bytes of code |": ("host/decode/src/compile/compile_limits.rs", "MAX_CODE_BYTES"),
    "| functions |": ("host/decode/src/compile/compile_limits.rs", "MAX_FUNCTIONS"),
    "| types of functions |": ("host/decode/src/compile/compile_limits.rs", "MAX_TYPES"),
    "| bytes in one function |": ("host/decode/src/compile/compile_limits.rs", "MAX_FUNCTION_BYTES"),
    "| bytes of one function times": ("host/decode/src/compile/compile_limits.rs", "MAX_FUNCTION_VARIABLES"),
    "| parts of components": ("host/decode/src/compile/compile_limits.rs", "MAX_COMPONENT_PARTS"),
    "| functions, globals and bytes": ("host/decode/src/compile/compile_limits.rs", "MAX_MODULE_PARTS"),
    "| components in each other |": ("host/decode/src/compile/compile_limits.rs", "MAX_DEPTH"),
    "| tables |": ("host/decode/src/compile/compile_limits.rs", "MAX_TABLES"),
    "| bytes of types, imports": ("host/decode/src/compile/compile_limits.rs", "MAX_DESCRIPTION_BYTES"),
    "| bytes of names of functions |": ("host/decode/src/compile/compile_limits.rs", "MAX_NAME_BYTES"),
    "This process may use": ("host/decode/src/compile/compiler_process.rs", "MAX_MEMORY"),
    "A list has at most": ("host/source/src/walk.rs", "MAX_FOLDERS"),
    "| a page of a list": ("host/source/src/s3/limit.rs", "MAX_BODY_BYTES"),
    "| a key |": ("host/source/src/s3/address.rs", "MAX_KEY_BYTES"),
    "| a manifest |": ("host/source/src/s3/manifest.rs", "MAX_MANIFEST_BYTES"),
    "| a line of an augmented manifest |": ("host/source/src/s3/manifest.rs", "MAX_LINE_BYTES"),
    "| objects of a list that is shuffled": ("host/source/src/s3/entry.rs", "MAX_SHUFFLED"),
}


def constant(file, name):
    """The value of a constant: a number, or one shifted."""
    text = (ROOT / file).read_text()
    (found,) = re.findall(rf"const {name}: \w+ = ([\d_]+)(?: << (\d+))?;", text)
    return int(found[0]) << int(found[1] or 0)


def first_number(text):
    number, unit = re.search(r"([\d,]*\d)(?: (KiB|MiB|GiB|Mi)\b)?", text).groups()
    return int(number.replace(",", "")) * UNITS.get(unit, 1)


@pytest.mark.parametrize("row", LIMITS)
def test_a_limit(row):
    assert PAGE.count(row) == 1
    rest = PAGE[PAGE.index(row) + len(row) :]
    # In a table, the limit is the last cell but what may follow it.
    assert first_number(rest) == constant(*LIMITS[row])


def test_each_limit_of_compiling_is_told():
    text = (ROOT / "host/decode/src/compile/compile_limits.rs").read_text()
    told = {name for file, name in LIMITS.values() if file.endswith("compile_limits.rs")}
    assert set(re.findall(r"^const (MAX_\w+)", text, re.M)) == told
