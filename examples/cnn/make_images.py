"""Makes tar archives of small images, as webdataset has them: `000042.pgm` and its class, `000042.cls`.

Usage: make_images.py FOLDER [IMAGES]
"""

import io
import pathlib
import sys
import tarfile

import numpy as np

SIDE, ARCHIVES = 16, 4
CLASSES = ("disc", "bar", "pole", "cross")


def draw(chance, kind):
    """A shape somewhere, and noise: SIDE x SIDE of uint8."""
    y, x = np.indices((SIDE, SIDE)) - chance.integers(5, SIDE - 5, size=(2, 1, 1))
    shape = {
        "disc": x**2 + y**2 <= 12,
        "bar": (abs(y) <= 1) & (abs(x) <= 4),
        "pole": (abs(x) <= 1) & (abs(y) <= 4),
        "cross": ((abs(x) <= 1) | (abs(y) <= 1)) & (abs(x) <= 4) & (abs(y) <= 4),
    }[CLASSES[kind]]
    return (shape * 128 + chance.integers(0, 128, size=(SIDE, SIDE))).astype(np.uint8)


def add(archive, name, data):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def main():
    folder = pathlib.Path(sys.argv[1])
    images = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(1)
    for part, numbers in enumerate(np.array_split(np.arange(images), ARCHIVES)):
        with tarfile.open(folder / f"shapes-{part}.tar", "w") as archive:
            for number in numbers:
                kind = int(chance.integers(len(CLASSES)))
                image = b"P5 %d %d 255\n" % (SIDE, SIDE) + draw(chance, kind).tobytes()
                add(archive, f"{number:06}.pgm", image)
                add(archive, f"{number:06}.cls", b"%d" % kind)
    print(f"{images:,} images in {ARCHIVES} archives")


if __name__ == "__main__":
    main()
