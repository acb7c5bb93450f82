"""Makes the table `source` of a configuration from the arguments of `pipemill.open`."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any, Union

from .toml_text import literal

Path = Union[str, "os.PathLike[str]"]
Source = Union[Path, Sequence[Path], Mapping[str, Any]]

#: The first bytes of an index.
_INDEX = b"PAR1pipemill"
#: An address in S3 that ends so is that of an index: nothing of it is read to find out.
_INDEX_ENDING = ".index"
#: Name of the channel in messages and states, if the source is no FIFO.
CHANNEL = "open"


def is_address(name: str) -> bool:
    """Whether it is an address in S3, and no path."""
    return name.startswith("s3://")


def source_table(source: Source) -> tuple[str, dict[str, Any]]:
    """The name of the channel, and the table `source` of the configuration."""
    if isinstance(source, Mapping):
        own = [key for key in ("epochs", "part") if key in source]
        if own:
            raise ValueError(f"source= has {own[0]!r}; say it as epochs= or rank=")
        return CHANNEL, dict(source)
    if not isinstance(source, (str, os.PathLike)):
        if not isinstance(source, Sequence) or isinstance(source, (bytes, bytearray)):
            raise TypeError(
                f"source={source!r}: expected a path, an address, a list of these, or a dict"
            )
        return CHANNEL, _several([os.fspath(one) for one in source])
    path = os.fspath(source)
    if is_address(path):
        kind = "s3_object" if "?versionId=" in path else "s3"
        return CHANNEL, {"index" if path.endswith(_INDEX_ENDING) else kind: literal(path)}
    if os.path.isdir(path):
        return CHANNEL, {"folder": literal(path)}
    if not os.path.lexists(path):
        import glob

        if any(map(_is_fifo, glob.glob(glob.escape(path) + "_[0-9]*"))):
            return os.path.basename(path), {"fifo": literal(os.path.dirname(path) or ".")}
        if any(wildcard in path for wildcard in "*?["):
            return CHANNEL, {"glob": literal(path)}
    return CHANNEL, {"index" if _is_index(path) else "file": literal(path)}


def _several(paths: list[str]) -> dict[str, Any]:
    if not paths:
        raise ValueError("source=[]: expected at least one file or address")
    in_s3 = [is_address(path) for path in paths]
    if not any(in_s3):
        folders = [path for path in paths if os.path.isdir(path)]
        if folders:
            raise ValueError(
                f"source= is a list with the folder {folders[0]!r}; a list has files. Open one "
                "folder or pattern instead"
            )
        return {"files": [literal(path) for path in paths]}
    prefixes = [path.endswith("/") for path in paths]
    if not all(in_s3) or any(prefixes) != all(prefixes):
        raise ValueError(
            "source= is a list of different kinds; expected files only, addresses of objects in S3 "
            "only, or addresses in S3 that end with a / only"
        )
    return {"s3" if all(prefixes) else "s3_object": [literal(path) for path in paths]}


def _is_index(path: str) -> bool:
    """Whether `pipemill index` has made the file."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with open(path, "rb") as file:
            return file.read(len(_INDEX)) == _INDEX
    except OSError:
        return False  # the host says what is wrong with it


def _is_fifo(path: str) -> bool:
    return stat.S_ISFIFO(os.stat(path).st_mode)
