"""Records as an ``IterableDataset`` of Hugging Face's ``datasets``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import datasets
import pyarrow as pa

from .arrow.types import plain_type, types_of
from .going_on import GoingOn
from .objects import list_objects, settings_of, share
from .opening import open
from .sources import Source
from .stream import Stream


def iterable(source: Source, decoder: str | os.PathLike[str] | None = None, **more: Any) -> Any:
    """A ``datasets.IterableDataset`` of the records: dicts by the names of fields. ::

        data = pipemill.hf.iterable("data/*.jsonl", options={"fields": "/text:utf8"})
        for example in data.shuffle(seed=7):
            ...

    Each object of the source is a shard: ``DataLoader`` deals them to its workers, ``shuffle``
    shuffles them, and ``state_dict`` goes on inside of one. The arguments are those of
    :func:`pipemill.open`, but for what the library does itself: epochs, shards, states, shuffling.
    The features are those of the first object's records.

    Raises what :func:`pipemill.open` raises, and :class:`SourceError` where objects can't be
    listed.
    """
    objects = [one.name for one in list_objects(source)]
    settings = settings_of(source)
    with open(share(objects[:1], settings), decoder, **more) as stream:
        types = types_of(stream.fields).schema
    schema = pa.schema([field.with_type(plain_type(field.type)) for field in types])
    features = datasets.Features.from_arrow_schema(schema)
    # The list is what the library deals out.
    shards = {"objects": objects, "settings": settings, "decoder": decoder, "more": more}
    return datasets.IterableDataset.from_generator(_records, features, gen_kwargs=shards)


def _records(
    objects: list[str],
    settings: dict[str, Any],
    decoder: str | os.PathLike[str] | None,
    more: dict[str, Any],
) -> Iterator[Any]:
    for one in objects:
        with GoingOn(partial(_at, share([one], settings), decoder, more)) as batches:
            for batch in batches:
                yield from batch.to_arrow().to_pylist()


def _at(source: Source, decoder: Any, more: dict[str, Any], state: Any) -> Stream:
    return open(source, decoder, state=state, **more)
