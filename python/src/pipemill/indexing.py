"""Makes the index of a source, as the command ``pipemill index`` does."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from .binary import find_binary
from .errors import DecodeError, HostError, SourceError
from .opening import add_fields_of, given_options

#: The error for each exit status of the command; any other one is a `HostError`.
_BY_STATUS = {65: DecodeError, 66: SourceError}

_Path = str | os.PathLike[str]


def index(
    source: _Path | Sequence[_Path] = (),
    out: _Path | None = None,
    decoder: _Path | None = None,
    *,
    trust: str | Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    fields: str | Sequence[str] | None = None,
    add_fields: str | Sequence[str] | None = None,
    update: _Path | None = None,
    part: tuple[int, int] | None = None,
    objects_only: bool = False,
    by_plan: bool = False,
    inventory: str | None = None,
    progress: _Path | None = None,
    workers: int | None = None,
    on_error: str = "fail",
    max_errors: int | None = None,
    max_record: str | None = None,
    distance: str | None = None,
) -> None:
    """Reads all objects of a source once, and writes their index. ::

        pipemill.index("train.csv", "train.index", options={"types": "auto"})
        with pipemill.open("train.index", batch=64) as stream:
            print(stream.records)

    :param source: a file, a folder, an address in S3, or a list of them.
    :param out: the file of the index, or its address in S3. An older one stays until the new one
        is complete.
    :param decoder: as for :func:`open`; so is `trust`.
    :param options: the decoder's options.
    :param fields: short for ``options={"fields": …}``.
    :param add_fields: fields that each record gets wherever the index is read and no other ones are
        named: ``["date=utf8"]``, as for :func:`open`.
    :param update: an index whose sources are listed again: only objects that are new or have
        changed are read. Without `out`, it is replaced.
    :param part: ``(number, count)``: read one part of the objects, so that several machines share
        the work. ``pipemill index merge`` makes one index of all parts.
    :param objects_only: list the objects alone, and read none of them: the index knows no records.
    :param by_plan: count the records of objects by the plans that their decoder makes of them, and
        read none of their records. Objects whose plans don't say how many records they have are
        read.
    :param inventory: the address of the ``manifest.json`` of an S3 Inventory, from which prefixes
        are listed.
    :param progress: the file in which what was read is saved every so often. If this call is
        killed, the same call goes on from there. By default it is beside `out`, if that is a file.
    :param workers: threads that decode; ``None``: as many as this machine has cores for.
    :param on_error: "fail", or "skip" to skip what can't be decoded, and count it.
    :param max_errors: with "skip": stop after errors in more places than this; ``None``: 1000.
    :param max_record: the largest record, such as ``"64MiB"``, which is the default.
    :param distance: the least distance of two places in an object at which decoding can begin;
        ``None``: ``"4MiB"``.

    Raises :class:`SourceError` if a source does not exist, :class:`DecodeError` if something can't
    be decoded, and :class:`HostError` for everything else.
    """
    import subprocess  # as long to import as half of this package

    if on_error not in ("fail", "skip"):
        raise ValueError(f"on_error={on_error!r}: expected \"fail\" or \"skip\"")
    sources = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    words = [find_binary(), "index"]
    chosen: dict[str, Any] = {
        "out": out, "decoder": decoder, "update": update, "workers": workers,
        "progress": progress, "inventory": inventory,
        "add-fields": ",".join(add_fields_of(add_fields)) or None,
        "part": None if part is None else f"{part[0]}/{part[1]}",
        "max-errors": max_errors, "max-record": max_record, "distance": distance,
    }  # fmt: skip
    for name, value in chosen.items():
        if value is not None:
            words.append(f"--{name}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
    for digest in [trust] if isinstance(trust, str) else trust or ():
        words.append(f"--trust={digest}")
    for name, value in given_options(options, fields).items():
        words.append(f"--option={name}={str(value).lower() if isinstance(value, bool) else value}")
    if on_error == "skip":
        words.append("--skip-errors")
    if objects_only:
        words.append("--objects-only")
    if by_plan:
        words.append("--by-plan")
    words += ["--", *(os.fspath(one) for one in sources)]
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ended.returncode:
        text = ended.stderr.strip() or f"pipemill index ended with exit status {ended.returncode}"
        raise _BY_STATUS.get(ended.returncode, HostError)(text.removeprefix("pipemill: "))
