"""docs/s3.md: the shuffle that it shows in Python is the one that pipemill does."""

import pathlib
import re

from e2e import run

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "s3.md"


def test_the_shuffle_of_the_page_is_the_one_that_runs(tmp_path):
    page = {}
    exec(re.search(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1], page)
    folder = tmp_path / "folder"
    folder.mkdir()
    files = [str(folder / f"{number:03}") for number in range(100)]
    for file in files:
        pathlib.Path(file).write_bytes(b"x")
    config = tmp_path / "pipemill.toml"
    source = f'{{ folder = "{folder}", part = {{ index = 1, count = 3 }} }}'
    more = "shuffle = { seed = 9223372036854775807 }"
    config.write_text(
        f'[[channel]]\nname = "train"\ndecoder = "lines"\nsource = {source}\n{more}\n'
    )
    for epoch in [0, 1, 1_000]:
        ls = run("ls", "--config", config, "--channel", "train", "--epoch", epoch)
        listed = [line.split("\t")[1] for line in ls.stdout.decode().splitlines()]
        assert listed == page["shuffled"](files, 2**63 - 1, epoch)[1::3], ls.stderr
