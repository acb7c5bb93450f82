"""Keeps the checks of a stream's last batch. A batch with the same layout is not checked again: to
compare the bytes of the layout takes a fraction of the time.

Nothing in here holds a batch's memory.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from . import protocol
from .errors import ProtocolError
from .even import Even
from .protocol import Grant, Head
from .schema import Field

if TYPE_CHECKING:
    from .dense_view import DenseView
    from .spans import Spans


class Layout:
    """The places of the parts of a batch in its memory. All of them are within it."""

    __slots__ = (
        "key", "bytes", "header", "records", "padding", "payload_at", "payload_end", "table",
        "entries", "_numbers", "listed", "lists_at", "stride", "texts",
    )  # fmt: skip

    def __init__(self, head: Head, grant: Grant, fields: int, memory: memoryview) -> None:
        """Raises `ProtocolError` if a part is outside of the batch."""
        header = protocol.check_header(head, grant, fields)
        #: The parts of the header and the size of the batch, which determine everything else here.
        self.key, self.bytes = head[::2], grant.bytes
        #: Of the header, only the numbers that are places and sizes are of use.
        self.header = header
        self.records, self.padding = header.records, header.padding
        self.payload_at = header.payload_at
        self.payload_end = header.payload_at + header.payload_bytes
        #: The index begins with two numbers for each field.
        self.table = slice(header.index_at, header.index_at + protocol.ENTRY_BYTES * fields)
        self.entries = memory[self.table].tobytes()
        self._numbers = struct.unpack(f"<{2 * fields}I", self.entries)
        #: The number of fields that have lists.
        self.listed = self._numbers[1::2].count(protocol.LISTED)
        #: The lists of the fields whose values are not even.
        self.lists_at = header.index_at + protocol.up(protocol.ENTRY_BYTES * fields)
        self.stride = protocol.up(4 * header.records)
        end = self.lists_at + 2 * self.listed * self.stride
        if end > grant.bytes:
            raise ProtocolError(
                f"batch {header.batch} of epoch {header.epoch} has an index of {header.records} "
                f"records that ends at byte {end}, and the batch has {grant.bytes} bytes; "
                f"{protocol.REMEDY}"
            )
        #: The object's name with its identity right after it. None if they are not adjacent.
        self.texts: slice | None = None
        name_end = header.object_at + header.object_bytes
        if header.identity_at == name_end or not header.identity_bytes:
            self.texts = slice(header.object_at, name_end + header.identity_bytes)

    def even(self, field: int) -> Even | None:
        """Where the values of a field lie, if they are even; None if the field has lists."""
        first, size = self._numbers[2 * field : 2 * field + 2]
        return None if size == protocol.LISTED else Even(first, size, self.records)

    def list(self, field: int, part: int) -> slice:
        """The offsets of a field that has lists, or its lengths, part 1.

        Raises `ProtocolError` if there are no such lists.
        """
        pair = self._numbers[2 * field]
        if pair >= self.listed:
            raise ProtocolError(
                f"batch {self.header.batch} of epoch {self.header.epoch} says that field {field} "
                f"has the lists of number {pair}, of {self.listed}; {protocol.REMEDY}"
            )
        at = self.lists_at + (2 * pair + part) * self.stride
        return slice(at, at + 4 * self.records)

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
