"""docs/configuration.md: the order of shuffled records that it gives in Python is the one that runs."""

import itertools
import json
import pathlib
import re

import pytest
from e2e import finish

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "configuration.md"

READ = """
with pipemill.connect("train") as stream:
    for epoch in stream.epochs():
        print(json.dumps([record for batch in epoch for record in batch.records()]))
"""


@pytest.mark.parametrize("window", [("30", 30), ("2000", 2_000), ('"1MiB"', 1 << 20)])
def test_the_order_of_the_page_is_the_one_that_runs(host, tmp_path, window):
    page = {}
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    [block] = [block for block in blocks if "def shuffled_records" in block]
    exec(block, page)
    folder = tmp_path / "folder"
    folder.mkdir()
    objects = []
    for number in range(4):
        lines = [f"{number}.{line}" + "x" * (line * 37 % 9_000) for line in range(150)]
        (folder / f"{number}.txt").write_text("".join(f"{line}\n" for line in lines))
        objects.append(lines)
    written, size = window
    seed = 9223372036854775807
    config = (
        f'[[channel]]\nname = "train"\ndecoder = "lines"\nbatch = 16\n'
        f'source = {{ folder = "{folder}", epochs = 2 }}\n'
        f"shuffle = {{ seed = {seed}, window = {written} }}\n"
    )
    code, out, log = finish(host(config, READ))
    assert code == 0, log
    whole = {}
    exec(SHUFFLED, whole)

    def cost(line):
        return 1 if written.isdecimal() else len(line) + 32 + 8

    for epoch, line in enumerate(out.splitlines()):
        of_epoch = whole["shuffled"](objects, seed, epoch)
        expected = page["shuffled_records"](of_epoch, cost, size, seed, epoch)
        assert json.loads(line) == expected, f"epoch {epoch}"
        assert sorted(expected) == sorted(sum(objects, [])) and expected != sum(of_epoch, [])


@pytest.mark.parametrize("until", ['"first"', '"all"', "100"])
def test_the_mix_of_the_page_is_the_one_that_runs(host, tmp_path, until):
    page = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        if "def shuffled_records" in block or "def mixed_records" in block:
            exec(block, page)
    sizes = {"web": 120, "code": 70, "books": 9}
    weights = {"web": 700_000, "code": 250_000, "books": 50_000}
    config = (
        '[[channel]]\nname = "train"\nbatch = 16\n'
        'source = { mix = { web = 0.7, code = 0.25, books = 0.05 }, seed = 11, epochs = 3, '
        f"until = {until} }}\n"
    )
    for name, size in sizes.items():
        file = tmp_path / f"{name}.txt"
        file.write_text("".join(f"{name} {line}\n" for line in range(size)))
        config += (
            f'[[channel]]\nname = "{name}"\ndecoder = "lines"\n'
            f'source = {{ file = "{file}" }}\n'
        )
    code, out, log = finish(host(config, READ))
    assert code == 0, log

    def lines(name):
        return [f"{name} {line}" for line in range(sizes[name])]

    endless = {name: itertools.cycle(lines(name)) for name in sizes}
    for epoch, line in enumerate(out.splitlines()):
        channels = endless if until == "100" else {name: iter(lines(name)) for name in sizes}
        value = json.loads(until)
        expected = page["mixed_records"](channels, weights, value, 11, epoch)
        assert json.loads(line) == expected, f"epoch {epoch}"
    assert epoch == 2


S3_PAGE = PAGE.with_name("s3.md")
SHUFFLED = re.search(r"^```python\n(.*?)^```$", S3_PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
