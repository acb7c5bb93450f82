"""The ring knows no configuration: its messages say what is wrong, and the host adds which key to change."""

import json
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]


def keys(schema):
    for name, key in schema.get("properties", {}).items():
        yield name
        yield from keys(key.get("items", key))


KEYS = "|".join(sorted(set(keys(json.loads((ROOT / "docs" / "pipemill.schema.json").read_text())))))
#: A key in code or with a value, a table of the file, and the file itself.
NAMED = re.compile(rf"`({KEYS})`|\b({KEYS}) = |\[channel|configuration|pipemill run|\.toml")


def messages(text):
    text = text.partition("#[cfg(test)]\nmod tests {")[0]
    text = re.sub(r"^\s*//.*$", "", text, flags=re.M)
    return re.findall(r'"((?:[^"\\]|\\.)*)"', text, re.S)


def test_no_message_of_the_ring_names_the_configuration():
    files = [path for path in ROOT.glob("ring/src/**/*.rs") if "test" not in path.name]
    found = [text for path in files for text in messages(path.read_text())]
    assert len(found) > 100
    assert [text for text in found if NAMED.search(text)] == []


def test_this_test_finds_a_key():
    assert NAMED.search("set `slots` to 8") and NAMED.search("set slots = 8") and not NAMED.search("8 slots")
