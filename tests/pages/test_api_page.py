"""docs/api.md has each public name of the package, and the examples in their docstrings work."""

import ast
import pathlib
import re

import docstrings
import pipemill
import pytest

pytest.importorskip("numpy")
PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "api.md").read_text()
EXAMPLES = docstrings.examples(of_ecosystem=False)


def public(path):
    """The names that a module of a library has for users: its own functions and classes, or `__all__`."""
    tree = ast.parse((docstrings.PACKAGE / path).read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return ast.literal_eval(node.value)
    names = [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return [name for name in names if not name.startswith("_")]


def test_the_page_has_each_public_name_once():
    expected = [f"pipemill.{name}" for name in pipemill.__all__ if name != "__version__"]
    for path in ("torch/__init__.py", "jax.py", "grain.py", "tf.py", "hf.py", "ray.py"):
        module = "pipemill." + path.split("/")[0].replace(".py", "")
        expected += [f"{module}.{name}" for name in public(path)]
    assert sorted(re.findall(r"^::: (\S+)$", PAGE, re.MULTILINE)) == sorted(expected)


@pytest.mark.parametrize("code", [code for _, code in EXAMPLES], ids=[name for name, _ in EXAMPLES])
def test_an_example_works(code, tmp_path, monkeypatch, capsys):
    docstrings.write_inputs(tmp_path)
    names = {}
    if "polars" in code:
        names = {name: pytest.importorskip(name) for name in ("polars", "pyarrow", "duckdb")}
    docstrings.run(code, tmp_path, monkeypatch, **names)
    if "print(" in code:
        assert capsys.readouterr().out.strip()


def test_there_are_examples():
    assert len(EXAMPLES) >= 12
