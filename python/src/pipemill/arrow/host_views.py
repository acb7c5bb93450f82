"""The views of strings that the host has written into a batch: arrays only wrap them.

A host writes them once a consumer has requested them. Text was checked: the host writes no views
where a text is not UTF-8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import protocol
from ..errors import ProtocolError
from ..schema import STRINGS

if TYPE_CHECKING:
    from ..batch import Batch

#: Bytes of a view.
VIEW_BYTES = 16


def host_views(batch: Batch) -> dict[int, int]:
    """Where the views of each field of strings begin in the batch's memory, by the field's number.
    Empty where the batch has none: then those of later batches are requested.

    Raises :class:`ProtocolError` where they are outside of the batch.
    """
    fields = [
        number for number, field in enumerate(batch.fields)
        if field.scalar in STRINGS and not field.shape
    ]  # fmt: skip
    if not fields:
        return {}
    if not batch._head[3] & protocol.HAS_VIEWS:
        batch._lease.connection.want_views()
        return {}
    layout = batch._layout
    start = layout.lists_at + 2 * layout.listed * layout.stride
    stride = -(-VIEW_BYTES * layout.records // 64) * 64
    end = start + len(fields) * stride
    if end > layout.bytes:
        raise ProtocolError(
            f"the views of {batch._name()} are said to end at byte {end}, and it has "
            f"{layout.bytes} bytes; {protocol.REMEDY}"
        )
    return {number: start + at * stride for at, number in enumerate(fields)}
