"""A dataset for PyTorch's DataLoader and torchdata's StatefulDataLoader."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch.utils.data

from ..absent import AbsentValues
from ..arguments import answering, check_shuffle
from ..protocol import Grant
from ..sources import Source
from ..state import START_OF_EPOCH
from .passes import Pass, Progress, pass_over_left_epoch
from .reading import Reading
from .worker_errors import errors_travel

if TYPE_CHECKING:
    from ..stream import Stream

_VERSION = 1
#: Words of PyTorch, for what its DataLoader does around a Dataset.
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
_KEYS = {"version", "finished", "step", "epoch_step", "stream"}


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
        `workers`, `order`, `on_error`, `max_errors`, `quarantine`, `on_plugin_error`, `max_record`,
        `limits` and `host`, which are for a source only, and `batch`, `tail` and `batch_across`.
    :param epochs: how often a source is read; None: for as many passes as the program makes.
    :param shard: ``(rank, world)``, "auto": as the launcher says (torchrun, MPI, Slurm's srun), or
        None. With workers, rank
        r of R with worker w of W is rank ``r * W + w`` of ``R * W``.
    :param copy: whether the tensors are this program's own memory. Else they are where the program
        holds as many batches as it may, so it may keep any number of batches.
    :param absent: the values to take where a record does not have a field, by the names of fields:
        see :func:`pipemill.torch.tensors`. Without one, an absent number is an error.
    :param dense: the names of fields of any length that are one tensor: see the same.
    :param credits: as for :func:`pipemill.connect`, and 4 by default; so are `timeout`,
        `hold_timeout` and, for a channel, `wait`.

    A source is opened at once: the errors are those of :func:`pipemill.open`. The host is this
    process's, also where workers read from it.
    """

    #: The slots of its host: enough for 20 workers, whose number is not known yet. Only as many
    #: take memory as consumers leave unread.
    _SLOTS = 64

    @answering(_OTHER_WORDS)
    def __init__(
        self,
        source: Source,
        decoder: str | os.PathLike[str] | None = None,
        *,
        socket: str | os.PathLike[str] | None = None,
        options: Mapping[str, Any] | None = None,
        fields: str | Sequence[str] | None = None,
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
        shard: tuple[int, int] | str | None = "auto",
        host: str | None = None,
        copy: bool = False,
        absent: Mapping[str, Any] | None = None,
        dense: Sequence[str] | str = (),
        credits: int | None = None,
        timeout: float | None = None,
        hold_timeout: float | None = None,
        wait: float | None = None,
    ) -> None:
        how: dict[str, Any] = dict(
            options=options, fields=fields, batch=batch, tail=tail, batch_across=batch_across,
            shuffle=check_shuffle(shuffle), workers=workers, order=order, on_error=on_error,
            max_errors=max_errors, quarantine=quarantine, on_plugin_error=on_plugin_error,
            max_record=max_record, limits=limits, epochs=epochs, host=host, credits=credits,
            timeout=timeout, hold_timeout=hold_timeout, wait=wait,
        )  # fmt: skip
        self._reading = Reading(source, decoder, socket, shard, how, self._SLOTS)
        self._copy = copy
        self._absent = None if absent is None else AbsentValues(absent)
        self._dense = dense
        self._stream: Stream | None = None
        #: The pass that reads the stream.
        self._current: Progress | None = None
        #: A state that the next connection takes.
        self._loaded: Mapping[str, Any] | None = None
        self._loaded_step = 0
        #: An epoch, and how many of its batches were yielded, also before a stop.
        self._epoch_step = (0, 0)
        #: An epoch, and how many of its batches are read again and left out.
        self._passed_over = (0, 0)
        self._set_epoch: int | None = None
        self._is_worker = False
        #: Whether the stream was connected with a state.
        self._resumed = False
        #: The epoch of which the state that was loaded is the beginning.
        self._first_epoch: int | None = None
        #: Whether it was taken before the program knew that the pass before is over.
        self._pass_is_over = False

    def __iter__(self) -> Pass:
        return Pass(self, None)

    def set_epoch(self, epoch: int) -> None:
        """The next pass is over this epoch, from 0. Trainers call this. Passes do without it: each
        goes on with the next epoch. Without effect where the data are past that epoch, because
        trainers that go on from a state count from 0 again."""
        self._set_epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """Where to go on: after the last batch that was yielded in this process. It is small, of
        text, numbers and dicts."""
        with errors_travel():
            return self._state(self._current or Progress())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on there, with the next pass.

        The state may be that of another rank, with as many ranks, whose passes have taken as many
        steps: trainers save the state of rank 0, and give it to all. Where this rank's host reads
        other objects than that one's, it reads the epoch from its beginning, and leaves out what
        was given. This needs `batch`.
        """
        if not isinstance(state, Mapping) or set(state) != _KEYS:
            found = sorted(state) if isinstance(state, Mapping) else type(state).__name__
            raise ValueError(
                "this is no state of a pipemill Dataset or Loader: expected the keys "
                f"{sorted(_KEYS)}, found {found}"
            )
        if self._stream is not None and not self._stream._connection.is_others():
            self._hang_up()
            self._reading.start_again()
        self._current = None
        loaded: Mapping[str, Any] = state["stream"]
        self._loaded = loaded
        self._loaded_step = 0 if state["finished"] else state["step"]
        self._epoch_step = loaded.get("epoch", 0), state["epoch_step"]

    @property
    def skipped(self) -> int:
        """As :attr:`pipemill.Stream.skipped`: of all consumers of the host, those of this dataset's
        workers, too."""
        return self._reading.skipped

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
            at, count = (0, 1) if worker is None else (worker.id, worker.num_workers)
            number = None if worker is None else _pass_number(worker)
            state, passed_over = self._loaded, 0
            if state is not None:
                state, passed_over = self._reading.of_this_host(state, self._epoch_step[1])
            self._stream = self._reading.connect(at, count, number, state)
            if state is not None and not state["given"]:
                self._first_epoch = state["epoch"]
                # After a batch without records, which is the last one of its epoch.
                self._pass_is_over = self._loaded_step > 0 and not passed_over
                self._passed_over = state["epoch"], passed_over
            self._resumed, self._loaded = state is not None, None
        return self._stream

    def _is_new(self, epoch: int) -> bool:
        """Whether the batch that came is to be yielded, which is of this epoch. Counts it."""
        of, left = self._passed_over
        if of == epoch and left:
            self._passed_over = of, left - 1
            return False
        of, step = self._epoch_step
        self._epoch_step = epoch, (step if of == epoch else 0) + 1
        return True

    def _rest(self) -> None:
        """After a pass. A worker hangs up, because a DataLoader may start the next workers before
        it ends this one. If it does not, this one goes on from its state."""
        if self._is_worker:
            state = self._connected().state_dict()
            self._hang_up()
            self._loaded, self._loaded_step = state, 0

    def _hang_up(self) -> None:
        if self._stream is not None and not self._stream._connection.is_others():
            self._stream.close()
        self._stream = self._current = None

    def _take_step(self) -> int:
        step, self._loaded_step = self._loaded_step, 0
        return step

    def _state(self, progress: Progress) -> dict[str, Any]:
        step = progress.step
        if self._loaded is not None:
            state, step = dict(self._loaded), self._loaded_step
        elif self._current is None:
            state = _first_state(self._connected(), self._resumed)
        else:
            state = self._connected().state_dict()
        is_inside = state["given"] and state["epoch"] == self._epoch_step[0]
        return {
            "version": _VERSION,
            "finished": progress.finished,
            "step": step,
            "epoch_step": self._epoch_step[1] if is_inside else 0,
            "stream": state,
        }


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
