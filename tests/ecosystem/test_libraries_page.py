"""The examples of docs/libraries.md, as they stand there."""

import pathlib
import re

import pytest
from arrow_data import serving

PAGE = pathlib.Path(__file__).parents[2] / "docs/libraries.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def animals(epochs):
    rows = "".join(f"{n},{'dog' if n % 3 else 'cat'},{n % 7}.5\n" for n in range(1000))
    config = (
        f'[[channel]]\nname = "animals"\nsource = {{ file = "FOLDER/data", epochs = {epochs} }}\n'
        'decoder = "csv"\noptions = { header = "true", types = "id:int64,animal:utf8,weight:float32" }\n'
        'batch = 128\ntail = "keep"\n'
    )
    return serving(config, data=f"id,animal,weight\n{rows}".encode())


@pytest.fixture
def run(monkeypatch):
    """Runs the example that has this word in it, against a channel `animals`."""

    def run(word, epochs=1):
        (example,) = (example for example in EXAMPLES if word in example)
        names = {"__name__": "example"}
        with animals(epochs) as host:
            monkeypatch.setenv("PIPEMILL_SOCKET", host.socket)
            exec(compile(example, str(PAGE), "exec"), names)
        return names

    return run


def test_tables(run, capsys):
    names = run("duckdb", epochs=4)
    assert capsys.readouterr().out == "[('cat', 334), ('dog', 666)]\n"
    assert names["table"].num_rows == names["frame"].height == 1000
