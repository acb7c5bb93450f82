"""The records of a file as blocks of Ray Data, by pipemill and by Ray's own reader: ``ray_data.py FORMAT FILE ROUNDS``.

Both run in turns, on a cluster of two CPUs. The first round only warms up: Ray starts its workers. Prints the number of
records, and the median seconds of pipemill and of Ray.
"""

from __future__ import annotations

import logging
import statistics
import sys
import time
from typing import Any

import pyarrow.csv
import ray
import ray.data

import pipemill.ray

#: The types that Ray's reader finds in the file that `data.rs` makes.
TYPES = {"types": "utf8,0:int64,1:float64,3:int64,4:float64,6:int64"}
#: The features that `make.py` writes.
FEATURES = {"features": "id:int64,label:int64,x:float32[16],name:utf8,data:bytes"}


def csv(path: str) -> Any:
    # The first row is no header.
    return ray.data.read_csv(path, read_options=pyarrow.csv.ReadOptions(autogenerate_column_names=True))


READERS = {
    "csv": (lambda path: pipemill.ray.read(path, "csv", options=TYPES), csv),
    "tf-example": (
        lambda path: pipemill.ray.read(path, "tf-example", options=FEATURES),
        ray.data.read_tfrecords,
    ),
    "webdataset": (
        lambda path: pipemill.ray.read(path, "webdataset", fields="bin"),
        # Without decoder=None it would make numbers of members.
        lambda path: ray.data.read_webdataset(path, decoder=None),
    ),
}


def records(data: Any) -> int:
    return sum(block.num_rows for block in data.iter_batches(batch_size=None, batch_format="pyarrow"))


def main(readers: tuple[Any, Any], path: str, rounds: int) -> None:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel("ERROR")
    seconds: list[list[float]] = [[], []]
    counts = set()
    for number in range(rounds + 1):
        for read, found in zip(readers, seconds):
            began = time.monotonic()
            counts.add(records(read(path)))
            if number:
                found.append(time.monotonic() - began)
    if len(counts) != 1:
        raise SystemExit(f"{path}: the readers found {sorted(counts)} records")
    print(*counts, *map(statistics.median, seconds))


main(READERS[sys.argv[1]], sys.argv[2], int(sys.argv[3]))
