"""Records as an ``IterableDataset`` of Hugging Face's ``datasets``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import datasets
import pyarrow as pa

from .absent import AbsentValues
from .arguments import answering
from .arrow.types import plain_scalar, plain_type, types_of
from .batch import Batch
from .restarting import RestartingBatches
from .objects import list_objects
from .sources import Source
from .stream import Stream
from .tasks import TaskReader


#: Words of the library, for features that it has itself.
_OTHER_WORDS = {
    "batch_size": "say batch_size= to the DataLoader, or call batch({value!r}) of the result",
    "drop_last": "say drop_last= to the DataLoader",
    "shuffle": "call shuffle(seed=7) of the result",
    "seed": "call shuffle(seed={value!r}) of the result",
    "epochs": "iterate over the result once for each epoch, and call its set_epoch()",
    "shard": "call datasets.distributed.split_dataset_by_node(result, rank, world)",
    "rank": "call datasets.distributed.split_dataset_by_node(result, rank, world)",
    "world_size": "call datasets.distributed.split_dataset_by_node(result, rank, world)",
    "state": "call load_state_dict() of the result",
    "num_workers": "say num_workers= to the DataLoader, which deals the objects to its workers",
    "collate_fn": "say collate_fn= to the DataLoader",
    "transform": "call map() of the result",
    "streaming": "leave it out: the result is an IterableDataset",
}


@answering(_OTHER_WORDS)
def iterable(
    source: Source,
    decoder: str | os.PathLike[str] | None = None,
    *,
    absent: Mapping[str, Any] | None = None,
    trust: str | Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    fields: str | Sequence[str] | None = None,
    add_fields: str | Sequence[str] | None = None,
    batch: int | None = None,
    workers: int | str | None = None,
    on_error: str | None = None,
    max_errors: int | None = None,
    quarantine: str | os.PathLike[str] | None = None,
    on_plugin_error: str | None = None,
    max_record: str | None = None,
    limits: Mapping[str, str] | None = None,
    credits: int = 4,
    timeout: float | None = None,
    hold_timeout: float | None = 10.0,
) -> Any:
    """A ``datasets.IterableDataset`` of the records: dicts by the names of fields. ::

        data = pipemill.hf.iterable("data/*.jsonl", options={"fields": "/text:utf8"})
        for example in data.shuffle(seed=7):
            ...

    Each object of the source is a shard: ``DataLoader`` deals them to its workers, ``shuffle``
    shuffles them, and ``state_dict`` resumes inside of one. The arguments are those of
    :func:`pipemill.open`, except for features that the library has itself: epochs, shards, states,
    shuffling. Decoder, types and header are learned from the first object, and an object with
    others is refused. Fields that a record does not have are None. `max_errors` counts for each
    object.

    :param absent: the values to take there instead, by the names of fields:
        ``absent={"age": -1, "note": ""}``.

    Raises the errors of :func:`pipemill.open`, and :class:`SourceError` if objects can't be listed.
    """
    more: dict[str, Any] = dict(
        trust=trust, options=options, fields=fields, add_fields=add_fields, batch=batch,
        workers=workers, credits=credits, timeout=timeout, hold_timeout=hold_timeout,
        on_error=on_error, max_errors=max_errors, quarantine=quarantine,
        on_plugin_error=on_plugin_error, max_record=max_record, limits=limits,
    )  # fmt: skip
    objects = [one.name for one in list_objects(source)]
    reader = TaskReader(source, objects, decoder, **more)
    values = AbsentValues(absent, codes=False)
    values.of(reader.fields)
    types = types_of(reader.fields).schema
    schema = pa.schema([field.with_type(plain_type(field.type)) for field in types])
    features = datasets.Features.from_arrow_schema(schema)
    # The library deals out the list.
    shards = {"objects": objects, "reader": reader, "absent": values}
    return datasets.IterableDataset.from_generator(_records, features, gen_kwargs=shards)


def _records(objects: list[str], reader: TaskReader, absent: AbsentValues) -> Iterator[Any]:
    for one in objects:
        with RestartingBatches(partial(_at, reader, one)) as batches:
            for batch in batches:
                yield from _rows(batch, absent.of(batch.fields))


def _at(reader: TaskReader, name: str, state: Any) -> Stream:
    return reader.open([name], state=state)


def _rows(batch: Batch, absent: Mapping[str, Any]) -> list[dict[str, Any]]:
    arrow = batch.to_arrow()
    # The features have no extensions: a UUID is its bytes.
    columns = [getattr(column, "storage", column) for column in arrow.columns]
    arrow = pa.RecordBatch.from_arrays(columns, arrow.schema.names)
    rows: list[dict[str, Any]] = arrow.to_pylist()
    for field in batch.fields:
        if field.name in absent:
            value = plain_scalar(field, absent[field.name]).as_py()
            for row in rows:
                if row[field.name] is None:
                    row[field.name] = value
    return rows
