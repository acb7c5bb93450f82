"""The reason why a rank gets no batch: another one has left, has not come, or holds its batches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .errors import ProtocolError
from .status import status_of

if TYPE_CHECKING:
    from .address import Address

#: The name of a rank in HELLO.
_RANK = re.compile(r", rank (\d+) of (\d+)$")
#: Seconds for which a rank may hold a batch before a message names it.
_LONG = 5.0
#: Number of ranks that a message names.
_MAX_NAMES = 8


def client_name(name: str, rank: Mapping[str, int] | None) -> str:
    """The name of a consumer, with its rank."""
    return name if rank is None else f"{name}, rank {rank['rank']} of {rank['world']}"


def why_waiting(address: Address, channel: str, world: int) -> str | None:
    """What the host says about the ranks, for a message. None if it says nothing about them."""
    try:
        ring = status_of(address, channel)["ring"]
        consumers = [(_RANK.search(one["client"]), one) for one in ring["consumers"]]
    except (OSError, ProtocolError, KeyError, TypeError):
        return None
    here: dict[int, Any] = {int(found[1]): one for found, one in consumers if found}
    missing = sorted(set(range(world)) - set(here))
    if len(missing) == world:
        return None
    if missing:
        return (
            f"{_ranks(missing)} of {world} {'is' if len(missing) == 1 else 'are'} not connected: "
            "ended, left the loop early, or not started yet. All ranks take their batches at the "
            "same pace, so the others wait"
        )
    slow = sorted(rank for rank, one in here.items() if one["unacked"] and one["oldest"] > _LONG)
    if slow:
        return (
            f"{_ranks(slow)} of {world} {'holds' if len(slow) == 1 else 'hold'} batches for more "
            f"than {_LONG:g} s, and the others wait"
        )
    return None


def _ranks(ranks: list[int]) -> str:
    names = ", ".join(map(str, ranks[:_MAX_NAMES])) + (", …" if len(ranks) > _MAX_NAMES else "")
    return f"rank {names}" if len(ranks) == 1 else f"ranks {names}"
