"""A pipemill decoder for a small format, to copy and change. A file is the magic `PSTR`, then
records: a length (16 bits, little-endian), then that many bytes."""

from pipemill_plugin import BYTES, UTF8, DecodeError, Decoder, Field, OptionSpec, Progress

MAGIC = b"PSTR"
LENGTH = 2


class Strings(Decoder):
    OPTIONS = [OptionSpec("text", "bool", "false", "make the field text: strings must be UTF-8")]

    # State that is kept between calls. Never keep a part of a record: the host passes unconsumed
    # bytes again.
    def __init__(self, options, info):
        self.text = options.is_on("text")
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
            length = int.from_bytes(chunk[at:start], "little")
            stop = start + length
            # A message says what was expected and what was found. pipemill adds file, offset and
            # record number.
            if length > self.max_record:
                most = self.max_record
                message = f"a string of {length} bytes is larger than max_record ({most})"
                raise DecodeError(at, message, resume_at=stop)
            if stop > len(chunk):
                # The chunk ends inside the record: leave it unconsumed, and say how long it is.
                return Progress(at, stop - at)
            if self.text:
                try:
                    chunk[start:stop].decode()
                except UnicodeDecodeError as error:
                    message = f"expected UTF-8, which ends at byte {error.start} of the string"
                    raise DecodeError(at, message, resume_at=stop) from None
            # A span: the bytes stay in the chunk, nothing is copied.
            out.span(at, start, stop)
            at = stop
        return Progress(at, LENGTH)


def hex(data):
    return "[" + ", ".join(f"{byte:02x}" for byte in data) + "]"
