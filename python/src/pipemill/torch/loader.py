"""Replaces a DataLoader: a plain iterable, which no trainer takes apart."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from ..arguments import answering
from ..errors import StateError
from ..skip_lists import Skip
from ..sources import Source
from ..stream import whole_number
from ..waits import Waits
from .dataset import Dataset
from .direct import Direct
from .driver import CudaDriver
from .passes import Pass
from .replay import Replay
from .tensors import Tensors


#: Words of PyTorch's DataLoader, for features that a Loader does not need.
_OTHER_WORDS = {
    "dataset": "say source=: a path, a pattern, an address in S3, or the name of a channel",
    "collate_fn": (
        "the host makes the batches: call the function in the loop over them, or give a Dataset to "
        "a DataLoader with batch_size=None and this collate_fn="
    ),
    "length": "say steps={value!r}",
    "max_steps": "say steps={value!r}",
}
#: The most batches that `replay` keeps. Each takes as much memory as it has bytes.
_MAX_KEPT = 1_000_000


class _Data(Dataset):
    """The input of a Loader. It has no workers, and batches that were read far ahead are no longer
    in the processor's caches: with 64 slots instead of 16, records of 1 KiB take a fifth longer."""

    _SLOTS = 16


class Loader:
    """Batches of a channel or a source, as dicts of tensors: see :func:`pipemill.torch.tensors`. ::

        loader = Loader("data/*.tar", "webdataset", fields="jpg,cls", batch=256, tail="drop")
        for epoch in range(10):
            for batch in loader:
                train(batch["jpg"], batch["cls"])

    It reads in this process and has no workers: the host reads ahead and decodes. accelerate,
    Lightning and transformers take it directly, without a DataLoader around it. Each rank gets its
    own batches. With ``tail="drop"`` or ``"pad"`` and one host, all ranks get equally many.

    A pass is over with its last batch: a state from there resumes with the next pass. No pass is
    empty: if all epochs were delivered, it raises :class:`pipemill.PipemillError`.

    :param steps: a pass has this number of batches, and the next one continues after them, across
        the ends of epochs. Then the loader has a length. By default a pass is an epoch. After a
        stop it may be another number: the batches continue, and the rest of the pass has the new
        length.
    :param device: the device of the tensors. A GPU copies them directly from the shared memory, or
        through pinned memory if its driver can't. The copy is still in progress when a batch is
        yielded; the GPU's own order of work takes care of that. The next batch is copied meanwhile,
        too, if the host has it.
    :param pin_memory: whether the tensors are in pinned memory, for a trainer that moves them.
    :param replay: to measure: the first N batches repeatedly. They are read once and copied, so
        training never waits for data: this is its speed with infinitely fast data. A pass then has
        `steps`, or no end. There is no state.
    :param source: as for :class:`Dataset`, as are all others.
    """

    @answering(_OTHER_WORDS)
    def __init__(
        self,
        source: Source,
        decoder: str | os.PathLike[str] | None = None,
        *,
        steps: int | None = None,
        device: torch.device | str | int | None = None,
        pin_memory: bool = False,
        replay: int | None = None,
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
        if steps is not None and steps < 1:
            raise ValueError(f"steps={steps}: expected 1 or more batches of a pass, or None")
        #: The dataset that it reads.
        self.dataset: Dataset = _Data(
            source, decoder, socket=socket, trust=trust, skip=skip, options=options,
            fields=fields, add_fields=add_fields, batch=batch, tail=tail, batch_across=batch_across,
            shuffle=shuffle, workers=workers, order=order, on_error=on_error,
            max_errors=max_errors, quarantine=quarantine,
            on_plugin_error=on_plugin_error, max_record=max_record, limits=limits, epochs=epochs,
            rank=rank, host=host, accept=accept, copy=copy, absent=absent, dense=dense, credits=credits,
            timeout=timeout, hold_timeout=hold_timeout, wait=wait,
            allow_other_users=allow_other_users, equal_steps=equal_steps,
        )  # fmt: skip
        self.dataset._steps = steps
        self._replay = None if replay is None else Replay(
            self.dataset, whole_number("replay", replay, _MAX_KEPT, " batches, or None"), steps
        )  # fmt: skip
        self._device = None if device is None else torch.device(device)
        self._pin_memory = pin_memory
        if self._device is not None and self._device.type == "cuda" and self._replay is None:
            self.dataset._direct = Direct(
                partial(CudaDriver, self._device), self.dataset._absent, dense
            )

    def __iter__(self) -> Iterator[Tensors]:
        batches = Pass(self.dataset) if self._replay is None else self._replay
        return map(self._placed, batches)

    def __len__(self) -> int:
        """The number of batches of a pass: `steps`; or those of an epoch, if the source is an
        index. If the ranks' hosts have parts of the objects, it is that of the rank that has the
        fewest. Raises :class:`TypeError` if nobody knows it before all batches were read."""
        length = self.dataset._length()
        if length is None:
            raise TypeError(
                "this Loader has no length; give it steps= for a number of batches, or an index as "
                "its source, and batch="
            )
        return length

    @property
    def epoch(self) -> int:
        """The epoch of the next batch, from 0; after the last one, the number of epochs. Also right
        after :meth:`load_state_dict`. It waits until the host has that batch. ::

            loader = Loader("data/*.tar", "webdataset", fields="jpg,cls", batch=256, tail="drop")
            while loader.epoch < 10:
                for batch in loader:
                    train(batch["jpg"], batch["cls"])
        """
        if self._replay is not None:
            return self._replay.passes
        return self.dataset._coming_epoch()

    def set_epoch(self, epoch: int) -> None:
        """The next pass is over this epoch, from 0; without effect with `steps`. Trainers call
        this. Passes do not need it: each continues with the next epoch."""
        self.dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The place to resume at: after the last batch that was yielded. Save it with the model.

        Raises :class:`pipemill.StateError` with `replay`: there is no place to resume at."""
        if self._replay is not None:
            raise StateError(
                "a Loader with replay= delivers the same batches again and again, so it has no "
                "place to go on at; leave out replay=, or save no state while you measure"
            )
        return self.dataset.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes there: the next pass is the rest of the one in which the state was taken, or a
        whole one if nothing is left of that. See :meth:`Dataset.load_state_dict`."""
        self.dataset.load_state_dict(state)

    @property
    def skipped(self) -> int:
        """How many places of the input were skipped so far as errors, because of `on_error` or
        `on_plugin_error`: as :attr:`pipemill.Stream.skipped`."""
        return self.dataset.skipped

    @property
    def waits(self) -> Waits:
        """How long this program has waited for each of its batches: p50, p95, p99 and more, see
        :class:`pipemill.Waits`. Those of `replay` count once."""
        return self.dataset.waits

    def close(self) -> None:
        """Hangs up, and ends the host that was started for this loader. The end of the program
        does so, too."""
        self.dataset.close()

    def _placed(self, batch: Tensors) -> Tensors:
        direct = self.dataset._direct
        if direct is not None and direct.is_registered:
            return batch  # it is there already
        if self._device is not None:
            return batch.to(self._device, non_blocking=True)
        return batch.pin_memory() if self._pin_memory else batch
