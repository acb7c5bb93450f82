"""The CPU time of a table for a library: ``tables.py LIBRARY FILE DECODER OPTIONS``, where the options are JSON.

``numpy`` has the columns of each batch as arrays, and of text the places, and keeps nothing. The others take the stream as
Arrow. The program and its host count, for the second of two readings. Prints the number of records and the seconds.
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


library, file, decoder, options = sys.argv[1:]
for _ in range(2):
    began = cpu_seconds()
    with pipemill.open(file, decoder, options=json.loads(options)) as stream:
        records = READERS[library](stream)
    seconds = cpu_seconds() - began  # the host has ended
print(records, seconds)
