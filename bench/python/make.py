"""Writes the benches' input files, with the formats' own writers: ``make.py WRITER RECORD BYTES FILE [BYTES FILE]…``.

Each file has about `BYTES` bytes, in records of `RECORD` bytes if the writer makes records of one
size. The same number of a file in the command gives the same records with each writer; ``2*BYTES``
gives those of two files. Prints the number of records of each file, which is also in
``FILE.count``. An existing file is left unchanged. Some formats are folders.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import sys
from collections.abc import Iterator
from typing import Any, Callable

import numpy

#: Values of a row of numbers, as measuring devices write them.
COLUMNS = 20
#: Values of a recordio-protobuf record.
FEATURES = 100


@dataclasses.dataclass
class Wanted:
    record: int
    size: int
    #: The numbers of the files whose records it gets.
    numbers: range

    @property
    def random(self) -> Any:
        return numpy.random.default_rng(self.numbers[0])

    def payloads(self) -> Iterator[bytes]:
        for number in self.numbers:
            random = numpy.random.default_rng(number)
            for _ in range(max(1, self.size // self.record)):
                yield random.bytes(self.record)


def tfrecord(path: str, wanted: Wanted) -> int:
    import tensorflow as tf

    with tf.io.TFRecordWriter(path) as file:
        return sum(file.write(payload) is None for payload in wanted.payloads())


def recordio(path: str, wanted: Wanted) -> int:
    from mxnet.recordio import MXRecordIO

    file = MXRecordIO(path, "w")
    count = sum(file.write(payload) is None for payload in wanted.payloads())
    file.close()
    return count


def webdataset(path: str, wanted: Wanted) -> int:
    from webdataset import TarWriter

    count = 0
    with TarWriter(path) as tar:
        for payload in wanted.payloads():
            tar.write({"__key__": f"sample{count:07}", "bin": payload})
            count += 1
    return count


def tf_example(path: str, wanted: Wanted) -> int:
    """Records of two numbers, 16 floats, a short name, and bytes, which are the rest of a record."""
    import tensorflow as tf

    count, of_record = 0, max(1, wanted.record - 160)
    with tf.io.TFRecordWriter(path) as file:
        for payload in dataclasses.replace(wanted, record=of_record).payloads():
            numbers = numpy.frombuffer(payload[:16].ljust(16, b"\1"), "u1")
            of = {
                "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[count])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[count % 10])),
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=numbers / 7.0)),
                "name": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"sample %d" % count])),
                "data": tf.train.Feature(bytes_list=tf.train.BytesList(value=[payload])),
            }
            file.write(tf.train.Example(features=tf.train.Features(feature=of)).SerializeToString())
            count += 1
    return count


def array_record(path: str, wanted: Wanted) -> int:
    from array_record.python.array_record_module import ArrayRecordWriter

    # A group is compressed and read as a unit. grain requests groups of one record.
    file = ArrayRecordWriter(path, "group_size:1,uncompressed")
    count = sum(file.write(payload) is None for payload in wanted.payloads())
    file.close()
    return count


def mds(path: str, wanted: Wanted) -> int:
    from streaming import MDSWriter

    count = 0
    with MDSWriter(out=path, columns={"data": "bytes"}, size_limit="64mb") as folder:
        for payload in wanted.payloads():
            folder.write({"data": payload})
            count += 1
    return count


def litdata(path: str, wanted: Wanted) -> int:
    from litdata.streaming.writer import BinaryWriter

    os.makedirs(path)
    writer = BinaryWriter(path, chunk_bytes="64MB")
    count = 0
    for payload in wanted.payloads():
        writer[count] = payload
        count += 1
    writer.done()
    writer.merge()
    return count


def hf_arrow(path: str, wanted: Wanted) -> int:
    import pyarrow
    from datasets import Dataset

    rows = pyarrow.array(wanted.payloads(), pyarrow.large_binary())
    Dataset(pyarrow.table({"data": rows})).save_to_disk(path)
    return len(rows)


def numbers(path: str, wanted: Wanted) -> int:
    """Rows of 20 numbers with four decimals, of about eight bytes each."""
    rows = wanted.random.normal(0, 100, size=(max(1, wanted.size // (COLUMNS * 8)), COLUMNS))
    numpy.savetxt(path, rows, fmt="%.4f", delimiter=",")
    return len(rows)


def fields(path: str, wanted: Wanted) -> int:
    """Rows of eight fields with about 100 bytes together, as a spreadsheet or a database exports
    them. One field of ten is quoted and contains a delimiter."""
    import csv

    count = max(1, wanted.size // 100)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, word in zip(range(count), wanted.random.integers(1 << 40, size=count)):
            name = f"name {word % 9973}, {word % 17}" if number % 10 == 0 else f"name {word % 9973} {word % 17}"
            writer.writerow([
                number, f"{word % 7919 / 7:.6f}", name, word % 255, f"{word % 104729 / 13:.4f}", f"{word:016x}",
                "2026-11-24", "abcdefghijklmnopqrst",
            ])  # fmt: skip
    return count


def jsonl(path: str, wanted: Wanted) -> int:
    """Lines of about 200 bytes with six keys, of which three are read."""
    count = max(1, wanted.size // 200)
    with open(path, "w") as file:
        for number, word in zip(range(count), wanted.random.integers(1 << 40, size=count)):
            text = f"line {word % 7919} of some text that a model is trained with, or {word % 17} words more"
            line = {
                "id": number, "source": f"shard-{word % 97}", "text": text, "score": int(word) % 7919 / 7,
                "tags": ["a", "b"], "meta": {"lang": "en", "at": int(word)},
            }  # fmt: skip
            file.write(json.dumps(line) + "\n")
    return count


def recordio_protobuf(path: str, wanted: Wanted) -> int:
    from sagemaker.amazon.common import write_numpy_to_dense_tensor

    count = max(1, wanted.size // (4 * FEATURES))
    values = wanted.random.normal(size=(count, FEATURES)).astype("float32")
    with open(path, "wb") as file:
        write_numpy_to_dense_tensor(file, values, numpy.arange(count).astype("float32"))
    return count


def jpegs(path: str, wanted: Wanted) -> int:
    """Four archives of images of 81 KiB and their labels."""
    from peers.readers.images import functions

    count = max(4, wanted.size // (81 << 10)) // 4 * 4
    os.makedirs(path)
    functions().write_archives(pathlib.Path(path), count, 500, 375, 90)
    return count


def main(write: Callable[[str, Wanted], int], record: int, arguments: list[str]) -> None:
    number = 0
    for size, path in zip(arguments[::2], arguments[1::2]):
        parts = int(size.partition("*")[0]) if "*" in size else 1
        wanted = Wanted(record, int(size.rpartition("*")[2]), range(number, number + parts))
        number += parts
        if not os.path.exists(f"{path}.count"):
            remove(path)
            # TarWriter looks at the name's end.
            part = f"{path}.part.tar" if write is webdataset else f"{path}.part"
            remove(part)
            count = write(part, wanted)
            os.rename(part, path)
            with open(f"{path}.count", "w") as file:
                file.write(str(count))
        with open(f"{path}.count") as file:
            print(file.read())


def remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)


if __name__ == "__main__":
    main(globals()[sys.argv[1]], int(sys.argv[2]), sys.argv[3:])
