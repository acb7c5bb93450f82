"""The wheels: their metadata is true, and an installed one needs nothing else."""

import os
import pathlib
import re
import struct
import sys
import zipfile

import pytest
from wheels import ROOT, STATIC, TOOLS, USE, clean_python, install, run, write_rows


@pytest.fixture(scope="module", params=["venv", "target"])
def installed(request, wheels, tmp_path_factory):
    """The Python of an environment with the package, and the variables that it needs."""
    folder = tmp_path_factory.mktemp(request.param)
    python, variables, where = clean_python(folder / "venv"), {}, []
    if request.param == "target":
        variables, where = {"PYTHONPATH": str(folder / "libs")}, ["--target", folder / "libs"]
    install(python, *where, wheels[0])
    return python, variables


def test_the_wheels_are_sound_and_their_platforms_true(wheels):
    run(TOOLS / "twine", "check", "--strict", *wheels)
    # It needs no platform newer than the oldest one of its name.
    said = run(TOOLS / "auditwheel", "show", wheels[0]).stdout
    oldest = re.search(r'platform tag:\s+"manylinux_2_(\d+)_', said)
    assert int(oldest[1]) <= 17 and "requires no external shared libraries" in said
    assert "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64" in wheels[0].name or os.uname().machine != "x86_64"
    whole, plain = (zipfile.ZipFile(wheel).namelist() for wheel in wheels)
    extra = [name for name in whole if name not in plain]
    assert extra == ["pipemill-0.1.0.data/scripts/pipemill"]
    assert {"pipemill/py.typed", "pipemill/__main__.py", "pipemill/opening.py"} < set(plain)


def test_an_installed_wheel_opens_a_file(installed, tmp_path):
    python, variables = installed
    write_rows(tmp_path)
    done = run(python, "-W", "error", "-c", USE, cwd=tmp_path, env=variables | {"PATH": "/nowhere"})
    total, program = done.stdout.split("\n", 1)
    assert total == "499500 True" and done.stderr == ""
    assert pathlib.Path(program.strip()).is_relative_to(python.parents[2])
    version = run(python, "-m", "pipemill", "--version", cwd=tmp_path, env=variables).stdout
    assert version.startswith("pipemill 0.1.0")
    refused = run(python, "-m", "pipemill", "cat", "no.csv", check=False, cwd=tmp_path, env=variables)
    assert refused.returncode == 66 and "no.csv: can't open it" in refused.stderr


def test_the_wheel_without_the_program_says_what_is_missing(wheels, tmp_path):
    python = clean_python(tmp_path / "venv")
    install(python, wheels[1])
    nothing = {"PATH": "/nowhere"}
    done = run(python, "-m", "pipemill", "--version", check=False, env=nothing)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "the program `pipemill` is missing: this is a pipemill 0.1.0 without it" in done.stderr
    # With a program from another place it works.
    done = run(python, "-m", "pipemill", "--version", env=nothing | {"PIPEMILL": STATIC})
    assert done.stdout.startswith("pipemill 0.1.0")


def test_a_program_that_does_not_run_everywhere_is_refused(tmp_path):
    build = [TOOLS / "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    for program, message in ((sys.executable, "is linked dynamically"), (__file__, "expected a program")):
        done = run(*build, cwd=ROOT / "python", check=False, env={"PIPEMILL_WHEEL_BINARY": os.path.realpath(program)})
        assert done.returncode != 0 and message in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_program_for_arm_makes_a_wheel_for_arm(tmp_path):
    # The beginning of a static program: a header, and no segments.
    header = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 183, 1, 0, 64, 0, 0, 64, 56, 0, 0, 0, 0)
    (tmp_path / "program").write_bytes(header)
    build = [TOOLS / "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    run(*build, cwd=ROOT / "python", env={"PIPEMILL_WHEEL_BINARY": str(tmp_path / "program")})
    [wheel] = tmp_path.glob("*.whl")
    assert wheel.name.endswith("py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64.whl")
