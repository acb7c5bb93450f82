"""Other readers of the same files, each used in its fastest way: ``peers.py READER FILE``."""

import os
import sys
import time
from typing import Callable

import numpy

CountAndSeconds = "tuple[int, int]"


def pandas(path: str) -> CountAndSeconds:
    from pandas import read_csv

    whole = read_csv(path, header=None, dtype="float32", engine="c").to_numpy()
    return len(whole), whole.nbytes


def pyarrow(path: str) -> CountAndSeconds:
    from pyarrow import csv, float32

    with open(path, "rb") as file:
        columns = len(file.readline().split(b","))
    names = [f"f{n}" for n in range(columns)]
    table = csv.read_csv(
        path,
        read_options=csv.ReadOptions(use_threads=False, column_names=names),
        convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, float32())),
    )
    whole = numpy.column_stack([column.to_numpy() for column in table.columns])
    return len(whole), whole.nbytes


def sagemaker(path: str) -> CountAndSeconds:
    from sagemaker.amazon.common import read_records

    with open(path, "rb") as file:
        rows = [row.features["values"].float32_tensor.values for row in read_records(file)]
    whole = numpy.array(rows, dtype=numpy.float32)
    return len(whole), whole.nbytes


def webdataset(path: str) -> CountAndSeconds:
    from webdataset import WebDataset

    count = size = 0
    for sample in WebDataset(path, shardshuffle=False):
        count += 1
        size += len(sample["__key__"]) + len(sample["bin"])
    return count, size


def main(reader: Callable[[str], CountAndSeconds], path: str) -> None:
    # Read a small file first, because imports at the first use should not be measured.
    os.environ["ARROW_NUM_THREADS"] = "1"
    reader(path + ".small")
    started = time.perf_counter()
    count, size = reader(path)
    print(count, size, time.perf_counter() - started)


if __name__ == "__main__":
    main(globals()[sys.argv[1]], sys.argv[2])
