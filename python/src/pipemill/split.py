"""Divides record numbers into parts, by a hash of each number or of a field's value."""

from __future__ import annotations

import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from .protocol import ABSENT

if TYPE_CHECKING:
    from .batch import Batch

_MASK = (1 << 64) - 1
#: Numbers that are divided at a time.
_AT_ONCE = 1 << 16


def check_split(shares: Sequence[float], seed: int) -> list[float]:
    """The shares.

    Raises :class:`ValueError` if they are no parts of 1.
    """
    shares = list(map(float, shares))
    if not shares or min(shares) < 0 or not abs(sum(shares) - 1) < 1e-6:
        raise ValueError(f"shares {shares}: expected numbers from 0 on whose sum is 1")
    if not 0 <= seed <= _MASK:
        raise ValueError(f"seed={seed}: expected a whole number from 0 to {_MASK}")
    return shares


def part_of_each(
    numbers: Sequence[int],
    shares: Sequence[float],
    seed: int,
    hashes: Sequence[int] | None = None,
) -> list[array.array[int]]:
    """The numbers of each part, in their order. A record's part follows from its one of `hashes`,
    or from its number. The arguments were checked."""
    # No hash is beyond the largest one, with which the last part ends.
    ends = [end for end in (round(end * 2.0**64) for end in accumulate(shares[:-1])) if end <= _MASK]
    parts: list[array.array[int]] = [array.array("Q") for _ in shares]
    for start in range(0, len(numbers), _AT_ONCE):
        some = numbers[start : start + _AT_ONCE]
        by = some if hashes is None else hashes[start : start + _AT_ONCE]
        for number, part in zip(some, _parts_of(by, ends, _mixed(seed))):
            parts[part].append(number)
    return parts


def hashes_of(batch: Batch) -> Iterator[int]:
    """A hash of the value of each record's only field: of its bytes as they lie in the batch, or of
    a category's text, by BLAKE2b with 8 bytes. An absent value counts as one without bytes."""
    from hashlib import blake2b

    def hash_of(value: bytes | memoryview) -> int:
        return int.from_bytes(blake2b(value, digest_size=8).digest(), "little")

    [field], column = batch.fields, batch._column(0)
    of_category = [hash_of(name.encode()) for name in field.categories or ()]
    starts, sizes = column.spans.rows()
    payload = batch.payload
    for start, size in zip(starts, sizes):
        if start == ABSENT:
            yield hash_of(b"")
        elif of_category:
            yield of_category[int.from_bytes(payload[start : start + size], "little")]
        else:
            yield hash_of(payload[start : start + size])


def _parts_of(numbers: Sequence[int], ends: list[int], seed: int) -> Iterable[int]:
    """The part of each number: how many ends its hash is not below."""
    try:
        import numpy
    except ImportError:
        return [sum(_mixed(seed ^ number) >= end for end in ends) for number in numbers]
    value: Any = numpy.fromiter(numbers, numpy.uint64, len(numbers)) ^ numpy.uint64(seed)
    value += numpy.uint64(_STEP)
    for shift, factor in _ROUNDS:
        value = (value ^ (value >> numpy.uint64(shift))) * numpy.uint64(factor)
    value ^= value >> numpy.uint64(_LAST)
    found: Any = numpy.searchsorted(numpy.array(ends, numpy.uint64), value, "right")
    parts: list[int] = found.tolist()
    return parts


#: The numbers of SplitMix64.
_STEP = 0x9E3779B97F4A7C15
_ROUNDS = (30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)
_LAST = 31


def _mixed(value: int) -> int:
    """The output of SplitMix64 for this state."""
    value = (value + _STEP) & _MASK
    for shift, factor in _ROUNDS:
        value = ((value ^ (value >> shift)) * factor) & _MASK
    return value ^ (value >> _LAST)
