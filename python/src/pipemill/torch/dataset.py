"""A dataset for PyTorch's DataLoader and torchdata's StatefulDataLoader."""

from __future__ import annotations

import copy
import multiprocessing
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch.utils.data

from ..absent import AbsentValues
from ..arguments import answering, check_shuffle
from ..errors import HostDied, StateError
from ..restarting import MAX_LOST
from ..log import warn
from ..protocol import Grant
from ..skip_lists import Skip
from ..sources import Source
from ..state import START_OF_EPOCH
from ..waits import Waits
from .count import SINCE, Count
from .direct import Direct
from .ends import Ends, ends_of_pass, world
from .passes import Pass, Progress, coming_epoch, pass_over_left_epoch
from .reading import Reading
from .resume import LeftOut
from .worker_errors import errors_travel

if TYPE_CHECKING:
    from ..stream import Stream

_VERSION = 2
#: Words of PyTorch, for features of its DataLoader.
_OTHER_WORDS = {
    "num_workers": (
        "give it to the DataLoader around this Dataset; or say workers={value!r}, and the host "
        "decodes that many objects at the same time"
    ),
    **dict.fromkeys(
        ("persistent_workers", "prefetch_factor", "worker_init_fn", "multiprocessing_context",
         "collate_fn", "pin_memory", "pin_memory_device"),
        "give it to the DataLoader around this Dataset",
    ),
}  # fmt: skip
_KEYS = {"version", "finished", "step", "steps", "epoch_step", "since", "stream"}


