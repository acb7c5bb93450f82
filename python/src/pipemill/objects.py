"""The objects of a source, as ``pipemill ls`` lists them, for libraries that distribute them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .binary import find_binary
from .errors import SourceError
from .sources import Source, source_table
from .toml_text import literal, toml

#: The keys of a source that determine its objects.
_OBJECTS = (
    "file", "files", "glob", "folder", "hidden", "s3", "s3_object", "manifest", "allow_empty",
)  # fmt: skip


class Object(NamedTuple):
    """A file, or an object in S3."""

    #: Its absolute path or its address, which :func:`pipemill.open` takes in any process.
    name: str
    #: Its size in bytes, as it is stored.
    size: int


def list_objects(source: Source) -> list[Object]:
    """All objects that :func:`pipemill.open` would read from this source, in its order.

    Raises :class:`SourceError` with the host's text if they can't be listed, or if a name is not
    valid text. Raises :class:`ValueError` if the source has no objects.
    """
    name, table = source_table(source)
    for kind in ("augmented_manifest", "mix", "fifo", "stdin"):
        if kind in table:
            raise ValueError(
                f"source={source!r}: a source of kind {kind} can't be dealt to workers; give "
                "files, a folder, a pattern, or addresses in S3, or read it with pipemill.open()"
            )
    config = toml({"channel": [{"name": name, "source": table, "decoder": "lines"}]})
    command = [find_binary(), "ls", "--config", "/dev/stdin", "--channel", name]
    listed = subprocess.run(command, input=config.encode(), capture_output=True, check=False)
    if listed.returncode != 0:
        raise _error(listed.stderr.decode(errors="replace").strip())
    objects = []
    for line in listed.stdout.decode().splitlines():
        size, _, found = line.partition("\t")
        in_s3 = found.startswith("s3://")
        if "\\" in found or not (in_s3 or os.path.lexists(found)):
            raise _error(
                f"the object {found} has a name with characters that are not visible or no UTF-8; "
                "rename it, or read the source with pipemill.open()"
            )
        objects.append(Object(found if in_s3 else os.path.abspath(found), int(size)))
    return objects


def settings_of(source: Source) -> dict[str, Any]:
    """The source's settings apart from its objects, such as ``anonymous`` and ``endpoint``."""
    if not isinstance(source, Mapping):
        return {}
    return {name: value for name, value in source.items() if name not in _OBJECTS}


def share(names: Sequence[str], settings: Mapping[str, Any], first: str) -> Source:
    """The source of these objects, whose names come from :func:`list_objects`. Decoder and fields
    are learned from the object `first`: the first one of the whole source."""
    kind = "s3_object" if names[0].startswith("s3://") else "files"
    objects = [literal(name) for name in names]
    return {"learn_from": literal(first), **settings, kind: objects}


def _error(text: str) -> SourceError:
    return SourceError(text, kind="source", channel="ls")


def deal(objects: list[Object], parts: int) -> list[list[Object]]:
    """The objects in at most `parts` parts of about the same size, none of which is empty. The same
    objects are always dealt in the same way, and keep their order in each part."""
    count = min(parts, len(objects))
    sizes = [0] * count
    shares: list[list[int]] = [[] for _ in range(count)]
    for number in sorted(range(len(objects)), key=lambda number: -objects[number].size):
        least = sizes.index(min(sizes))
        sizes[least] += max(1, objects[number].size)
        shares[least].append(number)
    return [[objects[number] for number in sorted(share)] for share in shares]
