"""Parts of a source's objects, one for each host: with an empty part, all ranks would wait."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from typing import Any

from .errors import SourceError
from .sources import Source

_REMEDY = (
    "give at least as many objects as there are of these, start fewer, or let the processes of a "
    'machine share a host, which deals its batches to them: host="per-node"'
)


def name_of_part(index: int, count: int, of_machines: bool) -> str:
    """The name of a part, for the messages of its reader."""
    return f"{'machine' if of_machines else 'rank'} {index} of {count}"


def check_part(source: Source, table: Mapping[str, Any], index: int, count: int, who: str) -> None:
    """Raises :class:`SourceError` if this part of the source surely has no object. Looks at no
    more names than there are parts, and asks no server: objects behind an address in S3 are not
    counted."""
    if table.get("balance") == "size" or table.get("allow_empty"):
        return
    objects = _few_objects(source, table, count)
    if objects is not None and index >= objects:
        raise SourceError(
            f"source={source!r} has {objects} objects, which are dealt to {count}, so {who} gets "
            f"none, and the others would wait for it in vain; {_REMEDY}",
            channel="open",
        )


def no_records(channel: str, who: str, epoch: int) -> SourceError:
    """The error for a part that has no batch in an epoch."""
    return SourceError(
        f"channel {channel!r}: {who} got no batch of epoch {epoch}, because its part of the "
        f"objects is empty, or has no records, or tail=\"drop\" has left all of them out. The "
        f"others would wait for it in vain; {_REMEDY}",
        channel=channel,
        epoch=epoch,
    )


def _few_objects(source: Source, table: Mapping[str, Any], count: int) -> int | None:
    """The number of objects, if it is less than `count`. Else None, also if it is not known."""
    for kind in ("files", "s3_object"):
        if kind in table:
            names = table[kind]
            return 1 if isinstance(names, str) else len(names)
    if "glob" not in table and "folder" not in table:
        return None
    # To import these takes as long as half of this package.
    import glob

    from .objects import list_objects

    if not isinstance(source, Mapping):
        path = os.fspath(source)  # type: ignore[arg-type]  # lists are above
        names = _files_below(path) if "folder" in table else glob.iglob(path, recursive=True)
        if sum(1 for _ in itertools.islice(names, count)) == count:
            return None
    try:
        # As the host selects them.
        return len(list_objects(source))
    except SourceError:
        return None  # the host reports it


def _files_below(folder: str) -> Iterator[str]:
    for _, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (name for name in files if not name.startswith("."))
