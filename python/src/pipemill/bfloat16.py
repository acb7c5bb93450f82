"""Single numbers of bfloat16, which is the upper half of a float32. Python's struct lacks it."""

from __future__ import annotations

import math
import struct
from typing import Any

_BITS = struct.Struct("<I")
_FLOAT = struct.Struct("<f")


def to_float(bits: int) -> float:
    """The number whose 16 bits these are. The conversion is exact."""
    return float(_FLOAT.unpack(_BITS.pack(bits << 16))[0])


def to_bits(number: Any) -> int:
    """The 16 bits of the bfloat16 nearest to `number`, which is rounded to float32 before. Ties go
    to the even one.

    Raises :class:`OverflowError` if the number is finite and too large for a float32.
    """
    if math.isnan(number):
        return 0x7FC0
    bits: int = _BITS.unpack(_FLOAT.pack(number))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
