"""A pipemill decoder for a small format, to copy and change. A file is the magic `PSTR`, then records:
the length as a little-endian 16-bit number, then so many bytes."""

from pipemill_plugin import BYTES, UTF8, DecodeError, Decoder, Field, Option, Progress

MAGIC = b"PSTR"
LENGTH = 2


class Strings(Decoder):
    OPTIONS = [Option("text", "bool", "false", "make the field text: strings must be UTF-8")]

    # What is kept between calls. Never a part of a record: bytes not consumed are shown again.
    def __init__(self, options, info):
        self.text = options["text"] == "true"
        self.max_record = info.max_record
        self.magic_seen = False

    def schema(self):
        return [Field("string", UTF8 if self.text else BYTES)]

    def decode(self, chunk, end, out):
        at = 0
        if not self.magic_seen:
            magic = chunk[: len(MAGIC)]
            if len(magic) < len(MAGIC):
                return Progress(0, len(MAGIC))
            if magic != MAGIC:
                raise DecodeError(0, f"expected the magic {hex(MAGIC)}, found {hex(magic)}")
            self.magic_seen = True
            at = len(MAGIC)
        while at + LENGTH <= len(chunk):
            start = at + LENGTH
            stop = start + int.from_bytes(chunk[at:start], "little")
            if stop > len(chunk):
                # The record is not whole: say how much it wants and leave it unconsumed.
                return Progress(at, stop - at)
            if why := self.refusal(chunk, start, stop):
                raise DecodeError(at, why, resume_at=stop)
            # A span: the bytes stay where they are, nothing is copied.
            out.span(at, start, stop)
            at = stop
        return Progress(at, LENGTH)

    def refusal(self, chunk, start, stop):
        """Says what was expected and what stood there; pipemill adds file, offset and record number."""
        if stop - start > self.max_record:
            return (
                f"a string of {stop - start} bytes is larger than max_record ({self.max_record})"
            )
        if self.text:
            try:
                chunk[start:stop].decode()
            except UnicodeDecodeError as error:
                return f"expected UTF-8, which ends at byte {error.start} of the string"
        return None


def hex(data):
    return "[" + ", ".join(f"{byte:02x}" for byte in data) + "]"
