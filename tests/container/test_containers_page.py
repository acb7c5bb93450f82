"""docs/containers.md: its files and commands, as they stand there."""

import os
import re
import shlex
import subprocess

import pytest
from podman import BASE, KEPT, PATIENCE, ROOT, podman

PAGE = ROOT / "docs/containers.md"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


@pytest.fixture
def shell(images, folder):
    """Runs a block in a folder with the page's files; `podman` there has what a machine without a network needs."""
    toml, script, containerfile = blocks("toml"), blocks("python"), blocks("dockerfile")
    (folder / "pipemill.toml").write_text(toml[0])
    (folder / "train.py").write_text(script[0])
    (folder / "Containerfile").write_text(containerfile[0])
    (folder / "data").mkdir()
    (folder / "data/lines").write_text("a\nb\nc\n")
    os.symlink(ROOT / "deploy", folder / "deploy")
    os.symlink(ROOT / "python", folder / "python")
    podman("tag", BASE, "localhost/my-python")
    store = f"--root {shlex.quote(str(KEPT / 'storage'))} --runroot {shlex.quote(str(KEPT / 'run'))}"
    built = shlex.quote(f"build={KEPT / 'built'}")
    (folder / "podman").write_text(
        "#!/bin/sh\nverb=$1; shift\n"
        f"case $verb in build) set -- -q --network none --pull=never --build-context {built} \"$@\" ;;\n"
        "run) set -- --runtime runc --network none --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 \"$@\" ;;\n"
        f'esac\nexec {shlex.quote(_which("podman"))} {store} "$verb" "$@"\n'
    )
    (folder / "podman").chmod(0o755)

    def run(script, cwd=folder):
        env = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")
        done = subprocess.run(
            ["bash", "-euc", script], cwd=cwd, env=env, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def _which(program):
    return subprocess.run(["which", program], capture_output=True, text=True).stdout.strip()


def test_every_block_of_the_page(shell):
    deploy, own, left_open, sagemaker = blocks("sh")
    shell(deploy, cwd=ROOT)
    for block in [own, left_open, sagemaker]:
        assert "records: 3\n" in shell(block), block


def test_the_entrypoint_for_sagemaker_is_the_one_that_is_tried():
    entrypoint = blocks("dockerfile")[1].removeprefix("ENTRYPOINT ").strip()
    assert f"--entrypoint '{entrypoint}'" in blocks("sh")[-1]
