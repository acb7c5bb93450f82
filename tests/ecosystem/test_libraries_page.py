"""The examples of docs/libraries.md, as they stand there."""

import gc
import pathlib
import re
import subprocess

import pytest
from arrow_data import serving
from e2e import PATIENCE

PAGE = pathlib.Path(__file__).parents[2] / "docs/libraries.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


ROWS = "".join(f"{n},{'dog' if n % 3 else 'cat'},{n % 7}.5\n" for n in range(1000))
DATA = f"id,animal,weight\n{ROWS}"


def animals(epochs):
    """A host for the page's own configuration."""
    (config,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    config = config.replace('"animals.csv", epochs = 10', f'"FOLDER/data", epochs = {epochs}')
    assert f"epochs = {epochs} " in config
    # An example may leave its loop early.
    return serving(config, ends=None, data=DATA.encode())


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Runs the example that has these words in it, against a channel `animals` or in a folder with
    `animals.csv`. Returns its output."""

    def run(words, epochs=1):
        (example,) = (example for example in EXAMPLES if words in example)
        names = {"__name__": "example"}
        code = compile(example, "<example>", "exec")
        if '"animals"' in example:
            with animals(epochs) as host:
                monkeypatch.setenv("PIPEMILL_SOCKET", host.socket)
                exec(code, names)
                # The objects that the example leaves hold its batches until its process dies.
                names.clear()
                gc.collect()
        else:
            (tmp_path / "animals.csv").write_text(DATA)
            monkeypatch.chdir(tmp_path)
            exec(code, names)
        return capsys.readouterr().out

    return run


def test_the_data_of_the_page(tmp_path):
    (command,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    subprocess.run(command, shell=True, cwd=tmp_path, check=True, timeout=PATIENCE)
    assert (tmp_path / "animals.csv").read_text() == DATA


def test_tables(run):
    assert run("duckdb", epochs=4) == "[('cat', 334), ('dog', 666)]\n"


def test_numpy(run):
    assert run("dlpack") == "[0.5 1.5] ['cat' 'dog']\n"


def test_jax(run):
    assert float(run("pipemill.jax")) == sum(n % 7 + 0.5 for n in range(1000))


def test_grain(run):
    assert run("pipemill.grain") == "128 128\n"


def test_tensorflow(run):
    assert run('pipemill.tf.dataset("animals")') == "b'cat' float32\n"
    assert run('pipemill.tf.dataset("animals.csv"') == "True\n"


def test_hugging_face(run):
    assert run("pipemill.hf") == "{'id': 0, 'animal': 'cat', 'weight': 0.5} Value('float64')\n"
