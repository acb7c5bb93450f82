"""Softmax regression on the digits, in numpy: the examples' model. It does not use pipemill."""

import numpy as np

PIXELS, DIGITS = 64, 10
RATE, ROWS_A_STEP = 0.5, 32
EXPECTED = 0.9  # a lower accuracy means that something is wrong


def new_weights():
    return np.zeros((PIXELS + 1, DIGITS), np.float32)


def with_bias(x):
    """Pixels as 0 to 1, and a column of ones."""
    return np.hstack([x / np.float32(16), np.ones((len(x), 1), np.float32)])


def learn(weights, x, y):
    """One pass over these rows: gradient descent on the cross-entropy, in small steps."""
    x, y = with_bias(x), y.astype(int)
    for at in range(0, len(x), ROWS_A_STEP):
        rows, digits = x[at : at + ROWS_A_STEP], y[at : at + ROWS_A_STEP]
        scores = rows @ weights
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        odds[np.arange(len(digits)), digits] -= 1
        # The gradient is not divided by len(rows): the last step of a batch may have few rows, and
        # is smaller then.
        weights -= RATE / ROWS_A_STEP * rows.T @ odds


def right(weights, x, y):
    """Number of rows whose digit is recognized."""
    return int(((with_bias(x) @ weights).argmax(axis=1) == y).sum())
