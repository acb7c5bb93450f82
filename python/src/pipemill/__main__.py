"""``python -m pipemill ARGS`` is the program ``pipemill`` that was installed with the package."""

from __future__ import annotations

import os
import sys

from .binary import NAME, find_binary
from .errors import BinaryNotFound


def main() -> None:
    try:
        binary = find_binary()
    except BinaryNotFound as error:
        sys.exit(f"pipemill: {error}")
    os.execv(binary, [NAME, *sys.argv[1:]])


if __name__ == "__main__":
    main()
