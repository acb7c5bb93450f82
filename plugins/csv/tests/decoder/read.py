"""Reads texts from standard input, and writes what Python's csv reads in them.

The first line is a JSON list of dialects: arguments of `csv.reader`, and these of our own:
  "comment"  lines that start with it, where a row could start, are removed
  "by_lf"    lines end only at LF, as if the file were read in binary mode
  "limit"    csv.field_size_limit; without it there is no limit
  "keep_bom" a byte order mark is not removed
Then come the cases. Each has two numbers of 4 bytes, little-endian (index of the dialect, length of the
text), and the text. The text is UTF-8 if it is valid UTF-8, else Latin-1. A byte order mark before it is
removed, as the encoding "utf-8-sig" does.

The output is a JSON list. For each case it has the rows, the error that ended them, the number of rows
with strict=True, and the error that ended those. The bytes of fields are characters of Latin-1.
"""

import csv
import io
import json
import struct
import sys

BOM = b"\xef\xbb\xbf"


class Lines:
    """The lines of a text, without comments."""

    def __init__(self, text, comment, by_lf):
        self.lines = iter(io.StringIO(text, newline="\n" if by_lf else ""))
        self.comment = comment
        self.at_row = True

    def __iter__(self):
        return self

    def __next__(self):
        line = next(self.lines)
        while self.comment and self.at_row and line.startswith(self.comment):
            line = next(self.lines)
        self.at_row = False
        return line


def rows(text, dialect, strict):
    """The rows, and the error that ended them."""
    reader_options = dict(dialect)
    comment, by_lf = reader_options.pop("comment", None), reader_options.pop("by_lf", False)
    csv.field_size_limit(reader_options.pop("limit", 1 << 30))
    lines = Lines(text, comment, by_lf)
    reader = csv.reader(lines, strict=strict, **reader_options)
    found = []
    while True:
        lines.at_row = True
        try:
            found.append(next(reader))
        except StopIteration:
            return found, None
        except csv.Error as error:
            return found, str(error)


def read(data, dialect):
    if data.startswith(BOM) and not dialect.get("keep_bom"):
        data = data[len(BOM):]
    dialect = {key: value for key, value in dialect.items() if key != "keep_bom"}
    try:
        encoding, text = "utf-8", data.decode("utf-8")
    except UnicodeDecodeError:
        encoding, text = "latin-1", data.decode("latin-1")
    plain, error = rows(text, dialect, False)
    strict, strict_error = rows(text, dialect, True)
    assert strict == plain[:len(strict)]
    bytes_of = lambda field: field.encode(encoding).decode("latin-1")
    plain = [list(map(bytes_of, row)) for row in plain]
    return {"rows": plain, "error": error, "strict": len(strict), "strict_error": strict_error}


stdin = sys.stdin.buffer
dialects = json.loads(stdin.readline())
results = []
while head := stdin.read(8):
    number, length = struct.unpack("<II", head)
    results.append(read(stdin.read(length), dialects[number]))
json.dump(results, sys.stdout)
