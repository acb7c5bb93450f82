"""docs/configuration.md: the order of shuffled records that it gives in Python is the one that runs."""

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


S3_PAGE = PAGE.with_name("s3.md")
SHUFFLED = re.search(r"^```python\n(.*?)^```$", S3_PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
