"""Writes rows of a CSV file as TFRecords: `write_tfrecord.py ROWS.csv OUT.tfrecord`.

A record has the layout of `RECORD`: the row's numbers as float32, the last one as int32. The
framing is that of TensorFlow: length, checksum of the length, record, checksum of the record.
"""

import struct
import sys

RECORD = struct.Struct("<64fi")


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc32c_table()


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    # The format rotates the checksum and adds a constant, because the checksum of bytes that
    # contain their own checksum is weak.
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(data):
    length = struct.pack("<Q", len(data))
    checks = struct.pack("<I", masked_crc32c(length)), struct.pack("<I", masked_crc32c(data))
    return length + checks[0] + data + checks[1]


if __name__ == "__main__":
    rows, out = sys.argv[1:]
    with open(rows) as lines, open(out, "wb") as file:
        for line in lines:
            *pixels, digit = map(int, line.split(","))
            file.write(framed(RECORD.pack(*pixels, digit)))
