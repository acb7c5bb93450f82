"""Batches as a data set of ``grain``, JAX's library for input pipelines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import grain
import numpy as np

from .absent import AbsentValues
from .arguments import answering
from .batch import Batch
from .numpy_arrays import array_of
from .reading import Reading
from .schema import MISSING, STRINGS
from .skip_lists import Skip
from .sources import Source


#: Words of grain, for features that it has itself.
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
    absent: Mapping[str, Any] | None = None,
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
    epochs: int | None = 1,
    rank: tuple[int, int] | str | None = None,
    state: Mapping[str, Any] | None = None,
    accept: Sequence[str] | str = (),
    host: str | None = None,
    credits: int | None = 4,
    timeout: float | None = None,
    wait: float = 10.0,
    hold_timeout: float | None = 10.0,
    allow_other_users: bool = False,
) -> Any:
    """A ``grain.IterDataset`` whose elements are batches: dicts by the names of fields. ::

        data = pipemill.grain.dataset("data/*.npy", batch=256, epochs=None).map(augment)

    It reads a channel if `socket` is given or ``$PIPEMILL_SOCKET`` is set: `source` is then its
    name, and the arguments are those of :func:`pipemill.connect`. Otherwise it reads a source, with
    the arguments of :func:`pipemill.open`. Numbers of one shape are numpy arrays, categories their
    codes. Numbers with a 0 in the shape are a list of arrays; text and bytes are lists, too. All
    are copies, so that ``prefetch`` can hold as many as it wants.

    :param absent: the values for records that do not have a field, by the names of fields:
        ``absent={"age": float("nan"), "label": -1}``. Without such a value, a list has None there,
        and an absent number is an :class:`AbsentError`.

    The iterator's state is that of the stream: set it, and the next element is the one after it.
    ``mp_prefetch`` has no use here: the host decodes in threads of its own.
    """
    more: dict[str, Any] = dict(
        trust=trust, skip=skip, options=options, fields=fields, add_fields=add_fields, batch=batch,
        tail=tail,
        batch_across=batch_across, shuffle=shuffle, workers=workers, order=order,
        on_error=on_error, max_errors=max_errors, quarantine=quarantine,
        on_plugin_error=on_plugin_error, max_record=max_record, limits=limits, epochs=epochs,
        rank=rank, state=state, accept=accept, host=host, credits=credits, timeout=timeout,
        wait=wait, hold_timeout=hold_timeout,
        allow_other_users=allow_other_users,
    )  # fmt: skip
    return _Dataset(Reading(source, decoder, socket, more), AbsentValues(absent))


class _Dataset(grain.IterDataset):  # type: ignore[misc]
    def __init__(self, reading: Reading, absent: AbsentValues) -> None:
        super().__init__()
        self._reading = reading
        self._absent = absent

    def __iter__(self) -> _Iterator:
        return _Iterator(self._reading, self._absent)


class _Iterator(grain.DatasetIterator):  # type: ignore[misc]
    def __init__(self, reading: Reading, absent: AbsentValues) -> None:
        super().__init__()
        self._reading = reading
        self._absent = absent
        self._batches = reading.batches()

    def __next__(self) -> dict[str, Any]:
        return _element(next(self._batches), self._absent)

    def get_state(self) -> dict[str, Any]:
        return self._batches.stream.state_dict()

    def set_state(self, state: dict[str, Any]) -> None:
        self._batches.close()
        self._batches = self._reading.batches(state)
        # A state that does not fit is refused here.
        self._batches.stream  # noqa: B018

    def close(self) -> None:
        super().close()
        self._batches.close()


def _element(batch: Batch, absent: AbsentValues) -> dict[str, Any]:
    element: dict[str, Any] = {}
    values = absent.of(batch.fields)
    for field in batch.fields:
        name, value = field.name, values.get(field.name, MISSING)
        if field.scalar not in STRINGS and 0 not in field.shape:
            element[name] = np.array(batch.dense(name, value))
            continue
        if field.scalar not in STRINGS and value is not MISSING:
            value = array_of(field, value)
        rows = batch.column(name, value)
        element[name] = rows if field.scalar == "utf8" else [_copied(one) for one in rows]
    return element


def _copied(value: Any) -> Any:
    """A copy of an array, of bytes, or of a list of bytes. None stays."""
    if value is None or isinstance(value, list):
        return value and [bytes(one) for one in value]
    return value.copy() if isinstance(value, np.ndarray) else bytes(value)
