"""`pipemill cat`: tables, CSV, a choice of records, fields and objects, and readers that leave."""

import csv
import fcntl
import io
import os
import pty
import struct
import subprocess
import termios

import pytest
from e2e import PATIENCE, PIPEMILL, in_background, run

COLUMNS = {**os.environ, "COLUMNS": "60"}


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text('id,name,score\n1,"a ""b"", c",0.5\n-2,日本,inf\n3,,\n')
    return ["-d", "csv", "-o", "header=true", "-o", "types=id:int64,name:utf8,score:float32", path]


def test_a_table_is_aligned_and_says_how_many_records_there_are(table):
    done = run("cat", "--output", "table", *table)
    assert done.stdout.decode().splitlines() == [
        "   id  name         score",
        "int64  utf8       float32",
        "─────  ────────  ────────",
        '    1  a "b", c       0.5',
        "   -2  日本      Infinity",
        "    3                null",
        "3 records",
    ]
    done = run("cat", "--output", "table", "--limit", 1, *table)
    assert b"the first record: 1; `--limit N`" in done.stdout.splitlines()[-1]


def test_a_table_fits_its_width(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text(",".join(["wide " * 10] * 30) + "\n" + ",".join(["x"] * 30) + "\n")
    done = run("cat", "-d", "csv", "-o", "types=utf8", "--output", "table", path, env=COLUMNS)
    lines = done.stdout.decode().splitlines()
    assert all(len(line) <= 60 for line in lines[:-1]) and "…" in lines[3]
    assert "of 30 fields fit" in lines[-1]


def test_a_terminal_gets_a_table_and_a_pipe_json_lines(table):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    child = subprocess.Popen([PIPEMILL, "cat", *map(str, table)], stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    shown = b""
    while True:
        try:
            more = os.read(ours, 4096)
        except OSError:
            break
        if not more:
            break
        shown += more
    assert child.wait(PATIENCE) == 0 and b"3 records" in shown and b"int64" in shown
    os.close(ours)
    assert run("cat", *table).stdout.startswith(b'{"object":')


def test_csv_is_read_back(table):
    done = run("cat", "--output", "csv", *table)
    rows = list(csv.reader(io.StringIO(done.stdout.decode())))
    assert rows == [
        ["id", "name", "score"],
        ["1", 'a "b", c', "0.5"],
        ["-2", "日本", "Infinity"],
        ["3", "", ""],
    ]
    # Text that is empty is told from a value that is absent.
    assert done.stdout.endswith(b'\n3,"",\n')


def test_records_and_fields_are_chosen(table):
    done = run("cat", "--output", "csv", "--skip", 1, "--limit", 1, "--fields", "score,id", *table)
    assert done.stdout == b"score,id\nInfinity,-2\n"
    done = run("cat", "--output", "count", "--limit", 2, *table)
    assert done.stdout.startswith(b"records=2 ")
    done = run("cat", "--fields", "nam", *table)
    assert done.returncode == 64 and b"did you mean `name`?" in done.stderr


def test_limit_reads_no_further(tmp_path):
    """The input is larger than any pipe: only a reader that stops early leaves some of it
    unwritten.
    """
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    left = []

    def write():
        try:
            with open(fifo, "wb", buffering=0) as out:
                out.write(b"1\n2\n3\n4\n")
                for _ in range(100):
                    out.write(b"5\n" * 1_000_000)
        except BrokenPipeError:
            left.append(True)

    writer = in_background(write)
    done = run("cat", "-d", "csv", "-o", "types=int32", "--output", "csv", "--limit", 3, fifo)
    assert (done.returncode, done.stdout) == (0, b"f0\n1\n2\n3\n")
    writer.join(PATIENCE)
    assert left


def test_objects_are_chosen_by_name(tmp_path):
    for name in ["a.csv", "b.csv", "c.txt"]:
        (tmp_path / name).write_text(f"{name}\n")
    cat = ["cat", "-d", "lines", "--output", "raw", tmp_path]
    assert run(*cat, "--where", "object=*.csv").stdout == b"a.csvb.csv"
    assert run(*cat, "--where", "object=b.csv").stdout == b"b.csv"
    assert run(*cat, "--where", f"object={tmp_path}/c*").stdout == b"c.txt"
    done = run(*cat, "--where", "object=d*")
    assert done.returncode == 66 and b"no object's name matches `d*`" in done.stderr
    assert run(*cat, "--where", "name=d*").returncode == 64


@pytest.mark.parametrize("output", ["jsonl", "csv", "arrow", "table", "raw", "count"])
def test_output_that_cannot_be_written_is_an_error_and_a_closed_pipe_is_none(tmp_path, output):
    path = tmp_path / "in.csv"
    path.write_text("12345\n" * 200_000)
    command = f"'{PIPEMILL}' cat -d csv -o types=int32 --output {output} '{path}'"
    full = subprocess.run(["bash", "-c", f"{command} >/dev/full"], capture_output=True, timeout=PATIENCE)
    assert full.returncode == 71 and b"can't write the output" in full.stderr
    left = f"{command} | true; exit ${{PIPESTATUS[0]}}"
    closed = subprocess.run(["bash", "-c", left], capture_output=True, timeout=PATIENCE)
    assert (closed.returncode, closed.stderr) == (0, b"")


def test_hidden_files_are_left_out(tmp_path):
    (tmp_path / ".ipynb_checkpoints").mkdir()
    for name in ["a", ".DS_Store", ".ipynb_checkpoints/a"]:
        (tmp_path / name).write_text("line\n")
    assert run("cat", "-d", "lines", "--output", "count", tmp_path).stdout.startswith(b"records=1 ")
    said = run("ls", tmp_path).stderr
    assert b"left out 2 hidden files and markers" in said and said.endswith(b"1 object, 5 bytes\n")
    assert run("ls", tmp_path / "a", tmp_path / "none").returncode == 66


def test_completions_and_manual_pages(tmp_path):
    for shell in ["bash", "zsh", "fish"]:
        script = run("completions", shell).stdout
        assert b"quarantine" in script, shell
    subprocess.run(["bash", "-n"], input=run("completions", "bash").stdout, check=True)
    assert b".SH OPTIONS" in run("man", "plugin", "test").stdout
    assert run("man", "plugin", "tset").returncode == 64
    assert run("man", "--to", tmp_path / "man1").returncode == 0
    names = {path.name for path in (tmp_path / "man1").iterdir()}
    assert {"pipemill.1", "pipemill-cat.1", "pipemill-plugin-test.1"} <= names
