"""A dataset for PyTorch's DataLoader and torchdata's StatefulDataLoader."""

from __future__ import annotations

import copy
import multiprocessing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch.utils.data

from ..protocol import Grant
from ..state import START_OF_EPOCH
from .count import SINCE, Count
from .passes import Pass, Progress, coming_epoch, pass_over_left_epoch
from .reading import Reading
from .resume import LeftOut

if TYPE_CHECKING:
    from ..stream import Stream

_VERSION = 2
_KEYS = {"version", "finished", "step", "steps", "epoch_step", "since", "stream"}


class Dataset(torch.utils.data.IterableDataset):  # type: ignore[misc]  # mypy does not know torch
    """Batches of a channel or a source, as dicts of tensors: see :func:`pipemill.torch.tensors`. ::

        data = Dataset("s3://bucket/train/", "webdataset", fields="jpg,cls", batch=256, tail="drop")
        for batch in StatefulDataLoader(data, batch_size=None, num_workers=2):
            train(batch["jpg"], batch["cls"])

    Each pass is one epoch. A pass that is left early ends its epoch, for all ranks.

    Pass ``batch_size=None`` to the DataLoader: the host makes the batches. Its workers decode
    nothing, and each batch is copied from worker to program, so they only help where the program
    transforms batches in Python. A Dataset can be pickled. With workers, each of them reads its
    share of the batches, in an order that is the same in each run, and a state is that of all of
    them.

    :param source: a channel's name where `socket` is given or ``$PIPEMILL_SOCKET`` is set, as in a
        program that ``pipemill run`` has started; else a source, as for :func:`pipemill.open`.
    :param decoder: as for :func:`pipemill.open`; so are `options`, `fields`, `shuffle`,
        `workers` and `host`, which are for a source only, and `batch`, `tail` and `batch_across`.
    :param epochs: how often a source is read; None: for as many passes as the program makes.
    :param shard: ``(rank, world)``, "auto": as torchrun or Slurm says, or None. With workers, rank
        r of R with worker w of W is rank ``r * W + w`` of ``R * W``.
    :param copy: whether the tensors are this program's own memory. Else they are where the program
        holds as many batches as it may, so it may keep any number of batches.
    :param how: `credits`, of which there are 4 by default, `timeout`, `hold_timeout` as for
        :func:`pipemill.connect`, and for a channel `wait`.

    A source is opened at once: the errors are those of :func:`pipemill.open`. The host is this
    process's, also where workers read from it.
    """

    #: The slots of its host: enough for 20 workers, whose number is not known yet. Only as many
    #: take memory as consumers leave unread.
    _SLOTS = 64

    def __init__(
        self,
        source: Any,
        decoder: Any = None,
        *,
        socket: Any = None,
        options: Mapping[str, Any] | None = None,
        fields: Any = None,
        batch: int | None = None,
        tail: str | None = None,
        batch_across: str | None = None,
        shuffle: Any = None,
        workers: int | str | None = None,
        order: str | None = None,
        epochs: int | None = None,
        shard: Any = "auto",
        host: str | None = None,
        copy: bool = False,
        **how: Any,
    ) -> None:
        unknown = sorted(set(how) - {"credits", "timeout", "hold_timeout", "wait"})
        if unknown:
            raise TypeError(f"pipemill.torch takes no argument {unknown[0]!r}")
        how.update(
            options=options, fields=fields, batch=batch, tail=tail, batch_across=batch_across,
            shuffle=shuffle, workers=workers, order=order, epochs=epochs, host=host,
        )  # fmt: skip
        self._reading = Reading(source, decoder, socket, shard, how, self._SLOTS)
        self._copy = copy
        self._stream: Stream | None = None
        #: The batches of a pass, where that is not an epoch.
        self._steps: int | None = None
        #: The pass that reads the stream.
        self._current: Progress | None = None
        #: The state that was loaded, until a batch is yielded that comes after it.
        self._restored: Mapping[str, Any] | None = None
        #: The state of the stream that a worker has hung up on.
        self._left_at: Mapping[str, Any] | None = None
        self._count = Count()
        #: The batches that are read again and not yielded.
        self._left_out = LeftOut()
        self._set_epoch: int | None = None
        self._is_worker = False
        #: Whether the stream was connected with a state.
        self._resumed = False
        #: The epoch of which the state that was loaded is the beginning.
        self._first_epoch: int | None = None

    def __iter__(self) -> Pass:
        return Pass(self)

    def set_epoch(self, epoch: int) -> None:
        """The next pass is over this epoch, from 0. Trainers call this. Passes do without it: each
        goes on with the next epoch. Without effect where the data are past that epoch, because
        trainers that go on from a state count from 0 again."""
        self._set_epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """Where to go on: after the last batch that was yielded in this process. It is small, of
        text, numbers and dicts."""
        return self._state(self._current or Progress())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on there, with the next pass.

        The state may be that of another rank, with as many ranks, whose passes have taken as many
        steps: trainers save the state of rank 0, and give it to all. Where this rank's host reads
        other objects than that one's, it reads again what was delivered, and leaves it out: of the
        epoch of the state, and with `steps` from the first epoch on. This needs `batch`. A rank's
        own state spares that. The number of ranks can change where an epoch begins.
        """
        _check(state)
        self._reading.of_this_host(state, _workers()[1])
        if self._stream is not None and not self._stream._connection.is_others():
            self._hang_up()
            self._reading.start_again()
        self._current = self._stream = self._left_at = None
        self._restored, self._count = copy.deepcopy(dict(state)), Count.of_state(state)
        self._left_out, self._first_epoch = LeftOut(), None

    def close(self) -> None:
        """Hangs up, and ends the host that was started for this dataset."""
        self._hang_up()
        self._reading.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stream": None, "_current": None}

    # --- for `Pass`

    def _connected(self) -> Stream:
        """The stream, which lives from pass to pass."""
        if self._stream is not None and self._stream._connection.is_others():
            self._stream = self._current = None  # of the process that has forked this one
        if self._stream is None:
            worker = torch.utils.data.get_worker_info()
            # PyTorch does not say it any more when a worker ends.
            self._is_worker = worker is not None
            at, count = _workers()
            number = None if worker is None else _pass_number(worker)
            state = self._left_at
            if self._restored is not None:
                place = self._reading.of_this_host(self._restored, count)
                state, self._left_out = place.stream, place.left_out
                if self._left_out:
                    self._count.begin_again()
            self._stream = self._reading.connect(at, count, number, state)
            if state is not None and not state["given"]:
                self._first_epoch = state["epoch"]
            self._resumed, self._left_at = state is not None, None
        return self._stream

    def _coming_epoch(self) -> int:
        """The epoch of the next batch that is yielded."""
        stream = self._connected()
        if not self._resumed and stream._epoch is None and stream._receiver.batches == 0:
            pass_over_left_epoch(stream)
        self._left_out.pass_over(stream, self._count)
        coming, count = coming_epoch(stream), self._count
        if coming is None:
            return (count.epoch or 0) + (count.of_epoch > 0)
        return coming if self._steps is not None else max(coming, self._set_epoch or 0)

    def _delivers(self, epoch: int) -> None:
        """A batch of this epoch is yielded."""
        self._count.delivered(epoch, self._steps is not None)
        self._restored = None

    def _rest(self) -> None:
        """After a pass. A worker hangs up, because a DataLoader may start the next workers before
        it ends this one. If it does not, this one goes on from its state."""
        self._restored = None
        if self._is_worker:
            state = self._connected().state_dict()
            self._hang_up()
            self._left_at = state

    def _hang_up(self) -> None:
        if self._stream is not None and not self._stream._connection.is_others():
            self._stream.close()
        self._stream = self._current = None

    def _state(self, progress: Progress) -> dict[str, Any]:
        if self._restored is not None:
            finished = progress.finished or self._restored["finished"]
            return {**copy.deepcopy(self._restored), "finished": finished}
        if self._left_at is not None:
            stream = dict(self._left_at)
        elif self._current is None:
            stream = _first_state(self._connected(), self._resumed)
        else:
            stream = self._connected().state_dict()
        return {
            "version": _VERSION,
            "finished": progress.finished,
            "step": progress.step,
            "steps": self._steps or 0,
            **self._count.state(stream, self._steps is not None),
            "stream": stream,
        }


def _check(state: Any) -> None:
    """Refuses what is no state of a `Dataset`."""
    parts = [(state, _KEYS, "")]
    if isinstance(state, Mapping) and "since" in state:
        parts.append((state["since"], set(SINCE), " in `since`"))
    for part, keys, where in parts:
        if not isinstance(part, Mapping) or set(part) != keys:
            found = sorted(part) if isinstance(part, Mapping) else type(part).__name__
            raise ValueError(
                "this is no state of a pipemill Dataset or Loader of this version: expected the "
                f"keys {sorted(keys)}{where}, found {found}"
            )


def _workers() -> tuple[int, int]:
    """This process among those that read for its program."""
    worker = torch.utils.data.get_worker_info()
    return (0, 1) if worker is None else (worker.id, worker.num_workers)


def _pass_number(worker: Any) -> int:
    """Higher for the workers of a newer pass: a process numbers those that it starts."""
    identity: tuple[int, ...] = multiprocessing.current_process()._identity
    return max(identity[-1] - int(worker.id), 0)


def _first_state(stream: Stream, resumed: bool) -> dict[str, Any]:
    """The state before the first batch. A stream that was connected while its host was running
    begins in a later epoch than the first one."""
    if resumed:
        return stream.state_dict()
    first = pass_over_left_epoch(stream)
    state = stream.state_dict()
    if isinstance(first, Grant):
        of_rank_0 = first.batch - first.batch % state["world"]
        state.update(START_OF_EPOCH, epoch=first.epoch, batch=of_rank_0)
    return state
