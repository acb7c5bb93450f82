"""What was checked of a stream's last batch. One that is laid out in the same way is not checked
again: to compare the bytes that say so takes a fraction of the time.

Nothing in here holds a batch's memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import protocol
from .protocol import Grant, Head
from .schema import Field

if TYPE_CHECKING:
    from .spans import Spans


class Layout:
    """Where the parts of a batch lie in its memory. All of them are within it."""

    __slots__ = (
        "start", "places", "more", "identity", "bytes", "records", "padding", "payload_at",
        "payload_end", "index_at", "stride", "object_at", "object_end", "identity_at",
        "identity_end", "metadata_at", "metadata_end",
    )  # fmt: skip

    def __init__(self, head: Head, grant: Grant, fields: int) -> None:
        """Raises `ProtocolError` where a part is outside of the batch."""
        header = protocol.check_header(head, grant, fields)
        #: The bytes of the header, and the size of the batch, from which all else here follows.
        self.start, self.places, self.more, self.identity = head[0], head[4], head[7], head[12]
        self.bytes = grant.bytes
        self.records, self.padding = header.records, header.padding
        self.payload_at = header.payload_at
        self.payload_end = header.payload_at + header.payload_bytes
        self.index_at, self.stride = header.index_at, protocol.stride(header.records)
        self.object_at = header.object_at
        self.object_end = header.object_at + header.object_bytes
        self.identity_at = header.identity_at
        self.identity_end = header.identity_at + header.identity_bytes
        self.metadata_at = header.metadata_at
        self.metadata_end = header.metadata_at + header.metadata_bytes


class Checked:
    """A schema, and the layout and spans of the last batch that had it."""

    __slots__ = ("fields", "numbers", "layout", "spans")

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        #: The number of each field.
        self.numbers = {field.name: number for number, field in enumerate(fields)}
        self.layout: Layout | None = None
        #: Those of each field that was asked for.
        self.spans: list[Spans | None] = [None] * len(fields)

    def layout_of(self, head: Head, grant: Grant) -> Layout:
        """Where the parts of a batch with this header lie. Raises `ProtocolError` where it is not
        sound, or not that of the grant."""
        layout = self.layout
        if (
            layout is None
            or head[4] != layout.places
            or head[1] != grant[1]
            or head[2] != grant[4]
            or head[7] != layout.more
            or head[12] != layout.identity
            or head[0] != layout.start
            or grant[2] != layout.bytes
        ):
            layout = self.layout = Layout(head, grant, len(self.fields))
        return layout
