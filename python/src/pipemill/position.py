"""The position of a batch in its channel."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """Where the first record of a batch comes from, so that it can be found again.

    In a mix, `object` has the names of the channels that it mixes, and `identity` the places of all
    of them, as JSON. In a channel with a window of shuffled records, object and place are those of
    the oldest record that had not left the window, and `records` counts in the shuffled order from
    there.
    """

    #: Number of the epoch, from 0.
    epoch: int
    #: Number of the batch in the channel, from 0.
    batch: int
    #: Number of the object in its epoch on this machine, from 0: after they were shuffled and divided into parts.
    object_number: int
    #: The object's name: a path or a URL.
    object: str
    #: What changes when the object's bytes do, such as its entity tag; empty for a FIFO.
    identity: str
    #: Bytes at the object's start that its decoder has to see first; at most `offset`.
    header: int
    #: A byte offset in the (inflated) object from which its decoder can decode again.
    offset: int
    #: Number of records from there to the batch's first record.
    records: int
    #: Number of the batch's first record in its object, from 0.
    first_record: int
