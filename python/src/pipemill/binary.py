"""Finds the program ``pipemill``, the host, which the wheel contains."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from .errors import BinaryNotFound
from .version import __version__

NAME = "pipemill"


def find_binary() -> str:
    """The path of the program ``pipemill``: the one that ``$PIPEMILL`` names; else the one that was
    installed with this package; else the first on ``$PATH``.

    Raises :class:`BinaryNotFound`. Its text says which places were searched, and how to get it.
    """
    import shutil  # as long to import as half of this package

    named = os.environ.get("PIPEMILL")
    if named:
        found = named if _is_program(named) else shutil.which(named)
        if found is None:
            raise BinaryNotFound(
                f"$PIPEMILL is {named!r}, which is no program; correct it, or unset it to use the "
                "program that was installed with this package"
            )
        return found
    looked: list[str] = []
    for folder in _script_folders():
        path = os.path.join(folder, NAME)
        if _is_program(path):
            return path
        if folder not in looked:
            looked.append(folder)
    on_path = shutil.which(NAME)
    if on_path is not None and not _is_python(on_path):
        return on_path
    raise BinaryNotFound(
        f"the program `{NAME}` is missing: this is a pipemill {__version__} without it. It is not "
        f"in {', '.join(looked)}, nor on $PATH. The wheels for Linux on x86_64 have it: "
        f"`pip install --force-reinstall --only-binary :all: pipemill=={__version__}`. Elsewhere, "
        "build it (`make static` in pipemill's repository) and put it on $PATH, or name it in "
        "$PIPEMILL"
    )


def _script_folders() -> Iterator[str]:
    """The folders into which an installer puts the scripts of this package, the likeliest first."""
    import sysconfig

    # Of this environment, and of the environment that it is based on.
    yield sysconfig.get_path("scripts")
    yield sysconfig.get_path("scripts", vars={"base": sys.base_prefix})
    package = os.path.dirname(os.path.abspath(__file__))
    site = os.path.dirname(package)
    # `pip install --prefix` and overlays such as those of `uv run --with` and of builds:
    # PREFIX/lib/python3.X/site-packages/pipemill.
    prefix = os.path.dirname(os.path.dirname(os.path.dirname(site)))
    yield os.path.join(prefix, "bin")
    # `pip install --target DIR`: DIR/pipemill and DIR/bin.
    yield os.path.join(site, "bin")
    # `pip install --user`.
    yield sysconfig.get_path("scripts", scheme="posix_user")


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _is_python(path: str) -> bool:
    """Whether this is a script of Python: a wrapper that would only search for the program
    again."""
    with open(path, "rb") as file:
        head = file.read(128)
    return head.startswith(b"#!") and b"python" in head.split(b"\n", 1)[0]
