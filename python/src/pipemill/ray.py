"""Sources as data sets of Ray Data: Ray schedules, and each of its read tasks decodes its part of
the objects with a private host."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import ray
import ray.data
from ray.data.block import BlockMetadata
from ray.data.datasource import ReadTask
from ray.data.extensions import ArrowTensorArray

from .absent import AbsentValues
from .arguments import answering
from .arrow.columns import plain_arrays
from .arrow.copies import Copies
from .arrow.types import is_uuid, plain_scalar, plain_type
from .batch import Batch
from .restarting import RestartingBatches
from .objects import deal, list_objects
from .schema import MISSING, STRINGS, Field
from .sources import Source
from .tasks import TaskReader

#: Bytes that a read task has at most by default, if there are enough objects.
_TASK_BYTES = 1 << 30


#: Words of Ray, for features that it has itself.
_OTHER_WORDS = {
    "batch": "say rows_per_block={value!r}",
    "batch_size": "say rows_per_block={value!r}, or batch_size= to iter_batches() of the result",
    "drop_last": "say drop_last= to iter_batches() of the result",
    "shuffle": "call random_shuffle(seed=7) of the result",
    "seed": "call random_shuffle(seed={value!r}) of the result",
    "epochs": "iterate over the result once for each epoch",
    "shard": "call split() or streaming_split() of the result",
    "rank": "call split() or streaming_split() of the result",
    "state": "Ray runs a read task again by itself",
    "num_workers": "say concurrency={value!r}: how many read tasks run at once",
    "workers": "say concurrency={value!r}: how many read tasks run at once",
    "parallelism": "say override_num_blocks={value!r}",
    "transform": "call map_batches() of the result",
    "collate_fn": "say collate_fn= to iter_torch_batches() of the result",
}


@answering(_OTHER_WORDS)
def read(
    source: Source,
    decoder: str | os.PathLike[str] | None = None,
    *,
    trust: str | Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    fields: str | Sequence[str] | None = None,
    add_fields: str | Sequence[str] | None = None,
    absent: Mapping[str, Any] | None = None,
    on_error: str | None = None,
    max_errors: int | None = None,
    quarantine: str | os.PathLike[str] | None = None,
    on_plugin_error: str | None = None,
    max_record: str | None = None,
    limits: Mapping[str, str] | None = None,
    rows_per_block: int = 4096,
    override_num_blocks: int | None = None,
    concurrency: int | None = None,
    num_cpus: float | None = None,
) -> ray.data.Dataset:
    """A ``ray.data.Dataset`` of the records. ::

        data = pipemill.ray.read("s3://bucket/train/", "webdataset", fields="jpg,cls")

    :param source: as for :func:`pipemill.open`; all nodes must reach it by the same name.
    :param decoder: as for :func:`pipemill.open`; as are `trust`, `options`, `fields`,
        `add_fields`, `on_error`, `max_errors`, `quarantine`, `on_plugin_error`, `max_record` and
        `limits`. Each read task counts its own errors.
    :param absent: the values for records that do not have a field, by the names of fields:
        ``absent={"age": -1, "note": ""}``. Without such a value it is null.
    :param rows_per_block: rows of each block; the last one of a read task may have fewer. A task
        that Ray runs again gives the same blocks.
    :param override_num_blocks: how many read tasks there are, at most one for each object. By
        default 2 for each CPU of the cluster, or more for sources of many GiB.
    :param concurrency: how many of them run at once.
    :param num_cpus: CPUs that Ray reserves for one: 1, if it is not given.

    Raises the errors of :class:`Datasource`.
    """
    objects = Datasource(
        source, decoder, trust=trust, options=options, fields=fields, add_fields=add_fields,
        absent=absent, rows_per_block=rows_per_block,
        on_error=on_error, max_errors=max_errors, quarantine=quarantine,
        on_plugin_error=on_plugin_error, max_record=max_record, limits=limits,
    )  # fmt: skip
    # With more blocks than tasks, Ray would split the blocks.
    return ray.data.read_datasource(
        objects,
        override_num_blocks=objects.tasks(override_num_blocks),
        concurrency=concurrency,
        ray_remote_args=None if num_cpus is None else {"num_cpus": num_cpus},
    )


class Datasource(ray.data.Datasource):  # type: ignore[misc]
    """The data source of :func:`read`. The objects are listed here, and dealt to read tasks by
    their sizes. Decoder, types and header are learned from the first of them, and passed to all
    tasks: a task refuses an object with others.

    Raises :class:`SourceError` if they can't be listed, :class:`BinaryNotFound` if there is no
    host, and otherwise the errors of :func:`pipemill.open`. Each node needs a host, too.
    """

    @answering(_OTHER_WORDS)
    def __init__(
        self,
        source: Source,
        decoder: str | os.PathLike[str] | None = None,
        *,
        trust: str | Sequence[str] | None = None,
        options: Mapping[str, Any] | None = None,
        fields: str | Sequence[str] | None = None,
        add_fields: str | Sequence[str] | None = None,
        absent: Mapping[str, Any] | None = None,
        on_error: str | None = None,
        max_errors: int | None = None,
        quarantine: str | os.PathLike[str] | None = None,
        on_plugin_error: str | None = None,
        max_record: str | None = None,
        limits: Mapping[str, str] | None = None,
        rows_per_block: int = 4096,
    ) -> None:
        super().__init__()
        self._objects = list_objects(source)
        names = [one.name for one in self._objects]
        more = dict(
            trust=trust, options=options, fields=fields, add_fields=add_fields,
            batch=rows_per_block, tail="keep", on_error=on_error, max_errors=max_errors, quarantine=quarantine,
            on_plugin_error=on_plugin_error, max_record=max_record, limits=limits,
        )  # fmt: skip
        reader = TaskReader(source, names, decoder, **more)
        values = AbsentValues(absent, codes=False)
        values.of(reader.fields)
        self._read = partial(_blocks, reader=reader, absent=values)

    def get_name(self) -> str:
        """The name in Ray's plans and its dashboard."""
        return "pipemill"

    def estimate_inmemory_data_size(self) -> int:
        """The stored bytes of all objects."""
        return sum(one.size for one in self._objects)

    def tasks(self, wanted: int | None = None) -> int:
        """The number of read tasks: `wanted` ones, or by default as :func:`read` says."""
        if wanted is None:
            if not ray.is_initialized():
                ray.init()
            cpus = int(ray.cluster_resources().get("CPU", 1))
            wanted = max(2 * cpus, self.estimate_inmemory_data_size() // _TASK_BYTES)
        return min(wanted, len(self._objects))

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[Any]:
        """At most `parallelism` tasks. For Ray, which calls it."""
        tasks = []
        for part in deal(self._objects, parallelism):
            names = [one.name for one in part]
            metadata = BlockMetadata(
                num_rows=None,
                size_bytes=sum(one.size for one in part),
                exec_stats=None,
                input_files=tuple(names),
            )
            read = partial(self._read, names)
            tasks.append(ReadTask(read, metadata, per_task_row_limit=per_task_row_limit))
        return tasks


def _blocks(
    names: list[str], reader: TaskReader, absent: AbsentValues
) -> Iterator[Any]:
    """The records of these objects as tables. It runs in a worker of Ray."""
    with RestartingBatches(lambda state: reader.open(names, state=state)) as batches:
        for batch in batches:
            yield _table(batch, absent.of(batch.fields))


def _table(batch: Batch, absent: Mapping[str, Any]) -> Any:
    """A table that has its own memory, of types that all of Ray Data knows. Numbers of one shape
    are Ray's tensors, so its batches have them as one array."""
    schema, arrays = plain_arrays(batch, Copies())
    for number, field in enumerate(batch.fields):
        value = absent.get(field.name, MISSING)
        if _is_tensor(field, value is not MISSING):
            array = np.array(batch.dense(field.name, value), _FLOATS.get(field.scalar))
            column = ArrowTensorArray.from_numpy(array)
            schema = schema.set(number, pa.field(field.name, column.type))
        else:
            kind = plain_type(schema.field(number).type)
            column = arrays[number]
            if column.type != kind:
                column = column.cast(kind)
            if value is not MISSING and column.null_count:
                column = pc.coalesce(column, plain_scalar(field, value))
            schema = schema.set(number, schema.field(number).with_type(kind))
        arrays[number] = column
    return pa.Table.from_arrays(arrays, schema=schema)


#: Arrow has no bfloat16.
_FLOATS = {"bfloat16": "f4"}


def _is_tensor(field: Field, filled: bool) -> bool:
    """Whether all records have numbers of one shape, of more than one."""
    numbers = field.scalar not in STRINGS and not is_uuid(field)
    known = bool(field.shape) and 0 not in field.shape
    return numbers and known and (filled or not field.nullable)
