"""The rank of this process, from the environment variables of launchers."""

from __future__ import annotations

import os
import re
from operator import index
from typing import NamedTuple

from .log import say_once, warn_once

#: Variables of launchers: rank and world, of all processes. The host takes the same for its table
#: [rank]. mpirun starts its helpers with srun on some clusters, so the variables of MPI come before
#: those of Slurm.
_RANKS = (
    ("RANK", "WORLD_SIZE"),  # torchrun, and launchers like it
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
#: The same on this machine.
_LOCAL_RANKS = (
    ("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
)
#: srun sets them in each process that it starts. They are not set in the script of a job: there
#: SLURM_PROCID is 0 and SLURM_NTASKS the number of tasks that srun would start.
_STEP = ("SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS")
#: Variables that distinguish two jobs on a machine.
_JOB = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT")
_MPI_JOB = ("OMPI_COMM_WORLD_JOBID", "PMIX_NAMESPACE", "PMI_JOBID", "HYDI_CONTROL_FD")
_SLURM_JOB = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")


class Node(NamedTuple):
    """This process among those of its machine, and its machine among those of the job."""

    local_rank: int
    local_world: int
    node: int
    nodes: int
    #: Differs between two jobs that run on the machine at once.
    job: str


def rank_of(rank: tuple[int, int] | str | None) -> tuple[int, int] | None:
    """The number of this rank and how many there are, as ``rank=`` says. "auto": from the launcher,
    or a single rank without one. The result is logged once."""
    if rank is None:
        return None
    if rank == "auto":
        return _found() or (0, 1)
    try:
        number, world = map(index, rank)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        expected = 'expected two numbers, (rank, world), or "auto"'
        raise ValueError(f"rank={rank!r}: {expected}") from None
    if not 0 <= number < world:
        raise ValueError(f"rank={rank!r}: expected a rank from 0 to {world - 1}")
    return number, world


def _found() -> tuple[int, int] | None:
    """Rank and world from the launcher's variables."""
    pair, names = _pair(_RANKS)
    if pair is not None:
        say_once(f"rank {pair[0]} of {pair[1]}, from {names[0]} and {names[1]}")
    elif not _is_step() and os.environ.get("SLURM_NTASKS", "1") != "1":
        if "SLURM_PROCID" in os.environ:
            warn_once(
                "this process reads all of the data. SLURM_PROCID="
                f"{os.environ['SLURM_PROCID']} and SLURM_NTASKS={os.environ['SLURM_NTASKS']} are "
                "those of the job's script: srun did not start this process, because SLURM_STEP_ID "
                "is not set. To start one process for each task: srun python …"
            )
    return pair


def _is_step() -> bool:
    return any(os.environ.get(name) for name in _STEP)


def node_of(rank_and_world: tuple[int, int]) -> Node:
    """The place of the process of this rank among the machines.

    Raises :class:`ValueError` if no launcher gives it, or the numbers do not fit each other.
    """
    rank, world = rank_and_world
    local = _pair(_LOCAL_RANKS)[0] or ((0, 1) if world == 1 else None)
    if local is None:
        raise ValueError(
            'host="per-node": which process of this machine is this? Expected $LOCAL_RANK and '
            "$LOCAL_WORLD_SIZE, as torchrun sets them, or $SLURM_LOCALID and "
            "$SLURM_STEP_TASKS_PER_NODE, as srun does; set them, or leave out host="
        )
    local_rank, local_world = local
    if world % local_world or rank % local_world != local_rank:
        raise ValueError(
            f'host="per-node": rank {rank} of {world} is process {local_rank} of {local_world} on '
            "this machine; expected as many processes on each machine, with ranks that follow each "
            "other"
        )
    job = ",".join(os.environ.get(name, "") for name in (*_JOB, *_MPI_JOB, *_SLURM_JOB))
    return Node(local_rank, local_world, rank // local_world, world // local_world, job)


def local_cores() -> int | None:
    """This process's part of the cores, where a launcher has started several on this machine.

    None: all of them. A process that may use only some of the cores has been assigned its part.
    """
    try:
        local = _pair(_LOCAL_RANKS)[0]
    except ValueError:
        return None
    cores = len(os.sched_getaffinity(0))
    if local is None or local[1] == 1 or cores < (os.cpu_count() or 1):
        return None
    return max(1, cores // local[1])


def _pair(
    names: tuple[tuple[str, str], ...],
) -> tuple[tuple[int, int] | None, tuple[str, str]]:
    """The values of the first pair of variables that are both set, and their names."""
    for of_rank, of_world in names:
        rank, world = os.environ.get(of_rank), os.environ.get(of_world)
        if not rank or not world or (of_rank.startswith("SLURM_") and not _is_step()):
            continue
        # Slurm's "4(x2)": 4 on each of 2 machines.
        world = re.sub(r"\(x\d+\)$", "", world)
        is_number = all(text.isascii() and text.isdecimal() for text in (rank, world))
        if not (is_number and int(rank) < int(world)):
            raise ValueError(
                f"${of_rank} is {rank!r} and ${of_world} is {world!r}; expected a number, and a "
                "larger one"
            )
        return (int(rank), int(world)), (of_rank, of_world)
    return None, ("", "")
