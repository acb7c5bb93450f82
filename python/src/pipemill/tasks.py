"""The common part of a library's tasks: each reads some objects of a source, and all give records
of one schema.

A task alone would learn decoder, header and types from the first of its own objects. So each of
them learns from the first object of the whole source, as :func:`pipemill.open` does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .errors import DecodeError
from .objects import settings_of, share
from .opening import open
from .schema import Field
from .sources import CHANNEL, Source
from .stream import Stream


class TaskReader:
    """Opens some objects of a source, in any process: it can be pickled."""

    #: The fields of all records. Empty if no object has a record.
    fields: tuple[Field, ...]

    def __init__(
        self,
        source: Source,
        names: Sequence[str],
        decoder: str | os.PathLike[str] | None,
        **arguments: Any,
    ) -> None:
        """`names`: all objects of the source. `arguments`: those of :func:`pipemill.open`.

        Raises the errors of :func:`pipemill.open`.
        """
        self._settings = settings_of(source)
        self._first = names[0]
        if decoder is not None and os.fspath(decoder).endswith(".wasm"):
            # Processes on other machines have a folder of their own.
            decoder = os.path.abspath(decoder) if os.path.lexists(decoder) else decoder
        self._decoder = decoder
        self._arguments = arguments
        self.fields = ()
        # A task reads this input again, and puts its errors into quarantine.
        others = {"quarantine": None} if "quarantine" in arguments else {}
        for name in names:
            with self.open([name], **others) as stream:
                self.fields = stream.fields
            if self.fields:
                # The objects before it have no record to learn from.
                self._first = name
                return

    def open(self, names: Sequence[str], **arguments: Any) -> Stream:
        """A stream of these objects. `arguments` are further ones of :func:`pipemill.open`.

        Raises the same errors, and :class:`DecodeError` if the records have other fields than those
        of the whole source.
        """
        source = share(names, self._settings, self._first)
        stream = open(source, self._decoder, **{**self._arguments, **arguments})
        try:
            if self.fields:
                check_fields(stream.fields, self.fields, names[0])
        except BaseException:
            stream.close()
            raise
        return stream


def check_fields(found: tuple[Field, ...], expected: tuple[Field, ...], name: str) -> None:
    """Refuses records with other fields than those that were learned, as the host does. `found` is
    empty if there is no record. `name`: the object."""
    if found and found != expected:
        raise DecodeError(
            f"channel {CHANNEL}: {name}: its records have the fields {_described(found)}; those of "
            f"the objects before it have {_described(expected)}; put objects of different schemas "
            "into channels of their own",
            kind="decode",
            channel=CHANNEL,
            object=name,
        )


def _described(fields: tuple[Field, ...]) -> str:
    return ", ".join(f"{field.name} ({_description(field)})" for field in fields)


def _description(field: Field) -> str:
    """The field in words: everything in which it can differ from another field."""
    words = field.scalar
    if field.shape:
        words += f" {list(field.shape)}"
    if field.logical:
        words += f", {field.logical}"
    if field.categories:
        words += f", {len(field.categories)} categories"
    return words + (", nullable" if field.nullable else "")
