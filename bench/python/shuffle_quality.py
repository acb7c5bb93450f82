"""How well orders mix: ``python shuffle_quality.py RESULT.json``, with PIPEMILL set, and numpy.

400,000 records of ten classes lie sorted by class in 40 files. Each order is that of one epoch of
`pipemill.open`; those of MosaicML Streaming are its own functions, if it can be imported, for the
same number of records, with shards as large as the blocks and a block size as large as the window.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pipemill

RECORDS, FILES, CLASSES, RECORD_BYTES = 400_000, 40, 10, 100
BATCH, WINDOW, BLOCK = 256, 80_000, "256KiB"
#: Records of a block.
OF_BLOCK = (256 << 10) // RECORD_BYTES
SHARDS = 32


def write(folder: pathlib.Path) -> pathlib.Path:
    """The data and its index."""
    data = folder / "data"
    data.mkdir()
    each = RECORDS // FILES
    for file in range(FILES):
        rows = (f"{file * each + row:0{RECORD_BYTES - 1}}\n" for row in range(each))
        (data / f"{file:02}.txt").write_text("".join(rows))
    index = folder / "train.index"
    pipemill.index(data, index, "lines", distance="64KiB")
    return index


def order_of(index: pathlib.Path, **how: Any) -> np.ndarray:
    with pipemill.open(index, batch=BATCH, **how) as stream:
        return np.array([int(row) for batch in stream for row in batch.records()])


def measure(order: np.ndarray) -> dict[str, float]:
    places = np.arange(len(order))
    classes = order * CLASSES // RECORDS
    runs = 1 + np.count_nonzero(np.diff(classes))
    batches = classes[: len(order) // BATCH * BATCH].reshape(-1, BATCH)
    return {
        "distance": float(np.abs(places - order).mean() / len(order)),
        "run": float(len(order) / runs),
        "classes": float(np.mean([len(np.unique(batch)) for batch in batches])),
        "neighbours": float(np.mean(np.abs(np.diff(order)) == 1)),
    }


def orders(index: pathlib.Path) -> Iterator[tuple[str, np.ndarray]]:
    yield "as stored", order_of(index)
    yield "`seed`: whole objects", order_of(index, shuffle=7)
    yield "`seed` and `window`", order_of(index, shuffle={"seed": 7, "window": WINDOW})
    yield "`blocks`", order_of(index, shuffle={"seed": 7, "blocks": BLOCK})
    yield f"`blocks`, `shards = {SHARDS}`", order_of(index, shuffle={"seed": 7, "blocks": BLOCK, "shards": SHARDS})
    yield "`blocks` and `window`", order_of(index, shuffle={"seed": 7, "blocks": BLOCK, "window": WINDOW})
    try:
        from streaming.base.shuffle import get_shuffle
    except ImportError:
        print("MosaicML Streaming is left out: it is not installed", file=sys.stderr)
    else:
        sizes = np.diff([*range(0, RECORDS, OF_BLOCK), RECORDS]).astype(np.int64)
        for name in ("py1br", "py1e", "py1s"):
            yield f"MosaicML Streaming, {name}", get_shuffle(name, sizes, 1, 7, 0, WINDOW)
    yield "a permutation of all records", np.random.default_rng(7).permutation(RECORDS)


def main(result: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = write(pathlib.Path(folder))
        found = []
        for name, order in orders(index):
            assert np.array_equal(np.sort(order), np.arange(RECORDS)), f"{name}: not each record once"
            found.append({"name": name, **measure(order)})
            print(f"{name}: {found[-1]}", file=sys.stderr)
    result.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
