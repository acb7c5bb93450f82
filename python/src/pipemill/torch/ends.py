"""Compares the ends of the ranks' passes. A rank that has a batch more than another one waits for
it in its next collective operation. This module raises an error before that.

Ranks that share a host get equally many batches. Ranks with hosts of their own may not, and no host
knows the others. So the ranks use the key-value store of their process group. They call no
collective operation: it would hang if not all ranks of the program read.

A pass has two keys. Each rank adds 1 to `count` before each batch, and `_ENDED` at its end. The sum
that this returns shows whether a rank has ended, and how many batches all have taken: one round
trip for a batch. The first rank that ends writes `first`: itself, and how many batches it has
taken.

A rank raises

1. before a batch, if `first` has fewer batches than this one would make,
2. at its end, if `first` has another number of batches,
3. at its end, if all ranks together have taken more batches than this rank for each of them.

If the ranks' ends are unequal, at least one of them raises, and no rank waits for ever before that,
even if ranks synchronise only at some steps. Let m be the least number of batches of a rank. No
rank waits for ever before step m + 1, so all ranks with m batches reach their ends. A rank with
more that asks for batch m + 1 after the first of these ends raises by 1 (or that end by 2). If all
of them have asked before it, they have taken more than m each at the last of these ends, and the
others have taken m: that end raises by 3.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, NoReturn

import torch.distributed

from ..errors import PipemillError
from ..log import warn_once

#: The number that an end adds to `count`. No pass has as many batches.
_ENDED = 1 << 40
#: Variables that distinguish two runs that use one store.
_RUN = (
    "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
    "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT",
)  # fmt: skip
#: Passes whose keys are kept. No rank is two passes behind the others.
_KEPT = 2
_REMEDY = (
    "The ranks read different parts of the objects, or have different steps=. Give all ranks the "
    'same steps=, objects with equally many batches, or one host: host="per-node", with batch= and '
    'tail="drop" or "pad". Where ranks may end after different steps, say equal_steps=False'
)

#: How many datasets of this process have read the same input.
_made: dict[str, int] = {}


def number_of(what: str) -> int:
    """The number of a dataset among those that read the same input, from 0. It is equal on all
    ranks, because they make the datasets in the same order."""
    number = _made.get(what, 0)
    _made[what] = number + 1
    return number


class Ends:
    """A pass of this rank, and those of the other ranks."""

    def __init__(self, store: Any, name: str, number: int, rank: int, world: int) -> None:
        """`name`: of the dataset, the same on all ranks. `number`: of the pass, from 0."""
        run = "/".join(os.environ.get(word, "") for word in _RUN)
        self._key = f"pipemill/{run}/{name}/{{}}/{{}}"
        self._store: Any = store
        self._number = number
        self._rank, self._world = rank, world
        #: Batches that this rank has taken.
        self._taken = 0
        self._is_over = False
        if rank == 0 and number >= _KEPT:
            for key in ("count", "first"):
                with contextlib.suppress(RuntimeError, NotImplementedError):
                    store.delete_key(self._key.format(number - _KEPT, key))

    def takes_batch(self) -> None:
        """Called before a batch is delivered. Raises :class:`PipemillError` if another rank has
        ended with fewer."""
        if self._is_over:
            return
        self._taken += 1
        if self._added(1) < _ENDED:
            return
        rank, batches, why = self._first_end(None)
        if batches < self._taken:
            self._is_over = True
            ended = f"got an error after step {batches}: {why}" if why else (
                f"has ended that pass after step {batches}"
            )  # fmt: skip
            self._raise(f"is to take step {self._taken} of {self._pass()}, and rank {rank} {ended}")

    def at_end(self, why: str = "") -> None:
        """Called after the last batch. `why`: the error that has ended the pass, if there is one.
        Raises :class:`PipemillError` if another rank has ended with another number of batches, or
        has taken more."""
        if self._is_over:
            return
        self._is_over = True
        rank, batches, other = self._first_end(f"{self._rank} {self._taken} {why[:2000]}")
        total = self._added(_ENDED) % _ENDED
        if why or other:
            return  # a rank that fails reports it itself
        ended = f"has ended {self._pass()} after step {self._taken}, and "
        if batches != self._taken:
            self._raise(f"{ended}rank {rank} after step {batches}")
        if total > self._world * self._taken:
            found = f"other ranks have taken more, {total} steps of {self._world} ranks together"
            if self._world == 2:
                found = f"rank {1 - self._rank} has taken step {total - self._taken}"
            self._raise(ended + found)

    def _added(self, number: int) -> int:
        """Adds this number to `count`. Returns the sum of the numbers of all ranks."""
        found = self._asked("add", "count", number)
        return 0 if found is None else int(found)

    def _first_end(self, own: str | None) -> tuple[int, int, str]:
        """The first end of a rank. `own`: the end of this rank, if it may be the first one."""
        found = self._asked("get", "first") if own is None else (
            self._asked("compare_set", "first", "", own)
        )  # fmt: skip
        if found is None:
            return self._rank, self._taken, ""
        rank, batches, why = bytes(found).decode(errors="replace").split(" ", 2)
        return int(rank), int(batches), why

    def _asked(self, what: str, key: str, *words: Any) -> Any:
        """The answer of the store. None if it does not answer: then it is not asked again."""
        if self._store is None:
            return None
        try:
            return getattr(self._store, what)(self._key.format(self._number, key), *words)
        except (RuntimeError, NotImplementedError) as error:
            self._store = None
            warn_once(
                f"rank {self._rank} of {self._world} can't ask the process group's store whether "
                f"other ranks have ended their pass: {error}. If they end after different steps, "
                "a rank may wait for another one in vain"
            )
            return None

    def _pass(self) -> str:
        return f"pass {self._number}"

    def _raise(self, what: str) -> NoReturn:
        raise PipemillError(
            f"rank {self._rank} of {self._world} {what} (passes from 0 and steps from 1 in this "
            f"run). With unequal ends, ranks wait for each other in vain in their next collective "
            f"operation. {_REMEDY}"
        )


def world() -> int:
    """The number of ranks of the process group of this process; 1 without a group."""
    distributed = torch.distributed
    return int(distributed.get_world_size()) if _has_group() else 1


def ends_of_pass(name: str, number: int) -> Ends | None:
    """For a new pass. None if there is no process group of several ranks, or it has no store."""
    if not _has_group() or world() < 2:
        return None
    store = _store()
    rank = torch.distributed.get_rank()
    return None if store is None else Ends(store, name, number, rank, world())


def _has_group() -> bool:
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def _store() -> Any:
    """The key-value store of the process group."""
    group: Any = torch.distributed.group.WORLD
    with contextlib.suppress(AttributeError, RuntimeError, ValueError):
        return group.get_group_store()
    with contextlib.suppress(AttributeError, ImportError, RuntimeError, ValueError):
        from torch.distributed.distributed_c10d import _get_default_store  # before 2.8

        return _get_default_store()
    return None
