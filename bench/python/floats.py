"""Compares the floats that `types = "auto"` reads with Python's `float()`, bit by bit.

    floats.py PIPEMILL [COUNT]

The texts are random: digits with and without a dot and an exponent, shortest texts of random bits,
and texts half between two floats. COUNT is 1,000,000 by default.
"""

import json
import random
import struct
import subprocess
import sys
from fractions import Fraction


def text(rng):
    kind = rng.randrange(4)
    if kind == 0:
        return repr(struct.unpack("d", rng.randbytes(8))[0])
    digits = "".join(rng.choices("0123456789", k=rng.randrange(1, 25)))
    if kind == 1:
        at = rng.randrange(len(digits) + 1)
        return rng.choice(["", "-", "+"]) + digits[:at] + "." + digits[at:]
    if kind == 2:
        return f"{rng.choice('+-')}{digits[0]}.{digits[1:]}{rng.choice('eE')}{rng.randrange(-330, 310)}"
    # A value half between two neighbours, with all of its digits.
    number = rng.randrange(1 << 52, 1 << 53)
    half = Fraction(2 * number + 1, 2) / (1 << rng.randrange(60))
    return f"{half.numerator * 5 ** (half.denominator.bit_length() - 1)}e-{half.denominator.bit_length() - 1}"


def main():
    binary, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    rng = random.Random(0)
    texts = [text(rng) for _ in range(count)]
    # The first value makes the column a float.
    rows = "x\n0.5\n" + "\n".join(texts) + "\n"
    command = [binary, "cat", "-d", "csv", "-o", "header=auto", "-o", "types=auto", "-"]
    done = subprocess.run(command, input=rows.encode(), stdout=subprocess.PIPE, check=True)
    words = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}
    found = [json.loads(line)["fields"]["x"] for line in done.stdout.splitlines()[1:]]
    assert len(found) == count, (len(found), count)
    wrong = 0
    for given, value in zip(texts, found):
        want, value = float(given), float(words.get(value, value))
        if struct.pack("d", want) != struct.pack("d", value) and want == want:
            wrong += 1
            print(f"{given}: float() gives {want!r}, pipemill {value!r}")
    print(f"{count} texts, {wrong} differ")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
