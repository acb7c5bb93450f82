"""examples/notebook: each cell runs, without a warning, and shows what its text says. It is
committed without its output.
"""

import pathlib

import nbclient
import nbformat
import pytest
from e2e import PATIENCE

NOTEBOOKS = sorted((pathlib.Path(__file__).parents[2] / "examples/notebook").glob("*.ipynb"))


def test_there_is_one():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells), "keep it without outputs"
    for name in ("HOME", "MPLCONFIGDIR", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    client = nbclient.NotebookClient(notebook, timeout=PATIENCE, resources={"metadata": {"path": tmp_path}})
    client.execute()

    shown = [output for cell in cells for output in cell.outputs]
    assert not [output.text for output in shown if output.get("name") == "stderr"]
    texts = "".join(output.get("text", "") for output in shown)
    assert "{'id': 0, 'value': " in texts and "value  float64" in texts and "4096 records:" in texts
    tables = [output for output in shown if "text/html" in output.get("data", {})]
    pictures = [output for output in shown if "image/png" in output.get("data", {})]
    assert len(tables) == 2 and len(pictures) == 1
    # The last table has all records except those of the first batch, and both ways have found the
    # same mean.
    assert sum(int(line.split()[1]) for line in tables[1].data["text/plain"].splitlines()[2:]) == 400_000 - 4096
    means = [line.split()[-1] for line in texts.splitlines() if " mean " in line]
    assert len(means) == 2 and means[0] == means[1]
