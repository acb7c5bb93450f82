"""Readers of the same records as batches of bytes, each used in its fastest way: ``loaders.py READER FILE RECORD COUNT``.

`FILE` has `COUNT` records of `RECORD` bytes, as TFRecord or, if its name has "webdataset" in it, as
a tar of members ``.bin``. One byte of each cache line is added up, by numpy. The first epoch warms
up, and the later ones are measured: the read-ahead at their end equals that at their beginning.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any, Callable

import numpy

LINE = 64
#: A measurement ends after this number of epochs, or of seconds.
EPOCHS, SECONDS = 4, 5.0


def rows_of(record: int) -> int:
    """Number of records of a batch: 1024, or fewer if they are large. A slot of the ring has 4 MiB
    by default.
    """
    return max(1, min(1024, (3 << 20) // record))


def decoder(path: str) -> dict[str, Any]:
    return {"decoder": "webdataset", "fields": "bin"} if "webdataset" in path else {"decoder": "tfrecord"}


def pipemill_numpy(path: str, record: int) -> Iterator[Any]:
    import pipemill

    with pipemill.open(path, batch=rows_of(record), epochs=None, **decoder(path)) as stream:
        for batch in stream:
            yield batch.dense(batch.fields[-1].name)


def pipemill_torch(path: str, record: int) -> Iterator[Any]:
    from pipemill.torch import Loader

    how = decoder(path)
    name = how.get("fields", "data")
    loader = Loader(path, batch=rows_of(record), tail="keep", dense=name, **how)
    while True:
        for batch in loader:
            yield batch[name]


def tf_data(path: str, record: int) -> Iterator[Any]:
    import tensorflow as tf

    data = tf.data.TFRecordDataset(path).repeat().batch(rows_of(record))
    # Without this, numpy would get each record as an object of Python.
    data = data.map(lambda one: tf.io.decode_raw(one, tf.uint8), tf.data.AUTOTUNE)
    yield from data.prefetch(tf.data.AUTOTUNE).as_numpy_iterator()


def webdataset(path: str, record: int, workers: int = 0) -> Iterator[Any]:
    import webdataset

    data = webdataset.WebDataset(path, shardshuffle=False, empty_check=False).repeat()
    data = data.map(of_member).batched(rows_of(record), collation_fn=numpy.stack)
    yield from webdataset.WebLoader(data, batch_size=None, num_workers=workers)


def of_member(sample: dict[str, Any]) -> Any:
    return numpy.frombuffer(sample["bin"], "u1")


def webdataset_worker(path: str, record: int) -> Iterator[Any]:
    return webdataset(path, record, 1)


def main(reader: Callable[[str, int], Iterator[Any]], path: str, record: int, records: int) -> None:
    total = seen = 0
    started = 0.0
    for batch in reader(path, record):
        total += int(numpy.asarray(batch)[:, ::LINE].sum())
        seen += len(batch)
        if not started and seen >= records:
            started, first = time.perf_counter(), seen
        elif started and (seen >= (1 + EPOCHS) * records or time.perf_counter() - started > SECONDS):
            break
    seconds = time.perf_counter() - started
    print(seen - first, total, seconds)


if __name__ == "__main__":
    main(globals()[sys.argv[1]], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
