"""The SDK and the C library depend on no crate of the host, so they repeat two of its types: with the same variants."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
#: A type of the host, and the files that repeat it.
REPEATED = [
    ("Scalar", "host/types/src/field.rs", ["plugins/sdk/src/field.rs", "ring/c/src/schema.rs"]),
    ("Codec", "host/codecs/src/lib.rs", ["plugins/sdk/src/host.rs"]),
]


def variants(name, path):
    """The variants of an enum, in their order."""
    body = re.search(rf"\npub enum {name} {{\n(.*?)\n}}\n", (ROOT / path).read_text(), re.S)[1]
    return re.findall(r"^    ([A-Z]\w*)(?: = \d+)?,$", body, re.M)


def words(path):
    """The words of scalars: ``Self::Utf8 => "utf8"`` or ``("utf8", Scalar::Utf8)``."""
    text = (ROOT / path).read_text()
    found = re.findall(r'(?:Self|Scalar)::(\w+) => "(\w+)"', text)
    return dict(found) or {variant: word for word, variant in re.findall(r'\("(\w+)", (?:Self|Scalar)::(\w+)\)', text)}


@pytest.mark.parametrize("name, path, others", REPEATED)
def test_a_repeated_type_has_the_same_variants(name, path, others):
    own = variants(name, path)
    assert len(own) > 4
    assert {other: variants(name, other) for other in others} == dict.fromkeys(others, own)


def test_scalars_have_the_same_words():
    own = words("host/types/src/field.rs")
    assert set(own) == set(variants("Scalar", "host/types/src/field.rs"))
    assert words("plugins/sdk/src/field.rs") == own
