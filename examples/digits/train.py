"""Learns to recognize handwritten digits from a pipemill channel.

Each batch has two arrays, views of the host's shared memory: `x`, the pixels, and `y`, the digit.
Every fifth row is not used for learning; the accuracy is measured on these.
"""

import sys
import time

import numpy as np
import pipemill

import softmax


def main():
    weights = softmax.new_weights()
    held_x, held_y = [], []
    records, learning, accuracy = 0, 0.0, 0.0
    print("accuracy after each epoch:", end="", flush=True)
    started = time.perf_counter()
    with pipemill.connect("train") as stream:
        for epoch in stream.epochs():
            for batch in epoch:
                begun = time.perf_counter()
                x, y = batch["x"], batch["y"]
                held = (batch.first_record + np.arange(len(batch))) % 5 == 0
                if epoch.number == 0:
                    held_x.append(x[held])  # a selection: a copy, which needs no batch
                    held_y.append(y[held])
                softmax.learn(weights, x[~held], y[~held])
                records += len(batch)
                learning += time.perf_counter() - begun
            right = softmax.right(weights, np.concatenate(held_x), np.concatenate(held_y))
            accuracy = right / sum(map(len, held_y))
            print(f" {accuracy:.3f}", end="", flush=True)
    seconds = time.perf_counter() - started
    print(f", on {sum(map(len, held_y))} rows not learned from")
    waited = f"train.py waited {1 - learning / seconds:.0%} of the time for batches"
    print(f"{records:,} records in {seconds:.2f} s, {records / seconds:,.0f} records/s; {waited}")
    if not accuracy > softmax.EXPECTED:
        sys.exit(f"train.py: accuracy {accuracy:.3f}, expected more than {softmax.EXPECTED}")


if __name__ == "__main__":
    main()
