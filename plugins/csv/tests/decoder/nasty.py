"""Reads texts from standard input, answers what Python's csv reads in them.

Each case: two numbers of 4 bytes, little-endian (number of the dialect, length of the text), then
the text. The answer is one JSON list, a list of rows for each case; bytes are characters of latin-1.
"""

import csv
import io
import json
import struct
import sys

DIALECTS = [
    {},
    {"escapechar": "\\"},
    {"escapechar": "\\", "doublequote": False},
    {"quoting": csv.QUOTE_NONE},
    {"delimiter": "\t", "quotechar": "'"},
]

csv.field_size_limit(1 << 30)
data = sys.stdin.buffer
answers = []
while head := data.read(8):
    dialect, length = struct.unpack("<II", head)
    text = io.StringIO(data.read(length).decode("latin-1"), newline="")
    answers.append(list(csv.reader(text, **DIALECTS[dialect])))
json.dump(answers, sys.stdout)