class Dataset(torch.utils.data.IterableDataset):  # type: ignore[misc]  # mypy does not know torch
    """Batches of a channel or a source, as dicts of tensors: see :func:`pipemill.torch.tensors`. ::

        data = Dataset("s3://bucket/train/", "webdataset", fields="jpg,cls", batch=256, tail="drop")
        for batch in StatefulDataLoader(data, batch_size=None, num_workers=2):
            train(batch["jpg"], batch["cls"])

    Each pass is one epoch. If a pass is left early, its epoch ends for all ranks.

    Pass ``batch_size=None`` to the DataLoader: the host makes the batches. Its workers decode
    nothing, and each batch is copied from worker to program, so they only help if the program
    transforms batches in Python. A Dataset can be pickled. With workers, each of them reads its
    share of the batches, in an order that is the same in each run, and a state is that of all of
    them.

    :param source: a channel's name if `socket` is given or ``$PIPEMILL_SOCKET`` is set, as in a
        program that ``pipemill run`` has started; otherwise a source, as for :func:`pipemill.open`.
    :param decoder: as for :func:`pipemill.open`; so are `trust`, `skip`, `options`, `fields`,
        `add_fields`,
        `shuffle`, `workers`, `order`, `on_error`, `max_errors`, `quarantine`, `on_plugin_error`,
        `max_record`, `limits` and `host`, which are for a source only, and `batch`, `tail` and
        `batch_across`.
    :param epochs: how often a source is read; None: for as many passes as the program makes.
    :param rank: ``(rank, world)``, "auto": as the launcher says (torchrun, MPI, Slurm's srun), or
        None. With workers, rank r of R with worker w of W is rank ``r * W + w`` of ``R * W``.
    :param accept: differences from the time of a state that are accepted: see
        :func:`pipemill.connect`.
    :param copy: whether the tensors are this program's own memory. Otherwise they are copied only
        if the program holds as many batches as it may, so it may keep any number of batches.
    :param absent: the values for records that do not have a field, by the names of fields: see
        :func:`pipemill.torch.tensors`. Without one, an absent number is an error.
    :param dense: the names of fields of any length that are one tensor: see the same.
    :param credits: as for :func:`pipemill.connect`, and 4 by default; so are `timeout`,
        `hold_timeout` and, for a channel, `wait` and `allow_other_users`.
    :param equal_steps: if the process group of ``torch.distributed`` has several ranks with hosts
        of their own, passes that end after different steps are a :class:`pipemill.PipemillError`,
        before a rank waits for another one in vain. False: the ends are not compared, for ranks
        that never wait for each other. Not in the workers of a DataLoader.

    A source is opened at once: the errors are those of :func:`pipemill.open`. The host belongs to
    this process, even if workers read from it. If it is killed, and this process alone reads from
    it, another one continues after the last batch.
    """

    #: The slots of its host: enough for 20 workers, whose number is not known yet. Slots take
    #: memory only while consumers leave batches in them unread.
    _SLOTS = 64

    @answering(_OTHER_WORDS)
    def __init__(
        self,
        source: Source,
        decoder: str | os.PathLike[str] | None = None,
        *,
        socket: str | os.PathLike[str] | None = None,
        trust: str | Sequence[str] | None = None,
        options: Mapping[str, Any] | None = None,
        fields: str | Sequence[str] | None = None,
        skip: Skip | None = None,
        add_fields: str | Sequence[str] | None = None,
        batch: int | None = None,
        tail: str | None = None,
        batch_across: str | None = None,
        shuffle: int | Mapping[str, Any] | None = None,
        workers: int | str | None = None,
        order: str | None = None,
        on_error: str | None = None,
        max_errors: int | None = None,
        quarantine: str | os.PathLike[str] | None = None,
        on_plugin_error: str | None = None,
        max_record: str | None = None,
        limits: Mapping[str, str] | None = None,
        epochs: int | None = None,
        rank: tuple[int, int] | str | None = "auto",
        host: str | None = None,
        accept: Sequence[str] | str = (),
        copy: bool = False,
        absent: Mapping[str, Any] | None = None,
        dense: Sequence[str] | str = (),
        credits: int | None = None,
        timeout: float | None = None,
        hold_timeout: float | None = None,
        wait: float | None = None,
        allow_other_users: bool = False,
        equal_steps: bool = True,
    ) -> None:
        how: dict[str, Any] = dict(
            trust=trust, skip=skip, options=options, fields=fields, add_fields=add_fields,
            batch=batch, tail=tail,
            batch_across=batch_across, shuffle=check_shuffle(shuffle), workers=workers,
            order=order, on_error=on_error, max_errors=max_errors, quarantine=quarantine,
            on_plugin_error=on_plugin_error, max_record=max_record, limits=limits, epochs=epochs,
            host=host, accept=accept, credits=credits, timeout=timeout, hold_timeout=hold_timeout,
            wait=wait, allow_other_users=allow_other_users or None,
        )  # fmt: skip
        self._reading = Reading(source, decoder, socket, rank, how, self._SLOTS)
        self._copy = copy
        self._absent = None if absent is None else AbsentValues(absent)
        self._dense = dense
        self._stream: Stream | None = None
        #: The batches of a pass, if that is not an epoch.
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
        #: Hosts that were killed since the last batch.
        self._lost = 0
        #: Whether the stream was connected with a state.
        self._resumed = False
        #: The epoch of which the state that was loaded is the beginning.
        self._first_epoch: int | None = None
        self._waits = Waits()
        #: Copies batches from the ring to a GPU. None if they stay in this process's memory.
        self._direct: Direct | None = None
        self._equal_steps = equal_steps
        #: The number of passes that have begun in this process.
        self._passes = 0

    def __iter__(self) -> Pass:
        return Pass(self)

    def set_epoch(self, epoch: int) -> None:
        """The next pass is over this epoch, from 0. Trainers call this. Passes do not need it: each
        continues with the next epoch. Without effect if the data are past that epoch, because
        trainers that resume from a state count from 0 again."""
        self._set_epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """The place to resume at: after the last batch that was yielded in this process. It is
        small, of text, numbers and dicts."""
        with errors_travel():
            return self._state(self._current or Progress())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes there, with the next pass.

        The state may be that of another rank, with as many ranks, whose passes have taken as many
        steps: trainers save the state of rank 0, and give it to all. If this rank's host reads
        other objects than that one's, it reads delivered batches again, and skips them: of the
        epoch of the state, and with `steps` from the first epoch on. This needs `batch`. A rank's
        own state avoids that. The number of ranks can change at the start of an epoch; at any
        step, if one host serves all ranks, or with shards of an index.
        """
        _check(state)
        self._reading.of_this_host(state, _workers()[1])
        if self._stream is not None and not self._stream._connection.is_others():
            self._hang_up()
            self._reading.start_again()
        self._current = self._stream = self._left_at = None
        self._restored, self._count = copy.deepcopy(dict(state)), Count.of_state(state)
        self._left_out, self._first_epoch = LeftOut(), None

    @property
    def skipped(self) -> int:
        """As :attr:`pipemill.Stream.skipped`: of all consumers of the host, those of this dataset's
        workers, too."""
        return self._reading.skipped

    @property
    def waits(self) -> Waits:
        """How long this process has waited for each of its batches: see :class:`pipemill.Waits`.
        The waits of a DataLoader's workers are not counted."""
        return self._waits

    def close(self) -> None:
        """Hangs up, and ends the host that was started for this dataset."""
        self._hang_up()
        self._reading.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stream": None, "_current": None, "_direct": None}

    # --- for `Pass`

    def _begins_pass(self) -> Ends | None:
        """Begins a pass. Returns the object that compares its end with those of the other ranks, if
        they may differ."""
        number, self._passes = self._passes, self._passes + 1
        if not self._equal_steps:
            return None
        name = self._reading.name_of_unequal(world())
        return None if name is None else ends_of_pass(name, number)

    def _connected(self) -> Stream:
        """The stream, which lives from pass to pass."""
        if self._stream is not None and self._stream._connection.is_others():
            self._stream = self._current = None  # of the process that has forked this one
        if self._stream is None:
            worker = torch.utils.data.get_worker_info()
            # PyTorch does not report it any more when a worker ends.
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
            self._stream._receiver.waits = self._waits
            if state is not None and not state["delivered"]:
                self._first_epoch = state["epoch"]
            self._resumed, self._left_at = state is not None, None
        return self._stream

    def _start_again(self, error: HostDied) -> None:
        """Starts another host, which continues after the batches of one that was killed.

        Raises `error` if no other host can do that: the host is shared with other processes, or
        there is no place to continue at.
        """
        self._lost += 1
        if not self._reading.can_start_again or self._lost > MAX_LOST:
            raise error
        stream, self._stream = self._stream, None
        if stream is not None:
            if stream._receiver.batches or self._resumed:
                try:
                    self._left_at = stream.state_dict()
                except StateError:
                    raise error from None
            if self._direct is not None:
                self._direct.leave()
            stream.close()
        warn(f"{error}. Another host goes on there")
        self._reading.start_again()

    def _coming_epoch(self) -> int:
        """The epoch of the next batch that is yielded."""
        stream = self._connected()
        if not self._resumed and stream._epoch is None and stream._receiver.batches == 0:
            pass_over_left_epoch(stream)
        self._left_out.skip(stream, self._count)
        coming, count = coming_epoch(stream), self._count
        if coming is None:
            return (count.epoch or 0) + (count.of_epoch > 0)
        return coming if self._steps is not None else max(coming, self._set_epoch or 0)

    def _length(self) -> int | None:
        """The number of batches of a pass, if it is known before."""
        if self._steps is not None:
            return self._steps
        length = self._connected()._connection.welcome.length
        if length is None:
            return None
        return length.batches if length.least is None else length.least

    def _delivers(self, epoch: int) -> None:
        """A batch of this epoch is yielded."""
        self._count.delivered(epoch, self._steps is not None)
        self._restored, self._lost = None, 0

    def _rest(self) -> None:
        """Called after a pass. A worker hangs up, because a DataLoader may start the next workers
        before it ends this one. If it does not, this worker continues from its state."""
        self._restored = None
        if self._is_worker:
            state = self._connected().state_dict()
            self._hang_up()
            self._left_at = state

    def _hang_up(self) -> None:
        if self._direct is not None:
            self._direct.leave()
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
    """Refuses values that are no state of a `Dataset`."""
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
    """The number of this process among those that read for its program, and how many there are."""
    worker = torch.utils.data.get_worker_info()
    return (0, 1) if worker is None else (worker.id, worker.num_workers)


def _pass_number(worker: Any) -> int:
    """Higher for the workers of a newer pass: a process numbers the workers that it starts."""
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
        of_rank_0 = first.batch - first.batch % state.get("world", 1)
        state.update(START_OF_EPOCH, epoch=first.epoch, batch=of_rank_0)
    return state
