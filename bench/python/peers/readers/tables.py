"""Text in rows and lines, and recordio-protobuf: as one array of numbers, or as columns whose values are all counted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy

from ..task import Task, whole

Items = Iterator["tuple[int, int]"]
#: The columns of `make.fields`, and the keys of `make.jsonl` that are read.
FIELDS = [f"f{number}" for number in range(8)]


def added(rows: Any) -> tuple[int, int]:
    """The rows of an array, and the sum of its values in thousandths. Parsers may round the last digit of a value differently."""
    return len(rows), round(float(rows.sum(dtype="f8")) * 1000)


# --- one float32 array of all rows


def pipemill_array(task: Task) -> Items:
    """Copies each batch into an array of the whole epoch. The array grows, because a program does
    not know the number of rows in advance.
    """
    import pipemill

    field = task.options["field"]
    kept = {key: value for key, value in task.options.items() if key != "field"}
    with pipemill.open(task.files, epochs=None, **kept) as stream:
        rows, count = numpy.empty((0, 0), "f4"), 0
        for batch in stream:
            part = batch[field]
            if count + len(part) > len(rows):
                # Pages that are never written take no memory.
                larger = numpy.empty((max(4 * len(rows), 1 << 20) + len(part), part.shape[1]), "f4")
                if count:
                    larger[:count] = rows[:count]
                rows = larger
            rows[count : count + len(part)] = part
            count += len(part)
            if count == task.records:
                yield added(rows[:count])
                rows, count = numpy.empty((0, 0), "f4"), 0


def columns_of(path: str) -> int:
    with open(path, "rb") as file:
        return len(file.readline().split(b","))


@whole
def pandas_array(task: Task) -> Items:
    from pandas import read_csv

    while True:
        yield added(read_csv(task.files[0], header=None, dtype="float32", engine="c").to_numpy())


@whole
def pyarrow_array(task: Task) -> Items:
    from pyarrow import csv, float32

    names = [f"f{number}" for number in range(columns_of(task.files[0]))]
    while True:
        table = csv.read_csv(
            task.files[0],
            read_options=csv.ReadOptions(use_threads=task.options["threads"] > 1, column_names=names),
            convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, float32())),
        )
        yield added(numpy.column_stack([column.to_numpy() for column in table.columns]))


@whole
def polars_array(task: Task) -> Items:
    os.environ["POLARS_MAX_THREADS"] = str(task.options["threads"])
    import polars

    schema = {f"f{number}": polars.Float32 for number in range(columns_of(task.files[0]))}
    while True:
        yield added(polars.read_csv(task.files[0], has_header=False, schema=schema).to_numpy())


@whole
def sagemaker_array(task: Task) -> Items:
    from sagemaker.amazon.common import read_records

    while True:
        with open(task.files[0], "rb") as file:
            rows = [row.features["values"].float32_tensor.values for row in read_records(file)]
        yield added(numpy.array(rows, dtype="f4"))


# --- all fields of rows of text: their lengths are added


def pipemill_fields(task: Task) -> Items:
    import pipemill

    with pipemill.open(task.files, epochs=None, **task.options) as stream:
        for batch in stream:
            yield len(batch), sum(int(batch.lengths(field.name).sum()) for field in batch.fields)


def pipemill_arrow(task: Task) -> Items:
    import pipemill
    import pyarrow

    with pipemill.open(task.files, epochs=None, **task.options) as stream:
        for batch in stream:
            table = pyarrow.record_batch(batch)
            yield table.num_rows, sum(map(lengths_of_views, table.columns))


def lengths_in_arrow(table: Any) -> tuple[int, int]:
    from pyarrow import compute

    return table.num_rows, sum(compute.sum(compute.binary_length(column)).as_py() for column in table.columns)


def lengths_of_views(column: Any) -> int:
    """pyarrow has no such function for views: each has 16 bytes, of which the first four are the length."""
    lengths = numpy.frombuffer(column.buffers()[1], "i4")[::4]
    return int(lengths[column.offset : column.offset + len(column)].sum())


@whole
def pyarrow_fields(task: Task) -> Items:
    from pyarrow import csv, string

    while True:
        yield lengths_in_arrow(
            csv.read_csv(
                task.files[0],
                read_options=csv.ReadOptions(use_threads=task.options["threads"] > 1, column_names=FIELDS),
                convert_options=csv.ConvertOptions(column_types=dict.fromkeys(FIELDS, string())),
            )
        )


@whole
def polars_fields(task: Task) -> Items:
    os.environ["POLARS_MAX_THREADS"] = str(task.options["threads"])
    import polars

    schema = dict.fromkeys(FIELDS, polars.String)
    while True:
        table = polars.read_csv(task.files[0], has_header=False, schema=schema)
        yield table.height, sum(table.select(polars.all().str.len_bytes().sum()).row(0))


def python_fields(task: Task) -> Items:
    import csv

    while True:
        with open(task.files[0], newline="") as file:
            reader = csv.reader(file)
            while rows := list(islice(reader, task.rows)):
                yield len(rows), sum(sum(map(len, row)) for row in rows)


# --- three values of each line of JSON: `id`, `score` and `text`


def values(ids: Any, scores: Any, text_bytes: int) -> tuple[int, int]:
    return len(ids), int(ids.sum()) + int(scores.astype("i8").sum()) + text_bytes


def pipemill_jsonl(task: Task) -> Items:
    import pipemill

    with pipemill.open(task.files, epochs=None, **task.options) as stream:
        for batch in stream:
            yield values(batch["id"], batch["score"], int(batch.lengths("text").sum()))


def of_arrow(table: Any) -> tuple[int, int]:
    from pyarrow import compute

    text_bytes = compute.sum(compute.binary_length(table["text"])).as_py()
    return values(table["id"].to_numpy(), table["score"].to_numpy(), text_bytes)


@whole
def pyarrow_jsonl(task: Task) -> Items:
    import pyarrow
    from pyarrow import json

    schema = pyarrow.schema({"id": pyarrow.int64(), "score": pyarrow.float64(), "text": pyarrow.string()})
    while True:
        yield of_arrow(
            json.read_json(
                task.files[0],
                read_options=json.ReadOptions(use_threads=task.options["threads"] > 1),
                parse_options=json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
            )
        )


@whole
def polars_jsonl(task: Task) -> Items:
    os.environ["POLARS_MAX_THREADS"] = str(task.options["threads"])
    import polars

    schema = {"id": polars.Int64, "score": polars.Float64, "text": polars.String}
    while True:
        table = polars.scan_ndjson(task.files[0], schema=schema).select(list(schema)).collect()
        yield values(table["id"].to_numpy(), table["score"].to_numpy(), table["text"].str.len_bytes().sum())


def hf_jsonl(task: Task) -> Items:
    from datasets import load_dataset

    data = load_dataset("json", data_files={"train": task.files}, split="train", streaming=True)
    while True:
        yield from map(of_arrow, data.select_columns(["id", "score", "text"]).with_format("arrow").iter(task.rows))


def python_jsonl(task: Task) -> Items:
    import json

    while True:
        with open(task.files[0], "rb") as file:
            while lines := list(islice(file, task.rows)):
                found = [json.loads(line) for line in lines]
                yield len(found), sum(one["id"] + int(one["score"]) + len(one["text"]) for one in found)
