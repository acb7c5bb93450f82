"""Learns to read handwritten digits from a pipemill channel: softmax regression in numpy.

Each batch is two arrays that look into the host's shared memory: `x`, the pixels, and `y`, the
digit. Every fifth row is never learned from; the accuracy is measured on these.
"""

import sys
import time

import numpy as np

import pipemill

EXPECTED = 0.9  # accuracy below which something is wrong
RATE, ROWS_A_STEP = 0.5, 32


def with_bias(x):
    """Pixels as 0 to 1, and a column of ones."""
    return np.hstack([x / 16, np.ones((len(x), 1), x.dtype)])


def learn(weights, x, y):
    """One pass over these rows, in small steps down the slope of the cross-entropy."""
    x, y = with_bias(x), y.astype(int)
    for at in range(0, len(x), ROWS_A_STEP):
        rows, digits = x[at : at + ROWS_A_STEP], y[at : at + ROWS_A_STEP]
        scores = rows @ weights
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        odds[np.arange(len(digits)), digits] -= 1
        weights -= RATE / len(rows) * rows.T @ odds


def accuracy(weights, x, y):
    return float(((with_bias(x) @ weights).argmax(axis=1) == y).mean())


def main():
    weights = np.zeros((65, 10), np.float32)
    held_x, held_y = [], []
    records, learning, score = 0, 0.0, 0.0
    started = time.perf_counter()
    with pipemill.connect("train") as stream:
        for epoch in stream.epochs():
            for batch in epoch:
                begun = time.perf_counter()
                x, y = batch["x"], batch["y"]
                held = (batch.first_record + np.arange(len(batch))) % 5 == 0
                if epoch.number == 0:
                    held_x.append(x[held])  # a selection is a copy: the batch can go back
                    held_y.append(y[held])
                learn(weights, x[~held], y[~held])
                records += len(batch)
                learning += time.perf_counter() - begun
            score = accuracy(weights, np.concatenate(held_x), np.concatenate(held_y))
            print(f"epoch {epoch.number:2}: accuracy {score:.3f} on {sum(map(len, held_y))} held-out rows")
    seconds = time.perf_counter() - started
    print(f"{records:,} records in {seconds:.2f} s: {records / seconds:,.0f} records/s")
    busy = 100 * learning / seconds
    print(f"train.py: {busy:.0f}% of the time learning, the rest waiting for batches")
    if not score > EXPECTED:
        sys.exit(f"train.py: accuracy {score:.3f}, expected more than {EXPECTED}")


if __name__ == "__main__":
    main()
