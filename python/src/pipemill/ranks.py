"""Which part of the data this process reads, as launchers say it in the environment."""

from __future__ import annotations

import os
import re
from operator import index
from typing import NamedTuple

#: Variables of torchrun (and of what follows it) and of Slurm: rank and world, of all processes;
#: the same on this machine; and what tells two jobs on a machine apart.
_RANKS = (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"))
_LOCAL_RANKS = (("LOCAL_RANK", "LOCAL_WORLD_SIZE"), ("SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"))
_JOB = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT")
_SLURM_JOB = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")


class Node(NamedTuple):
    """This process among those of its machine, and its machine among those of the job."""

    local_rank: int
    local_world: int
    node: int
    nodes: int
    #: Differs between two jobs that run on the machine at once.
    job: str


def shard_of(shard: tuple[int, int] | str | None) -> tuple[int, int] | None:
    """The rank and the number of ranks that ``shard=`` says. "auto": from the launcher; alone,
    where there is none."""
    if shard is None:
        return None
    if shard == "auto":
        return _pair(_RANKS) or (0, 1)
    try:
        rank, world = (index(number) for number in shard)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        expected = 'expected two numbers, (rank, world), or "auto"'
        raise ValueError(f"shard={shard!r}: {expected}") from None
    if not 0 <= rank < world:
        raise ValueError(f"shard={shard!r}: expected a rank from 0 to {world - 1}")
    return rank, world


def node_of(shard: tuple[int, int]) -> Node:
    """Where the process of this rank runs.

    Raises :class:`ValueError` where no launcher says it, or the numbers do not fit each other.
    """
    rank, world = shard
    local = _pair(_LOCAL_RANKS) or ((0, 1) if world == 1 else None)
    if local is None:
        raise ValueError(
            'host="per-node": which process of this machine is this? Expected $LOCAL_RANK and '
            "$LOCAL_WORLD_SIZE, as torchrun sets them, or $SLURM_LOCALID and "
            "$SLURM_STEP_TASKS_PER_NODE; set them, or leave out host="
        )
    local_rank, local_world = local
    if world % local_world or rank % local_world != local_rank:
        raise ValueError(
            f'host="per-node": rank {rank} of {world} is process {local_rank} of {local_world} on '
            "this machine; expected as many processes on each machine, with ranks that follow each "
            "other"
        )
    job = ",".join(os.environ.get(name, "") for name in (*_JOB, *_SLURM_JOB))
    return Node(local_rank, local_world, rank // local_world, world // local_world, job)


def _pair(names: tuple[tuple[str, str], ...]) -> tuple[int, int] | None:
    """The first pair of variables of which both are set."""
    for of_rank, of_world in names:
        rank, world = os.environ.get(of_rank), os.environ.get(of_world)
        if not rank or not world:
            continue
        # Slurm's "4(x2)": 4 on each of 2 machines.
        world = re.sub(r"\(x\d+\)$", "", world)
        if not (rank.isdecimal() and world.isdecimal() and int(rank) < int(world)):
            raise ValueError(
                f"${of_rank} is {rank!r} and ${of_world} is {world!r}; expected a number, and a "
                "larger one"
            )
        return int(rank), int(world)
    return None
