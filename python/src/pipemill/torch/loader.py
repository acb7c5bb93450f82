"""What takes the place of a DataLoader: a plain iterable, which no trainer takes apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from .dataset import Dataset
from .passes import Pass
from .tensors import Tensors


class _Data(Dataset):
    """What a Loader reads. It has no workers, and batches that were read far ahead are no longer in
    the processor's caches: with 64 slots instead of 16, records of 1 KiB take a fifth longer."""

    _SLOTS = 16


class Loader:
    """Batches of a channel or a source, as dicts of tensors: see :func:`pipemill.torch.tensors`. ::

        loader = Loader("data/*.tar", "webdataset", fields="jpg,cls", batch=256, tail="drop")
        for epoch in range(10):
            for batch in loader:
                train(batch["jpg"], batch["cls"])

    It reads in this process and has no workers: the host reads ahead and decodes. accelerate,
    Lightning and transformers take it as it is, without a DataLoader around it. Each rank gets its
    own batches, and with ``tail="drop"`` or ``"pad"`` and one host, all get equally many.

    A pass is over with its last batch: a state from there goes on with the next pass. No pass is
    empty: where all epochs were delivered, it raises :class:`pipemill.PipemillError`.

    :param steps: a pass has this number of batches, and the next one goes on after them, across the
        ends of epochs. Then the loader has a length. By default a pass is an epoch. After a stop it
        may be another number: the batches go on, and the rest of the pass is as long as that says.
    :param device: where the tensors go. To a GPU they go through pinned memory, and the copy is
        still under way when a batch is yielded; the GPU's own order of work takes care of that.
    :param pin_memory: whether the tensors are in pinned memory, for a trainer that moves them.
    :param source: as for :class:`Dataset`, as are all others.
    """

    def __init__(
        self,
        source: Any,
        decoder: Any = None,
        *,
        steps: int | None = None,
        device: Any = None,
        pin_memory: bool = False,
        **how: Any,
    ) -> None:
        if steps is not None and steps < 1:
            raise ValueError(f"steps={steps}: expected 1 or more batches of a pass, or None")
        #: What it reads.
        self.dataset: Dataset = _Data(source, decoder, **how)
        self.dataset._steps = steps
        self._device = None if device is None else torch.device(device)
        self._pin_memory = pin_memory

    def __iter__(self) -> Iterator[Tensors]:
        return map(self._placed, Pass(self.dataset))

    def __len__(self) -> int:
        """`steps`. Raises :class:`TypeError` where there are none: then nobody knows the number of
        batches before it has read them."""
        if self.dataset._steps is None:
            raise TypeError("this Loader has no length; give it steps= for a number of batches")
        return self.dataset._steps

    @property
    def epoch(self) -> int:
        """The epoch of the next batch, from 0; after the last one, the number of epochs. Also right
        after :meth:`load_state_dict`. It waits until the host has that batch. ::

            loader = Loader("data/*.tar", "webdataset", fields="jpg,cls", batch=256, tail="drop")
            while loader.epoch < 10:
                for batch in loader:
                    train(batch["jpg"], batch["cls"])
        """
        return self.dataset._coming_epoch()

    def set_epoch(self, epoch: int) -> None:
        """The next pass is over this epoch, from 0; without effect with `steps`. Trainers call
        this. Passes do without it: each goes on with the next epoch."""
        self.dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where to go on: after the last batch that was yielded. Save it with the model."""
        return self.dataset.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on there: the next pass is the rest of the one that the state was taken in, or a
        whole one where nothing is left of that. See :meth:`Dataset.load_state_dict`."""
        self.dataset.load_state_dict(state)

    def close(self) -> None:
        """Hangs up, and ends the host that was started for this loader. The end of the program
        does so, too."""
        self.dataset.close()

    def _placed(self, batch: Tensors) -> Tensors:
        if self._device is not None:
            return batch.to(self._device, non_blocking=True)
        return batch.pin_memory() if self._pin_memory else batch
