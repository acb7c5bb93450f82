"""Batches as a data set of ``grain``, JAX's library for input pipelines."""

from __future__ import annotations

import os
from typing import Any

import grain
import numpy as np

from .batch import Batch
from .sources import Source
from .reading import Reading
from .schema import STRINGS


def dataset(
    source: Source,
    decoder: str | os.PathLike[str] | None = None,
    *,
    socket: str | os.PathLike[str] | None = None,
    **more: Any,
) -> Any:
    """A ``grain.IterDataset`` whose elements are batches: dicts by the names of fields. ::

        data = pipemill.grain.dataset("data/*.npy", batch=256, epochs=None).map(augment)

    It reads a channel, whose name `source` is where `socket` is given or ``$PIPEMILL_SOCKET`` is
    set; `more` are arguments of :func:`pipemill.connect` then. Else it reads a source, with the
    arguments of :func:`pipemill.open`. Numbers are numpy arrays, categories their codes, text and
    bytes lists. All are copies, so that ``prefetch`` can hold as many as it wants.

    The iterator's state is that of the stream: set it, and the next element is the one after it.
    ``mp_prefetch`` has no use here: the host decodes in threads of its own.
    """
    return _Dataset(Reading(source, decoder, socket, more))


class _Dataset(grain.IterDataset):  # type: ignore[misc]
    def __init__(self, reading: Reading) -> None:
        super().__init__()
        self._reading = reading

    def __iter__(self) -> _Iterator:
        return _Iterator(self._reading)


class _Iterator(grain.DatasetIterator):  # type: ignore[misc]
    def __init__(self, reading: Reading) -> None:
        super().__init__()
        self._reading = reading
        self._batches = reading.going_on()

    def __next__(self) -> dict[str, Any]:
        return _element(next(self._batches))

    def get_state(self) -> dict[str, Any]:
        return self._batches.stream.state_dict()

    def set_state(self, state: dict[str, Any]) -> None:
        self._batches.close()
        self._batches = self._reading.going_on(state)
        # A state that does not fit is refused here.
        self._batches.stream  # noqa: B018

    def close(self) -> None:
        super().close()
        self._batches.close()


def _element(batch: Batch) -> dict[str, Any]:
    element: dict[str, Any] = {}
    for field in batch.fields:
        if field.scalar not in STRINGS:
            element[field.name] = np.array(batch.dense(field.name))
        elif field.scalar == "bytes" and not field.shape:
            element[field.name] = list(map(bytes, batch[field.name]))
        elif field.scalar == "bytes":
            element[field.name] = [list(map(bytes, row)) for row in batch[field.name]]
        else:
            element[field.name] = batch[field.name]
    return element
