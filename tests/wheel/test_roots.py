"""The wheel in other places than the environment of the tests: each Python that is there, an old and a new Debian, and a
root folder that has nothing else in it, so no C library of any kind."""

import os
import pathlib
import shutil
import sys

import pytest
from wheels import STATIC, USE, clean_python, install, run, write_rows

#: Where Pythons are that are not on the path.
PYENV = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
KEPT = pathlib.Path(os.environ.get("PIPEMILL_TEST_KEPT", "/nowhere"))


def pythons():
    """One Python of each version from 3.9 on, by its version."""
    found = {}
    for minor in range(9, 16):
        name = f"python3.{minor}"
        for path in (sys.executable, *sorted(PYENV.glob(f"3.{minor}.*/bin/{name}")), shutil.which(name)):
            version = path and run(path, "-c", "import sys, venv; print(*sys.version_info[:2])", check=False).stdout
            if version == f"3 {minor}\n":
                found[minor] = path
                break
    return found


def test_each_python_that_is_here(wheels, tmp_path):
    found = pythons()
    assert found
    write_rows(tmp_path)
    for minor, path in found.items():
        folder = tmp_path / f"3.{minor}"
        run(path, "-m", "venv", "--without-pip", folder)
        install(folder / "bin/python", wheels[0])
        done = run(folder / "bin/python", "-W", "error", "-c", USE, cwd=tmp_path, env={"PATH": "/nowhere"})
        assert done.stdout.startswith("499500 True\n") and done.stderr == "", f"Python 3.{minor}"


def in_root(root, *words, **more):
    """Runs a command with another root folder, which has /proc. It sees no other process."""
    inside = 'mount -t proc proc "$0/proc" && cd / && exec chroot "$0" "$@"'
    return run("unshare", "--mount", "--pid", "--fork", "sh", "-c", inside, root, *words, **more)


@pytest.fixture
def may_change_root():
    if os.getuid() != 0 or run("unshare", "--mount", "--pid", "--fork", "true", check=False).returncode != 0:
        pytest.skip("only root may change the root folder, and this is not root, or in a container that forbids it")


@pytest.fixture(params=["bullseye", "testing"])
def debian(request, may_change_root):
    """The root of a Debian with its Python: 11, which has an old C library and Python 3.9, or the newest. It is made once,
    from Debian's packages."""
    if not shutil.which("debootstrap"):
        pytest.skip("debootstrap is missing; on Debian: apt-get install debootstrap")
    root = KEPT / f"debian-{request.param}"
    if not (root / "usr/bin/python3").exists():
        new = KEPT / f"debian-{request.param}.{os.getpid()}"
        mirror, script = "http://deb.debian.org/debian", "/usr/share/debootstrap/scripts/sid"
        run("debootstrap", "--variant=minbase", "--include=python3", request.param, new, mirror, script)
        new.rename(root)
    return root


def test_a_debian_of_another_age(wheels, debian, tmp_path):
    place = debian / "opt/pipemill"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    install(clean_python(tmp_path / "venv"), "--target", place / "libs", wheels[0])
    write_rows(place)
    there = 'cd /opt/pipemill && PYTHONPATH=libs exec python3 -W error -c "$0"'
    done = in_root(debian, "/bin/sh", "-c", there, USE, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"})
    assert done.stdout.splitlines() == ["499500 True", "/opt/pipemill/libs/bin/pipemill"]
    assert done.stderr == ""
    if debian.name == "debian-bullseye":
        which = "import platform, sys; print(sys.version_info[:2], *platform.libc_ver())"
        assert in_root(debian, "/usr/bin/python3", "-c", which).stdout == "(3, 9) glibc 2.31\n"


def test_the_program_needs_no_file_of_its_root(may_change_root, tmp_path):
    (tmp_path / "proc").mkdir()
    shutil.copy(STATIC, tmp_path / "pipemill")
    write_rows(tmp_path)
    rows = in_root(tmp_path, "/pipemill", "cat", "--decoder", "csv", "-o", "header=true", "/rows.csv")
    assert len(rows.stdout.splitlines()) == 1000
