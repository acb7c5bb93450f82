"""`pipemill init` and `schema`: the files that they write can be run at once."""

import io
import os
import pathlib
import sys
import tarfile

import pytest
from e2e import run


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "my data.csv"
    path.write_text("id,score\n1,0.5\n2,\n3,1.5\n")
    return ["-d", "csv", "-o", "header=true", "-o", "types=id:int64,score:float32", path]


def test_schema_says_what_the_records_look_like(csv):
    said = run("schema", *csv).stdout.decode()
    for line in ["decoder  csv", "records  3, in 24 B", "field    id     int64", "score  float32  null in 1  0.5, null, 1.5"]:
        assert line in said, said


def test_schema_estimates_the_number_of_records(tmp_path):
    path = tmp_path / "big.csv"
    path.write_text("".join(f"{n:012},abcdefgh\n" for n in range(1_000_000)))
    said = run("schema", "-d", "csv", path).stdout.decode()
    (words,) = [line.split() for line in said.splitlines() if line.startswith("records")]
    about = int(words[2].replace(",", ""))
    # The bytes that are read ahead make it a little less.
    assert words[1] == "about" and 900_000 < about < 1_100_000


def test_what_init_writes_runs_at_once(csv, tmp_path):
    job = tmp_path / "job"
    done = run("init", *csv, "--to", job)
    assert done.returncode == 0, done.stderr
    assert run("config", "check", "--try", job / "pipemill.toml").returncode == 0
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    env.pop("PIPEMILL_CONFIG", None)
    ran = run("run", "--", sys.executable, "train.py", cwd=job, env=env)
    assert ran.returncode == 0 and ran.stdout == b"mydata, epoch 0: 3 records\n", ran
    assert b"the configuration is pipemill.toml" in ran.stderr


def test_init_writes_the_types_that_were_learnt(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("id,score,name\n1,0.5,Ann\n2,,Bo\n")
    job = tmp_path / "job"
    assert run("init", table, "--to", job).returncode == 0
    text = (job / "pipemill.toml").read_text()
    assert '"types" = "id:int64,score:float64,name:utf8"' in text, text
    assert "those of the first rows" in text
    assert run("config", "check", "--try", job / "pipemill.toml").returncode == 0
    # At that time, other first rows would have other types.
    table.write_text("id,score,name\n1.5,2,Ann\n")
    tried = run("config", "check", "--try", job / "pipemill.toml")
    assert tried.returncode != 0 and b"int64" in tried.stdout + tried.stderr


def test_types_of_names_that_cannot_be_listed_are_learnt_again(tmp_path):
    (tmp_path / "table.csv").write_text('"a,b",c\n1,2\n')
    assert run("init", "table.csv", cwd=tmp_path).returncode == 0
    text = (tmp_path / "pipemill.toml").read_text()
    assert '"types" = "auto"' in text and "learns the types again" in text, text
    assert run("config", "check", "--try", tmp_path / "pipemill.toml").returncode == 0


def test_init_overwrites_nothing(csv, tmp_path):
    (tmp_path / "train.py").write_text("mine")
    done = run("init", *csv, cwd=tmp_path)
    assert done.returncode == 64 and b"train.py: is there already" in done.stderr
    assert (tmp_path / "train.py").read_text() == "mine" and not (tmp_path / "pipemill.toml").exists()


def test_init_writes_nothing_if_a_source_cannot_be_decoded(tmp_path):
    (tmp_path / "bad.csv").write_text("x\n")
    done = run("init", "-d", "csv", "-o", "types=int32", "bad.csv", cwd=tmp_path)
    assert done.returncode == 65 and not (tmp_path / "pipemill.toml").exists()
    assert run("init", "-d", "csv", "-", cwd=tmp_path).returncode == 64


def test_each_source_is_a_channel(tmp_path):
    for name in ["a/x.csv", "b/x.csv", "$1.csv"]:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("1\n")
    assert run("init", "-d", "csv", "a/x.csv", "b", "b/x.csv", "$1.csv", cwd=tmp_path).returncode == 0
    text = pathlib.Path(tmp_path / "pipemill.toml").read_text()
    assert [line for line in text.splitlines() if line.startswith("name")] == [
        'name = "x"',
        'name = "b"',
        'name = "x-2"',
        'name = "1"',
    ]
    assert "folder = " in text
    assert run("config", "check", "--try", tmp_path / "pipemill.toml").returncode == 0


def test_fields_of_json_lines_are_proposed(tmp_path):
    path, job = tmp_path / "a.jsonl", tmp_path / "job"
    path.write_text('{"id": 1, "v": [1, 2], "o": {"t": "x"}}\n{"id": 2, "v": [3, 0.5]}\n')
    said = run("schema", path).stdout.decode()
    (line,) = [line for line in said.splitlines() if line.startswith("options ")]
    option = line.split("-o ")[1].strip("'")
    assert sorted(option.removeprefix("fields=").split(",")) == ["/id:int64", "/o/t:utf8?", "/v:float64[2]"]
    said = run("schema", path, "-o", option).stdout.decode()
    assert "float64[2]" in said and "options" not in said
    assert run("init", path, "--to", job).returncode == 0
    assert option.removeprefix("fields=") in (job / "pipemill.toml").read_text()
    assert run("config", "check", "--try", job / "pipemill.toml").returncode == 0


def test_fields_of_an_archive_of_samples_are_proposed(tmp_path):
    path, job = tmp_path / "a.tar", tmp_path / "job"
    members = [("1.jpg", b"\xff\xd8"), ("1.cls", b"7"), ("2.jpg", b"\xff"), ("2.cls", b"8"), ("3.jpg", b"")]
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    said = run("schema", path).stdout.decode()
    assert "options  proposed from the first samples: -o 'fields=jpg,cls:int64?'" in said, said
    assert "field    cls      int64" in said, said
    assert run("init", path, "--to", job).returncode == 0
    assert "jpg,cls:int64?" in (job / "pipemill.toml").read_text()
    assert run("config", "check", "--try", job / "pipemill.toml").returncode == 0
