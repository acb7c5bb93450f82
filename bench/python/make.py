"""Writes the input files with the formats' own writers: ``make.py WRITER FILE``.

Also writes a small file for warming up, ``FILE.small``.
"""

import io
import os
import sys
from typing import Callable

import numpy

RNG = numpy.random.default_rng(42)


def numbers(path: str, share: float) -> None:
    """Rows of 20 numbers, as measuring devices write them."""
    rows = RNG.normal(0, 100, size=(max(1, int(400_000 * share)), 20))
    numpy.savetxt(path, rows, fmt="%.4f", delimiter=",")


def recordio_protobuf(path: str, share: float) -> None:
    from sagemaker.amazon.common import write_numpy_to_dense_tensor

    count = max(1, int(60_000 * share))
    features = RNG.normal(size=(count, 100)).astype("float32")
    with open(path, "wb") as file:
        write_numpy_to_dense_tensor(file, features, numpy.arange(count).astype("float32"))


def webdataset(path: str, share: float, size: int) -> None:
    from webdataset import TarWriter

    with TarWriter(path) as tar:
        for n in range(max(1, int((64 << 20) * share) // size)):
            tar.write({"__key__": f"sample{n:06}", "bin": RNG.bytes(size)})


def webdataset_1k(path: str, share: float) -> None:
    webdataset(path, share, 1 << 10)


def webdataset_100k(path: str, share: float) -> None:
    webdataset(path, share, 100 << 10)


def main(write: Callable[[str, float], None], path: str) -> None:
    for name, share in [(path, 1.0), (path + ".small", 0.001)]:
        if not os.path.exists(name):
            part = f"{path}.part.tar" if "webdataset" in write.__name__ else f"{path}.part"
            write(part, share)
            os.rename(part, name)
        with io.FileIO(name) as file:
            while file.read(1 << 20):
                pass


if __name__ == "__main__":
    main(globals()[sys.argv[1]], sys.argv[2])
