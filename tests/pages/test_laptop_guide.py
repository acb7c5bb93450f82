"""docs/pipe-mode-on-your-laptop.md, word for word: its files are written, its commands run, its output compared."""

import os
import pathlib
import signal
import subprocess

import pages
import pytest
from e2e import PATIENCE, PIPEMILL

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "pipe-mode-on-your-laptop.md"
SERVER = os.environ.get("PIPEMILL_S3_SERVER")
BUCKET = "my-bucket"

# Uploads go into the folder that the server shows as a bucket.
AWS = """#!/bin/bash
[[ $# = 5 && "$1 $2 $3" = "s3 cp --recursive" && $5 = s3://*/ ]] || { echo "aws: unknown: $*" >&2; exit 64; }
mkdir -p "$BUCKETS/${5#s3://}" && cp -r "$4"/. "$BUCKETS/${5#s3://}"
"""


BLOCKS = pages.blocks(GUIDE.read_text())


def script(folder):
    """One script of all commands, so that exported variables stay; each command's output goes to a
    file of its own.
    """
    lines = ["set -eu"]
    for number, (file, language, text) in enumerate(BLOCKS):
        if file is not None:
            path = folder / f".block-{number}"
            path.write_text(text)
            lines.append(f"cp {path} {file}")
        elif language == "sh":
            lines.append(f"exec >{folder}/.output-{number} 2>&1\n{text}")
        else:
            assert language == "text", f"a block of {language} without a file's name before it"
    return "\n".join(lines)


@pytest.fixture
def endpoint(tmp_path):
    if SERVER is None:
        pytest.skip("set PIPEMILL_S3_SERVER to the binary s3-server of tests/support/s3")
    (tmp_path / "buckets" / BUCKET).mkdir(parents=True)
    keys = ["--access-key", "guide", "--secret-key", "guides-secret"]
    server = subprocess.Popen(
        [SERVER, *keys, tmp_path / "buckets"], stdout=subprocess.PIPE, text=True
    )
    yield "http://" + server.stdout.readline().split()[-1]
    server.kill()
    server.communicate()


@pytest.fixture
def environment(tmp_path, endpoint):
    bin = tmp_path / "bin"
    bin.mkdir()
    pages.program(bin / "aws", AWS)
    pages.program(bin / "python", f'#!/bin/sh\nexec "{pages.PYTHON}" "$@"\n')
    pages.program(bin / "pipemill", f'#!/bin/sh\nexec "{PIPEMILL}" "$@"\n')
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    # Otherwise a line of output is written in two pieces, and the host's log comes between them.
    kept.pop("PYTHONUNBUFFERED", None)
    return kept | {
        "PATH": f"{bin}:{os.environ['PATH']}",
        "BUCKETS": str(tmp_path / "buckets"),
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "guide",
        "AWS_SECRET_ACCESS_KEY": "guides-secret",
        "AWS_EC2_METADATA_DISABLED": "true",
        "HOME": str(tmp_path),
    }


def test_the_guide_does_what_it_says(tmp_path, environment):
    folder = tmp_path / "guide"
    folder.mkdir()
    # A session of its own, so that processes that a failed command leaves running end too.
    bash = subprocess.Popen(
        ["bash", "-c", script(folder)], cwd=folder, env=environment, start_new_session=True
    )
    try:
        code = bash.wait(timeout=PATIENCE)
    finally:
        try:
            os.killpg(bash.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    outputs = sorted(folder.glob(".output-*"), key=lambda path: int(path.name[8:]))
    said = "\n".join(f"== {path.name}\n{path.read_text()}" for path in outputs)
    assert code == 0, said
    assert list((folder / "input" / "data").iterdir()) == [], said
    checked = 0
    for number, (_, language, text) in enumerate(BLOCKS):
        output = folder / f".output-{number - 1}"
        if language == "text" and output.exists():
            checked += 1
            there = output.read_text().splitlines()
            for line in text.splitlines():
                assert line in there, f"{line}\nis not in\n{said}"
    assert checked >= 5


def test_its_configurations_have_nothing_wrong(tmp_path):
    """`run.toml` is checked as the guide has it; `feed.toml` was run above, because it has no
    decoders.
    """
    texts = [text for file, _, text in BLOCKS if file == "run.toml"]
    config = tmp_path / "run.toml"
    config.write_text(texts[0])
    check = subprocess.run([PIPEMILL, "config", "check", config], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr
