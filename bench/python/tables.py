"""The CPU time of a table for a library: ``tables.py LIBRARY FILE DECODER OPTIONS``, where the options are JSON.

``numpy`` has the columns of each batch as arrays, and of text the places, and keeps nothing. The others take the stream as
Arrow. ``own-`` before a library is its own reader of the same file, with the same columns and one thread. The program and
its host count, for the second of two readings. Prints the number of records and the seconds.
"""

import json
import os
import resource
import sys

os.environ["POLARS_MAX_THREADS"] = "1"

# The package imports it with the first array, which is not to be measured.
import numpy  # noqa: E402, F401
import pipemill  # noqa: E402


def numpy_columns(stream):
    records = 0
    for batch in stream:
        for field in batch.fields:
            if field.scalar == "utf8":
                batch.offsets(field.name), batch.lengths(field.name)
            else:
                batch[field.name]
        records += len(batch)
    return records


def pyarrow_batches(stream):
    import pyarrow

    return sum(batch.num_rows for batch in pyarrow.RecordBatchReader.from_stream(stream))


def pyarrow_table(stream):
    import pyarrow

    return pyarrow.table(stream).num_rows


def polars_frame(stream):
    import polars

    return polars.DataFrame(stream).height


def duckdb_query(stream):
    import duckdb

    duckdb.execute("set threads = 1")
    counts = ", ".join(f'count("{field.name}")' for field in stream.fields)
    return duckdb.execute(f"select {counts} from stream").fetchone()[0]


def own_pyarrow(path, decoder, fields):
    import pyarrow
    from pyarrow import csv, json

    types = {name: pyarrow.string() if scalar == "utf8" else pyarrow.type_for_alias(scalar) for name, scalar in fields}
    if decoder == "csv":
        read = csv.ReadOptions(use_threads=False, column_names=list(types))
        return csv.read_csv(path, read_options=read, convert_options=csv.ConvertOptions(column_types=types)).num_rows
    parse = json.ParseOptions(explicit_schema=pyarrow.schema(types), unexpected_field_behavior="ignore")
    return json.read_json(path, read_options=json.ReadOptions(use_threads=False), parse_options=parse).num_rows


def own_polars(path, decoder, fields):
    import polars

    kinds = {"utf8": polars.String, "int64": polars.Int64, "float64": polars.Float64}
    schema = {name: kinds[scalar] for name, scalar in fields}
    if decoder == "csv":
        return polars.read_csv(path, has_header=False, schema=schema).height
    return polars.scan_ndjson(path, schema=schema).collect().height


def own_duckdb(path, decoder, fields):
    import duckdb

    duckdb.execute("set threads = 1")
    kinds = {"utf8": "VARCHAR", "int64": "BIGINT", "float64": "DOUBLE"}
    columns = ", ".join(f"'{name}': '{kinds[scalar]}'" for name, scalar in fields)
    function = "read_csv" if decoder == "csv" else "read_json"
    more = "header = false" if decoder == "csv" else "format = 'newline_delimited'"
    counts = ", ".join(f'count("{name}")' for name, _ in fields)
    query = f"select {counts} from {function}('{path}', {more}, columns = {{{columns}}})"
    return duckdb.execute(query).fetchone()[0]


OWN_READERS = {"own-pyarrow": own_pyarrow, "own-polars": own_polars, "own-duckdb": own_duckdb}
READERS = {
    "numpy": numpy_columns,
    "pyarrow-batches": pyarrow_batches,
    "pyarrow": pyarrow_table,
    "polars": polars_frame,
    "duckdb": duckdb_query,
}


def cpu_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def opened():
    return pipemill.open(file, decoder, options=json.loads(options))


def read():
    if own := OWN_READERS.get(library):
        return own(file, decoder, fields)
    with opened() as stream:
        return READERS[library](stream)


library, file, decoder, options = sys.argv[1:]
with opened() as stream:
    fields = [(field.name, field.scalar) for field in stream.fields]
for _ in range(2):
    began = cpu_seconds()
    records = read()
    seconds = cpu_seconds() - began  # the host has ended
print(records, seconds)
