"""The examples in the docstrings of the Python package, and what they need to run."""

import ast
import io
import pathlib
import re
import tarfile
import textwrap

import e2e
import pipemill
from e2e import PATIENCE

PACKAGE = pathlib.Path(__file__).parents[2] / "python" / "src" / "pipemill"
EXAMPLE = re.compile(r"::\n\n((?:    .*\n|\n)+)")
#: Those of these names need a library that only tests/ecosystem has.
ECOSYSTEM = re.compile(r"\b(torch|jax|grain|ray|tf|hf)\b")
#: An example that opens its own source.
OPENS = re.compile(r"with pipemill\.|Dataset\(|Loader\(|pipemill\.tf\.")
OPTIONS = {"header": True, "types": "auto", "null": "-"}


def _documented(node, name):
    """Each docstring below a node, with the name of what has it."""
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
        # A module's is not indented, and may have nothing but an example below its first line.
        yield name, ast.get_docstring(node, clean=not isinstance(node, ast.Module)) or ""
        for child in node.body:
            yield from _documented(child, f"{name}.{getattr(child, 'name', '')}")


def examples(of_ecosystem):
    """(name, code) of each example: of those that need a library of tests/ecosystem, or of the others."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(["pipemill", *path.relative_to(PACKAGE).with_suffix("").parts])
        for owner, text in _documented(ast.parse(path.read_text()), name.replace(".__init__", "")):
            for number, match in enumerate(EXAMPLE.finditer(text + "\n")):
                found.append((f"{owner}:{number}", textwrap.dedent(match[1]).strip()))
    return [one for one in found if bool(ECOSYSTEM.search(" ".join(one))) == of_ecosystem]


def write_inputs(folder):
    (folder / "train.csv").write_text("x,y,age,name\n1,2,30.5,a\n3,4,-,b\n5,6,50,c\n")
    (folder / "pairs.csv").write_text("image,label\n1,2\n3,4\n")
    (folder / "bad.csv").write_text("x\n1\nno number\n")
    (folder / "train").mkdir()
    (folder / "data").mkdir()
    (folder / "data" / "a.csv").write_text("x,y\n1,2\n3,4\n")
    (folder / "data" / "a.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    (folder / "pipemill.toml").write_text(
        '[[channel]]\nname = "train"\nsource = { file = "train.csv" }\ndecoder = "lines"\n'
    )
    (folder / "data" / "a.tar").symlink_to("../train/a.tar")
    with tarfile.open(folder / "train" / "a.tar", "w") as tar:
        # Some batches of 256.
        for number in range(600):
            for name, data in ((f"{number}.jpg", b"\xff\xd8\xff"), (f"{number}.cls", b"7")):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


def run(code, folder, monkeypatch, **names):
    """Runs an example in a folder that has its inputs."""
    monkeypatch.chdir(folder)
    # Addresses in S3 are folders here. tests/open reads S3.
    code = code.replace("s3://bucket/", f"{folder}/")
    for index in re.findall(r'"(\w+\.index)"', code):
        (folder / "rows.csv").write_text("x,y\n" + "".join(f"{row},{row}.5\n" for row in range(1200)))
        assert e2e.run("index", folder / "rows.csv", "--out", folder / index).returncode == 0
    source = "bad.csv" if "DecodeError" in code else "pairs.csv" if "label" in code else "train.csv"
    types = {"header": True, "types": "int64"} if source == "bad.csv" else OPTIONS
    channel = {"name": "train", "source": {"file": str(folder / source), "epochs": 10}, "decoder": "csv", "options": types}
    names |= {"pipemill": pipemill, "train": lambda *these: list(map(list, these)), "first": 0}
    with pipemill.host({"channel": [{**channel, "batch": 3}]}) as host:
        if "pipemill.connect" in code:
            # Only then: to some functions it says that they are given a channel's name.
            monkeypatch.setenv("PIPEMILL_SOCKET", host.socket)
        if re.search(r"\b(stream|batch|record)\b", code) and not OPENS.search(code):
            names["stream"] = host.connect("train", timeout=PATIENCE)
            if not re.search(r"\bstream\b", code):
                names["batch"] = batch = next(names["stream"])
                names["record"] = batch.records()[0]
        try:
            exec(compile(code, "<docstring>", "exec"), names)
        finally:
            if "stream" in names:
                names["stream"].close()
    return names
