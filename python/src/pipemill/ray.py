"""Sources as data sets of Ray Data: Ray schedules, and each of its read tasks decodes its share of
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
from .arrow.columns import record_batch
from .arrow.types import is_uuid, plain_scalar, plain_type
from .batch import Batch
from .objects import deal, list_objects
from .schema import MISSING, STRINGS, Field
from .sources import Source
from .tasks import TaskReader

#: Bytes that a read task has at most by default, where there are enough objects.
_TASK_BYTES = 1 << 30


def read(
    source: Source,
    decoder: str | os.PathLike[str] | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    fields: str | Sequence[str] | None = None,
    absent: Mapping[str, Any] | None = None,
    rows_per_block: int = 4096,
    override_num_blocks: int | None = None,
    concurrency: int | None = None,
    num_cpus: float | None = None,
) -> ray.data.Dataset:
    """A ``ray.data.Dataset`` of the records. ::

        data = pipemill.ray.read("s3://bucket/train/", "webdataset", fields="jpg,cls")

    :param source: as for :func:`pipemill.open`; all nodes must reach it by the same name.
    :param decoder: as for :func:`pipemill.open`; as are `options` and `fields`.
    :param absent: the values to take where a record does not have a field, by the names of fields:
        ``absent={"age": -1, "note": ""}``. Without such a value it is null.
    :param rows_per_block: rows of each block; the last one of a read task may have fewer. A task
        that Ray runs again gives the same blocks.
    :param override_num_blocks: how many read tasks there are, at most one for each object. By
        default 2 for each CPU of the cluster, or more for sources of many GiB.
    :param concurrency: how many of them run at once.
    :param num_cpus: CPUs that Ray reserves for one: 1, if it is not given.

    Raises what :class:`Datasource` raises.
    """
    objects = Datasource(
        source, decoder, options=options, fields=fields, absent=absent,
        rows_per_block=rows_per_block,
    )  # fmt: skip
    # With more blocks than tasks, Ray would split the blocks.
    return ray.data.read_datasource(
        objects,
        override_num_blocks=objects.tasks(override_num_blocks),
        concurrency=concurrency,
        ray_remote_args=None if num_cpus is None else {"num_cpus": num_cpus},
    )


class Datasource(ray.data.Datasource):  # type: ignore[misc]
    """What :func:`read` reads. The objects are listed here, and dealt to read tasks by their sizes.
    Decoder, types and header are learned from the first of them, and given to all tasks: a task
    refuses an object with others.

    Raises :class:`SourceError` where they can't be listed, :class:`BinaryNotFound` where there is
    no host, and else what :func:`pipemill.open` raises; each node needs a host, too.
    """

    def __init__(
        self,
        source: Source,
        decoder: str | os.PathLike[str] | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        fields: str | Sequence[str] | None = None,
        absent: Mapping[str, Any] | None = None,
        rows_per_block: int = 4096,
    ) -> None:
        super().__init__()
        self._objects = list_objects(source)
        names = [one.name for one in self._objects]
        reader = TaskReader(source, names, decoder, options=options, fields=fields)
        values = AbsentValues(absent, codes=False)
        values.of(reader.fields)
        self._read = partial(_blocks, reader=reader, rows=rows_per_block, absent=values)

    def get_name(self) -> str:
        """The name in Ray's plans and its dashboard."""
        return "pipemill"

    def estimate_inmemory_data_size(self) -> int:
        """The bytes of all objects, as they are stored."""
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
    names: list[str], reader: TaskReader, rows: int, absent: AbsentValues
) -> Iterator[Any]:
    """The records of these objects as tables. It runs in a worker of Ray."""
    with reader.open(names, batch=rows, tail="keep") as stream:
        for batch in stream:
            yield _table(batch, absent.of(batch.fields))


def _table(batch: Batch, absent: Mapping[str, Any]) -> Any:
    """A table that has its own memory, of types that all of Ray Data knows. Numbers of one shape
    are Ray's tensors: then its batches have them as one array."""
    table = pa.Table.from_batches([record_batch(batch, copy=True)])
    for number, field in enumerate(batch.fields):
        value = absent.get(field.name, MISSING)
        if _is_tensor(field, value is not MISSING):
            array = np.array(batch.dense(field.name, value), _FLOATS.get(field.scalar))
            column = ArrowTensorArray.from_numpy(array)
            table = table.set_column(number, field.name, column)
            continue
        kind = plain_type(table.schema.field(number).type)
        column = table.column(number).cast(kind)
        if value is not MISSING and column.null_count:
            column = pc.coalesce(column, plain_scalar(field, value))
        table = table.set_column(number, table.schema.field(number).with_type(kind), column)
    return table


#: Arrow has no bfloat16.
_FLOATS = {"bfloat16": "f4"}


def _is_tensor(field: Field, filled: bool) -> bool:
    """Whether all records have numbers of one shape, of more than one."""
    numbers = field.scalar not in STRINGS and not is_uuid(field)
    known = bool(field.shape) and 0 not in field.shape
    return numbers and known and (filled or not field.nullable)
