"""Batches of records by their numbers: ``by_number.py INDEX random|sequential``. Prints the number of batches and the
mean of their seconds."""

import random
import sys
import time

import numpy  # noqa: F401 (the package imports it with the first field, which must not be measured)
import pipemill

BATCH = 256

index, order = sys.argv[1:]
if order == "sequential":
    with pipemill.open(index, batch=BATCH, tail="drop", epochs=4) as stream:
        batches = iter(stream)
        next(batches)
        began = time.perf_counter()
        count = sum(len(batch) // BATCH for batch in batches)
        seconds = time.perf_counter() - began
else:
    with pipemill.Dataset(index) as dataset:
        numbers = [number for seed in range(4) for number in random.Random(seed).sample(range(len(dataset)), len(dataset))]
        dataset.batch(numbers[:BATCH])
        began = time.perf_counter()
        count = len(numbers) // BATCH - 1
        for start in range(BATCH, (count + 1) * BATCH, BATCH):
            dataset.batch(numbers[start : start + BATCH])
        seconds = time.perf_counter() - began
print(count, seconds / count)
