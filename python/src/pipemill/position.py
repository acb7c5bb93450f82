"""The position of a batch in its channel."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from .errors import ProtocolError
from .protocol import HAS_INPUTS, REMEDY, Head, Header, header_of


class Position(NamedTuple):
    """The position of the first record of a batch, from which it can be found again.

    In a mix, `object` has the names of the mixed channels, and `inputs` the places of all of them.
    In a channel with a window of shuffled records, object and place are those of the oldest record
    that had not left the window, and `records` counts in the shuffled order from there.
    """

    #: Number of the epoch, from 0.
    epoch: int
    #: Number of the batch in the channel, from 0.
    batch: int
    #: Number of the object in its epoch on this machine, from 0: after the objects were shuffled
    #: and divided into parts.
    object_number: int
    #: The object's name: a path or a URL.
    object: str
    #: A text that changes when the object's bytes do, such as its entity tag; empty for a FIFO.
    identity: str
    #: Bytes at the object's start that its decoder has to see first; at most `offset`.
    header: int
    #: A byte offset in the (inflated) object from which its decoder can decode again.
    offset: int
    #: Number of records from there to the batch's first record.
    records: int
    #: Number of the batch's first record in its object, from 0.
    first_record: int
    #: In a mix: where each of its channels resumes, as these keys with `input`, the channel's name,
    #: and `ended`, whether it has no more records in this epoch. Otherwise empty.
    inputs: list[dict[str, Any]]


def position_of(head: Head, texts: bytes) -> Position:
    """The position of a batch with this header. `texts`: its object's name, and its identity right
    after it."""
    header = header_of(head)
    name, identity = texts[: header.object_bytes], texts[header.object_bytes :]
    text, inputs = str(identity, "utf-8", "replace"), []
    if header.flags & HAS_INPUTS:
        text, inputs = "", _inputs(header, text)
    return Position(
        epoch=header.epoch,
        batch=header.batch,
        object_number=header.object_number,
        object=str(name, "utf-8", "replace"),
        identity=text,
        header=header.restart_header,
        offset=header.restart_offset,
        records=header.restart_records,
        first_record=header.first_record,
        inputs=inputs,
    )


def _inputs(header: Header, text: str) -> list[dict[str, Any]]:
    """The places of a mix's inputs. Raises `ProtocolError` if the text is no list of them."""
    try:
        inputs = json.loads(text)
    except (ValueError, RecursionError) as error:
        wrong = f"are not JSON: {error}"
    else:
        if isinstance(inputs, list) and all(isinstance(one, dict) for one in inputs):
            return inputs
        wrong = "are no list of objects"
    raise ProtocolError(
        f"the places of the inputs of batch {header.batch} of epoch {header.epoch} {wrong}; "
        f"{REMEDY}"
    )
