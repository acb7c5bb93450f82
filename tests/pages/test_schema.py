"""docs/pipemill.schema.json: it accepts every configuration that pipemill accepts, and refuses a
configuration with a single wrong key."""

import json
import pathlib
import re
import subprocess
import textwrap

import jsonschema
import pytest
from e2e import run

try:
    import tomllib
except ImportError:
    import tomli as tomllib

ROOT = pathlib.Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "pipemill.schema.json").read_text())
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
UNITS = {"size": ["B", "KiB", "MiB", "GiB", "TiB"], "time": ["ms", "s", "m", "h"]}
FACTORS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000} | {
    unit: 1 << 10 * power for power, unit in enumerate(UNITS["size"])
}


def configurations():
    """Each configuration in a file of the repository: files, blocks of pages and of Kubernetes' manifests."""
    listed = ["git", "ls-files", "*.toml", "*.md", "*.yaml", "fuzz/corpus/config"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        path = ROOT / name
        text = path.read_bytes().decode(errors="replace")
        blocks = [text]
        if path.suffix == ".md":
            blocks = re.findall(r"^```toml.*?\n(.*?)^```$", text, re.M | re.S)
        elif path.suffix == ".yaml":
            blocks = [textwrap.dedent(block) for block in re.findall(r"\.toml: \|\n((?: +.*\n|\n)+)", text)]
        for number, block in enumerate(blocks):
            if re.search(r"^\[\[channel\]\]|^\[(rank|s3)\]|corpus", block + name, re.M):
                yield pytest.param(block, id=f"{name}-{number}")


FOUND = list(configurations())


def test_there_are_many_configurations():
    assert len(FOUND) > 80, len(FOUND)


@pytest.mark.parametrize("text", FOUND)
def test_a_configuration_of_the_repository_that_is_right_fits_the_schema(text, tmp_path):
    (tmp_path / "pipemill.toml").write_bytes(text.encode())
    variables = {name: "1" for name in re.findall(r"\$\{(\w+)", text)}
    shown = run("config", "show", "pipemill.toml", cwd=tmp_path, env={**variables, "PATH": ""})
    try:
        errors = [error.message for error in VALIDATOR.iter_errors(tomllib.loads(text))]
    except tomllib.TOMLDecodeError:
        assert shown.returncode == 64
        return
    if shown.returncode == 0:
        assert errors == []
        assert list(VALIDATOR.iter_errors(tomllib.loads(shown.stdout.decode()))) == []
    else:
        assert shown.returncode == 64, shown.stderr


def test_the_command_prints_it():
    assert json.loads(run("config", "schema").stdout) == SCHEMA
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def properties(schema, path=""):
    """Each key with its schema, in all tables."""
    for name, key in schema.get("properties", {}).items():
        yield f"{path}{name}", key
        yield from properties(key.get("items", key), f"{path}{name}.")


KEYS = dict(properties(SCHEMA))


def accepts(key, value):
    return jsonschema.Draft7Validator({**KEYS[key], "definitions": SCHEMA["definitions"]}).is_valid(value)


RANGES = [
    (key, noun, *ends)
    for key, schema in KEYS.items()
    for noun, *ends in re.findall(
        r"(?:a|an) (whole number|size|time)(?: of records)? from (\d+)(\w*) to (\d+)(\w*)", schema["description"]
    )
]


def test_most_keys_have_a_range():
    assert len(KEYS) > 80 and len(RANGES) > 30, (len(KEYS), len(RANGES))


@pytest.mark.parametrize("key, noun, least, unit, most, largest", RANGES, ids=lambda value: str(value))
def test_both_ends_of_a_range_are_accepted_and_what_lies_outside_is_refused(key, noun, least, unit, most, largest):
    first, last = int(least) * FACTORS[unit], int(most) * FACTORS[largest]
    for unit in UNITS.get(noun, [""]):
        factor = FACTORS[unit]
        low, high = -(-first // factor), last // factor
        value = (lambda number: f"{number}{unit}") if unit else int
        numbers = {low, low + 1, (low + high) // 2, high - 1, high} | {10**power for power in range(20)}
        for number in sorted(number for number in numbers if number >= 0):
            assert accepts(key, value(number)) == (low <= number <= high), value(number)
        if low > 0:
            assert not accepts(key, value(low - 1))
        assert not accepts(key, value(high + 1))
    if noun != "whole number" and "whole number" not in KEYS[key]["description"]:
        assert not accepts(key, first), "a number without a unit"
    assert accepts(key, "${NAME}")


@pytest.mark.parametrize("key", [key for key, schema in KEYS.items() if "enum" in str(schema.get("anyOf"))])
def test_a_wrong_word_is_refused(key):
    words = re.search(r"Value: (.*)\. Default", KEYS[key]["description"])[1]
    for word in re.findall(r'"([\w-]+)"', words):
        assert accepts(key, word)
        assert not accepts(key, word + "x") and not accepts(key, word.upper())


CHANNEL = '[[channel]]\nname = "a"\nsource = { file = "x" }\n'


@pytest.mark.parametrize(
    "text",
    [
        "sokcet = 'x'\n" + CHANNEL,
        CHANNEL + "batchs = 2\n",
        CHANNEL + "[channel.ring]\nslot = 4\n",
        CHANNEL + "[channel.limits]\nmemorys = '1GiB'\n",
        "[rank]\nnumber = 0\n" + CHANNEL,
        "[s3]\nbudgets = '1GiB'\n" + CHANNEL,
        CHANNEL + "mode = 'all'\n",
        CHANNEL + "max_record = '64MB'\n",
        CHANNEL + "max_record = '2GiB'\n",
        CHANNEL + "batch = 0\n",
        CHANNEL + "workers = 'all'\n",
        CHANNEL + "workers = 257\n",
        CHANNEL + "batch = 2\nshuffle = { window = 100 }\n",
        CHANNEL + "batch = 2\nshuffle = { seed = 1, window = '1KiB' }\n",
        CHANNEL + "options = { a = [1] }\n",
        CHANNEL + "sha256 = 'abc'\n",
        CHANNEL.replace('"a"', '"a b"'),
        CHANNEL.replace('name = "a"\n', ""),
        CHANNEL.replace('file = "x"', ""),
        CHANNEL.replace('file = "x"', 'file = ""'),
        CHANNEL.replace('file = "x"', 'file = "x", folder = "y"'),
        CHANNEL.replace('file = "x"', 'file = "x", region = "eu-west-1"'),
        CHANNEL.replace('file = "x"', 'file = "x", epochs = 0'),
        CHANNEL.replace('file = "x"', 's3 = "x"'),
        CHANNEL.replace('file = "x"', "s3 = []"),
        CHANNEL.replace('file = "x"', "stdin = false"),
        CHANNEL.replace('file = "x"', "mix = { a = 0, b = 1 }") + "batch = 2\n",
        CHANNEL.replace('file = "x"', "mix = { b = 1 }") + "batch = 2\n",
        CHANNEL.replace("[[channel]]", "[channel]"),
        "channel = []\n",
    ],
)
def test_what_is_wrong_in_one_key_is_refused(text, tmp_path):
    VALIDATOR.validate(tomllib.loads(CHANNEL))
    assert not VALIDATOR.is_valid(tomllib.loads(text))
    (tmp_path / "pipemill.toml").write_text(text)
    assert run("config", "check", tmp_path / "pipemill.toml").returncode == 64
