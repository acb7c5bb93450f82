"""The objects of a source, as ``pipemill ls`` lists them, for libraries that deal them to workers."""

from __future__ import annotations

import os
import subprocess
from typing import NamedTuple

from .binary import find_binary
from .errors import SourceError
from .sources import Source, source_table
from .toml_text import toml


class Object(NamedTuple):
    """A file, or an object in S3."""

    #: Its absolute path or its address, which :func:`pipemill.open` takes in any process.
    name: str
    #: Its size in bytes, as it is stored.
    size: int


def list_objects(source: Source) -> list[Object]:
    """All objects that :func:`pipemill.open` would read from this source, in its order.

    Raises :class:`SourceError` with the host's text where they can't be listed, and where one has a
    name that only its bytes tell.
    """
    name, table = source_table(source)
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
