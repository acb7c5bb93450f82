"""Records of bytes, as batches of numpy: ``uint8[records, size]``. One byte of each cache line is
added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy

from ..task import Task

Items = Iterator["tuple[int, int]"]
LINE = 64


def touched(batch: Any) -> tuple[int, int]:
    return len(batch), int(batch[:, ::LINE].sum())


def joined(records: Iterable[Any], task: Task) -> Items:
    """Batches of records that come one by one: the fastest way that Python has."""
    part: list[Any] = []
    for record in records:
        part.append(record)
        if len(part) == task.rows:
            yield touched(numpy.frombuffer(b"".join(part), "u1").reshape(-1, task.record))
            part.clear()
    if part:
        yield touched(numpy.frombuffer(b"".join(part), "u1").reshape(-1, task.record))


def pipemill(task: Task) -> Items:
    import pipemill

    with pipemill.open(task.files, batch=task.rows, epochs=None, **task.options) as stream:
        for batch in stream:
            yield touched(batch.dense(batch.fields[-1].name))


def tf_data(task: Task) -> Items:
    import tensorflow as tf

    data = tf.data.TFRecordDataset(task.files).batch(task.rows)
    # Without this, numpy would get each record as an object of Python.
    data = data.map(lambda batch: tf.io.decode_raw(batch, tf.uint8), tf.data.AUTOTUNE).repeat()
    for batch in data.prefetch(tf.data.AUTOTUNE).as_numpy_iterator():
        yield touched(batch)


def tf_data_files(task: Task) -> Items:
    import tensorflow as tf

    def of_file(path: Any) -> Any:
        data = tf.data.TFRecordDataset(path).batch(task.rows)
        return data.map(lambda batch: tf.io.decode_raw(batch, tf.uint8))

    # `num_parallel_reads` alternates record by record, which is slower than one file at a time.
    files = tf.data.Dataset.from_tensor_slices(task.files)
    data = files.interleave(of_file, cycle_length=2, num_parallel_calls=2).repeat()
    for batch in data.prefetch(tf.data.AUTOTUNE).as_numpy_iterator():
        yield touched(batch)


def tfrecord(task: Task) -> Items:
    from tfrecord.reader import tfrecord_iterator

    while True:
        for file in task.files:
            # It reuses the same memory.
            yield from joined(map(bytes, tfrecord_iterator(file)), task)


def mxnet(task: Task) -> Items:
    from mxnet.recordio import MXRecordIO

    while True:
        for path in task.files:
            file = MXRecordIO(path, "r")
            yield from joined(iter(file.read, None), task)
            file.close()


def stacked(members: list[bytes]) -> Any:
    return numpy.frombuffer(b"".join(members), "u1").reshape(len(members), -1)


def member(sample: dict[str, Any]) -> bytes:
    return sample["bin"]


def webdataset(task: Task) -> Items:
    from webdataset import WebDataset

    data = WebDataset(task.files, shardshuffle=False, empty_check=False).map(member)
    yield from map(touched, data.batched(task.rows, collation_fn=stacked).repeat())


def webdataset_workers(task: Task) -> Items:
    from webdataset import WebDataset, WebLoader

    data = WebDataset(task.files, shardshuffle=False, empty_check=False).map(member)
    data = data.batched(task.rows, collation_fn=stacked).repeat()
    for batch in WebLoader(data, batch_size=None, num_workers=2):
        yield touched(numpy.asarray(batch))


def hf_webdataset(task: Task) -> Items:
    from datasets import load_dataset

    data = load_dataset("webdataset", data_files={"train": task.files}, split="train", streaming=True)
    while True:
        yield from joined((sample["bin"] for sample in data), task)


def dali(task: Task) -> Items:
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=task.rows, num_threads=2, device_id=None, prefetch_queue_depth=2)
    def pipeline() -> Any:
        return fn.readers.webdataset(paths=task.files, ext=["bin"], dtypes=[types.UINT8])

    built = pipeline()
    built.build()
    while True:
        (batch,) = built.run()
        yield touched(batch.as_array())


def grain(task: Task) -> Items:
    import grain

    data = grain.MapDataset.source(grain.sources.ArrayRecordDataSource(task.files))
    batches = data.batch(task.rows, batch_fn=stacked).repeat()
    reading = grain.ReadOptions(num_threads=task.options["threads"], prefetch_buffer_size=16)
    yield from map(touched, batches.to_iter_dataset(reading))


def mosaicml(task: Task) -> Items:
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()
    data = StreamingDataset(local=task.files[0], shuffle=False, batch_size=task.rows)
    while True:
        yield from joined((sample["data"] for sample in data), task)


def litdata(task: Task) -> Items:
    from litdata import StreamingDataset

    data = StreamingDataset(task.files[0], shuffle=False)
    while True:
        yield from joined(data, task)


def hf_arrow(task: Task) -> Items:
    from datasets import load_from_disk

    data = load_from_disk(task.files[0]).with_format("arrow")
    while True:
        for table in data.iter(batch_size=task.rows):
            column = table["data"].combine_chunks()
            start = column.offset * task.record
            values = numpy.frombuffer(column.buffers()[2], "u1")
            yield touched(values[start : start + len(column) * task.record].reshape(-1, task.record))
