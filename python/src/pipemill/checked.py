"""Keeps the checks of a stream's last batch. A batch with the same layout is not checked again: to
compare the bytes of the layout takes a fraction of the time.

Nothing in here holds a batch's memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import protocol
from .protocol import Grant, Head
from .schema import Field

if TYPE_CHECKING:
    from .dense_view import DenseView
    from .spans import Spans


class Layout:
    """The places of the parts of a batch in its memory. All of them are within it."""

    __slots__ = (
        "key", "bytes", "header", "records", "padding", "payload_at", "payload_end", "index_at",
        "stride", "texts",
    )  # fmt: skip

    def __init__(self, head: Head, grant: Grant, fields: int) -> None:
        """Raises `ProtocolError` if a part is outside of the batch."""
        header = protocol.check_header(head, grant, fields)
        #: The parts of the header and the size of the batch, which determine everything else here.
        self.key, self.bytes = head[::2], grant.bytes
        #: Of the header, only the numbers that are places and sizes are of use.
        self.header = header
        self.records, self.padding = header.records, header.padding
        self.payload_at, self.index_at = header.payload_at, header.index_at
        self.payload_end = header.payload_at + header.payload_bytes
        self.stride = protocol.stride(header.records)
        #: The object's name with its identity right after it. None if they are not adjacent.
        self.texts: slice | None = None
        name_end = header.object_at + header.object_bytes
        if header.identity_at == name_end or not header.identity_bytes:
            self.texts = slice(header.object_at, name_end + header.identity_bytes)

    def object(self) -> slice:
        """The object's name."""
        return slice(self.header.object_at, self.header.object_at + self.header.object_bytes)

    def metadata(self) -> slice:
        """The facts about the object."""
        at = self.header.metadata_at
        return slice(at, at + self.header.metadata_bytes)

    def texts_of(self, memory: memoryview) -> bytes:
        """The object's name, and its identity right after it."""
        if self.texts is not None:
            return memory[self.texts].tobytes()
        at = self.header.identity_at
        return b"".join((memory[self.object()], memory[at : at + self.header.identity_bytes]))


class Checked:
    """A schema, and the layout and spans of the last batch that had it."""

    __slots__ = ("fields", "numbers", "layout", "spans", "dense", "whole")

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        #: The number of each field.
        self.numbers = {field.name: number for number, field in enumerate(fields)}
        #: Of the last batch. `Batch` checks whether another one has the same.
        self.layout: Layout | None = None
        #: The spans of each field that was requested.
        self.spans: list[Spans | None] = [None] * len(fields)
        #: How the arrays of `Batch.dense` and of `Batch.column` are made, by the field's name.
        self.dense: dict[str, DenseView] = {}
        self.whole: dict[str, DenseView] = {}
