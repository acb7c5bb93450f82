"""Batches as a ``tf.data.Dataset``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from .absent import AbsentValues, replaced
from .arguments import answering
from .batch import Batch
from .numpy_arrays import array_of, dtype_of
from .reading import Reading
from .schema import MISSING, STRINGS, Field
from .skip_lists import Skip
from .sources import Source
from .tasks import check_fields


#: Words of TensorFlow, for features that it has itself.
_OTHER_WORDS = {"transform": "call map() of the data set", "map_fn": "call map() of the data set"}


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
    """A ``tf.data.Dataset`` whose elements are batches: dicts of tensors by the names of fields. ::

        for batch in pipemill.tf.dataset("data/*.csv", batch=256, epochs=10):
            train(batch["x"], batch["y"])

    It reads a channel if `socket` is given or ``$PIPEMILL_SOCKET`` is set: `source` is then its
    name, and the arguments are those of :func:`pipemill.connect`. Otherwise it reads a source, with
    the arguments of :func:`pipemill.open`. Each iteration over it opens the source again. The
    stream is opened here, once, for the types of the fields:

    =============================  ================================================================
    numbers of one shape           a tensor ``(n, *shape)``
    numbers of any length          a ragged tensor, ``(n, None)`` and the dimensions after it
    numbers with categories        a tensor of the categories, which are text
    ``utf8``, ``bytes``            a tensor of strings
    lists of these                 a ragged tensor of strings, ``(n, None)``
    =============================  ================================================================

    The values are copies.

    :param absent: the values for records that do not have a field, by the names of fields:
        ``absent={"age": float("nan"), "note": ""}``. TensorFlow has no tensors with absent values:
        without a value here, an absent value raises :class:`AbsentError` when it comes.

    Raises the errors of :func:`pipemill.open`, and :class:`TypeError` for a field that has no such
    tensor. An error in an iteration is an ``InvalidArgumentError`` or an ``UnknownError`` of
    TensorFlow, with the text of this package.
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
    reading = Reading(source, decoder, socket, more)
    values = AbsentValues(absent, codes=False)
    first = [reading.batches()]
    types = first[0].stream.fields
    values.of(types)

    def batches() -> Iterator[dict[str, Any]]:
        with first.pop() if first else reading.batches() as batches:
            check_fields(batches.stream.fields, types, str(source))
            for batch in batches:
                yield _tensors(batch, values)

    signature = {field.name: _spec(field) for field in types}
    return tf.data.Dataset.from_generator(batches, output_signature=signature)


def _spec(field: Field) -> Any:
    if field.scalar in STRINGS or field.categories:
        if field.shape:
            return tf.RaggedTensorSpec([None, None], tf.string, ragged_rank=1)
        return tf.TensorSpec([None], tf.string)
    kind = tf.bool if field.scalar == "boolean" else tf.dtypes.as_dtype(field.scalar)
    if 0 not in field.shape:
        return tf.TensorSpec([None, *field.shape], kind)
    if 0 in field.shape[1:]:
        raise TypeError(
            f"field {field.name!r} has the shape {field.shape}, where any length is not the first "
            "dimension, and there is no tensor for it; leave it out with fields="
        )
    return tf.RaggedTensorSpec([None, None, *field.shape[1:]], kind, ragged_rank=1)


def _tensors(batch: Batch, absent: AbsentValues) -> dict[str, Any]:
    values = absent.of(batch.fields)
    return {
        field.name: _tensor(batch, field, values.get(field.name, MISSING))
        for field in batch.fields
    }


def _tensor(batch: Batch, field: Field, absent: Any) -> Any:
    if field.scalar not in STRINGS and not field.categories and 0 not in field.shape:
        return np.array(batch.dense(field.name, absent))
    column = batch._column(batch._field_index(field.name))
    if len(column.absent) and absent is MISSING:
        column.raise_absent()
    is_array = field.scalar not in STRINGS and not field.categories
    value = array_of(field, absent) if is_array and absent is not MISSING else absent
    rows = replaced(list(column.values()), value)
    # TensorFlow's own type annotations do not have it.
    ragged = tf.RaggedTensor.from_row_lengths  # pyright: ignore[reportAttributeAccessIssue]
    if field.scalar in STRINGS and field.shape:
        strings = [bytes(one) if field.scalar == "bytes" else one for row in rows for one in row]
        values = tf.constant(strings, tf.string, [len(strings)])
        return ragged(values, [len(row) for row in rows])
    if field.scalar in STRINGS or field.categories:
        strings = list(map(bytes, rows)) if field.scalar == "bytes" else rows
        return np.array(strings, object)
    empty = np.empty((0, *field.shape[1:]), dtype_of(field.scalar))
    return ragged(np.concatenate([empty, *rows]), [len(one) for one in rows])
