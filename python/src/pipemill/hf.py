"""Records as an ``IterableDataset`` of Hugging Face's ``datasets``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import datasets
import pyarrow as pa

from .absent import AbsentValues
from .arrow.types import plain_scalar, plain_type, types_of
from .batch import Batch
from .objects import list_objects
from .sources import Source
from .tasks import TaskReader


def iterable(
    source: Source,
    decoder: str | os.PathLike[str] | None = None,
    *,
    absent: Mapping[str, Any] | None = None,
    **more: Any,
) -> Any:
    """A ``datasets.IterableDataset`` of the records: dicts by the names of fields. ::

        data = pipemill.hf.iterable("data/*.jsonl", options={"fields": "/text:utf8"})
        for example in data.shuffle(seed=7):
            ...

    Each object of the source is a shard: ``DataLoader`` deals them to its workers, ``shuffle``
    shuffles them, and ``state_dict`` goes on inside of one. The arguments are those of
    :func:`pipemill.open`, but for what the library does itself: epochs, shards, states, shuffling.
    Decoder, types and header are learned from the first object, and an object with others is
    refused. What a record does not have is None.

    :param absent: the values to take there instead, by the names of fields:
        ``absent={"age": -1, "note": ""}``.

    Raises what :func:`pipemill.open` raises, and :class:`SourceError` where objects can't be
    listed.
    """
    objects = [one.name for one in list_objects(source)]
    reader = TaskReader(source, objects, decoder, **more)
    values = AbsentValues(absent, codes=False)
    values.of(reader.fields)
    types = types_of(reader.fields).schema
    schema = pa.schema([field.with_type(plain_type(field.type)) for field in types])
    features = datasets.Features.from_arrow_schema(schema)
    # The list is what the library deals out.
    shards = {"objects": objects, "reader": reader, "absent": values}
    return datasets.IterableDataset.from_generator(_records, features, gen_kwargs=shards)


def _records(objects: list[str], reader: TaskReader, absent: AbsentValues) -> Iterator[Any]:
    for one in objects:
        with reader.open([one]) as stream:
            for batch in stream:
                yield from _rows(batch, absent.of(batch.fields))


def _rows(batch: Batch, absent: Mapping[str, Any]) -> list[dict[str, Any]]:
    arrow = batch.to_arrow()
    # The features have no extensions: a UUID is its bytes.
    columns = [getattr(column, "storage", column) for column in arrow.columns]
    arrow = pa.RecordBatch.from_arrays(columns, arrow.schema.names)
    # Copies that fill a batch are no records.
    rows: list[dict[str, Any]] = arrow.slice(0, batch.valid).to_pylist()
    for field in batch.fields:
        if field.name in absent:
            value = plain_scalar(field, absent[field.name]).as_py()
            for row in rows:
                if row[field.name] is None:
                    row[field.name] = value
    return rows
