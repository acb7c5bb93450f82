"""No committed file names a folder of the machine that made it. Compilers write such paths into
what they build.
"""

import gzip
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
#: Where cargo unpacks libraries. No text needs to name such a folder.
UNPACKED = re.compile(rb"/(?:registry/src|git/checkouts)/[\w.-]")
#: Folders of a person or of a build machine. A document may mention them, a binary may not.
MACHINE = re.compile(rb"/(?:root|home|work|build|builds|Users|runner|tmp|workspace|mnt|site-packages)/[\w.]")


def committed():
    """The files that git knows. Without git, as in an unpacked archive: all files except those of
    builds.
    """
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        paths = [ROOT / name for name in listed.decode().split("\0") if name]
    else:
        paths = [path for path in ROOT.rglob("*") if "target" not in path.relative_to(ROOT).parts]
    return [path for path in paths if path.is_file()]


def is_binary(data):
    try:
        return "\0" in data.decode()
    except UnicodeDecodeError:
        return True


def paths_in(data):
    """The paths of a machine in a file of these bytes."""
    patterns = [UNPACKED, MACHINE] if is_binary(data) else [UNPACKED]
    return sorted({data[max(0, found.start() - 20) : found.end() + 60] for p in patterns for found in p.finditer(data)})


def test_no_file_names_the_machine_that_made_it():
    files = committed()
    assert len(files) > 1000
    named = {}
    for path in files:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        if found := paths_in(data):
            named[path.relative_to(ROOT).as_posix()] = found
    assert named == {}, "build it with `--remap-path-prefix`, or replace the path by another one of its length"


@pytest.mark.parametrize(
    "data, named",
    [
        (b"\0asm /root/.cargo/registry/" + b"src/index/wit-bindgen/lib.rs", True),
        (b"\0asm /work/tmp/build.rs", True),
        (b"\x80 /home/someone/project/a.c", True),
        (b"\0asm /rustc/59807616/library/std/src/panicking.rs", False),
        (b"\0asm plugins/sdk/src/guest.rs", False),
        (b"A document may name /home/user/data.", False),
        (b"A text names ~/.cargo/registry/" + b"src/index/a-crate-1.0.0", True),
    ],
)
def test_a_path_is_found(data, named):
    assert bool(paths_in(data)) == named
