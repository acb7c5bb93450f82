"""Batches as a data set of ``grain``, JAX's library for input pipelines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import grain
import numpy as np

from .arguments import answering
from .batch import Batch
from .sources import Source
from .reading import Reading
from .schema import STRINGS


#: Words of grain, for what it does itself.
_OTHER_WORDS = {
    "num_workers": (
        "say workers={value!r}: the host decodes that many objects at the same time, and "
        "mp_prefetch has no use here"
    ),
    "transform": "call map() of the data set",
}


@answering(_OTHER_WORDS)
def dataset(
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
    epochs: int | None = 1,
    shard: tuple[int, int] | str | None = None,
    state: Mapping[str, Any] | None = None,
    host: str | None = None,
    credits: int | None = 4,
    timeout: float | None = None,
    wait: float = 10.0,
    hold_timeout: float | None = 10.0,
) -> Any:
    """A ``grain.IterDataset`` whose elements are batches: dicts by the names of fields. ::

        data = pipemill.grain.dataset("data/*.npy", batch=256, epochs=None).map(augment)

    It reads a channel, whose name `source` is where `socket` is given or ``$PIPEMILL_SOCKET`` is
    set, with the arguments of :func:`pipemill.connect`. Else it reads a source, with those of
    :func:`pipemill.open`. Numbers are numpy arrays, categories their codes, text and
    bytes lists. All are copies, so that ``prefetch`` can hold as many as it wants.

    The iterator's state is that of the stream: set it, and the next element is the one after it.
    ``mp_prefetch`` has no use here: the host decodes in threads of its own.
    """
    more: dict[str, Any] = dict(
        options=options, fields=fields, batch=batch, tail=tail, batch_across=batch_across,
        shuffle=shuffle, workers=workers, order=order, on_error=on_error, max_errors=max_errors,
        quarantine=quarantine, on_plugin_error=on_plugin_error, max_record=max_record,
        limits=limits, epochs=epochs, shard=shard, state=state, host=host, credits=credits,
        timeout=timeout, wait=wait, hold_timeout=hold_timeout,
    )  # fmt: skip
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
