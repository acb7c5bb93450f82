"""Inside the sandbox: makes the class derived from `Decoder` in decoder.py the exports of a
component. `componentize-py` generates the module `wit_world` from the interface, so this runs only
there."""

from __future__ import annotations

import decoder as author
from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import pipemill_guest as wit
from wit_world.exports import plan as wit_plan
from wit_world.imports import blocks, columns, host, types

import pipemill_plugin as api

CLASSES = [
    item
    for item in vars(author).values()
    if isinstance(item, type) and issubclass(item, api.Decoder) and item is not api.Decoder
]
if len(CLASSES) != 1:
    raise ImportError(f"decoder.py has {len(CLASSES)} classes that derive from Decoder; write one")
CLASS = CLASSES[0]


# Whether the author's class, or one that it derives from, has these methods.
PLANS, PREPARES, CARRIES = (
    any(name in vars(base) for base in CLASS.__mro__ if base not in api.Decoder.__mro__)
    for name in ("plan", "prepare", "load")
)


class Host:
    """The imports of the component, as the host of `Records`."""

    @staticmethod
    def set_schema(fields):
        host.set_schema([lower(field) for field in fields])

    @staticmethod
    def decompress(codec, span, skip, most):
        try:
            part = host.decompress(codec, span, skip, most)
        except Err as error:
            raise ValueError(error.value) from None
        return part.bytes, part.last

    @staticmethod
    def read_block(codec, span, skip, most):
        try:
            return blocks.read(codec, span, skip, most)
        except Err as error:
            raise ValueError(error.value) from None

    @staticmethod
    def emit_columns(records, spans, made, start):
        columns.emit_columns(records, [columns.Column(*it) for it in spans], made, start)

    @staticmethod
    def log(level, message):
        host.log(types.Level(level), message)

    set_metadata = staticmethod(host.set_metadata)
    emit = staticmethod(host.emit)
    bad = staticmethod(host.bad)
    check_crc32c = staticmethod(host.check_crc32c)
    check_crc32 = staticmethod(host.check_crc32)


def lower(field):
    return types.Field(
        field.name,
        field.scalar,
        list(field.shape),
        field.nullable,
        field.logical,
        list(field.categories),
        list(field.metadata.items()),
    )


def log_exceptions(function):
    """Logs the text of an unexpected exception. Without this the host sees only a trap without a
    text."""

    def wrapped(*args):
        try:
            return function(*args)
        except Err:
            raise
        except Exception as error:
            place = error.__traceback__
            # The module `traceback` would read the source file, but there are no files. The frames
            # of pipemill_plugin.py are left out, because the error is in the caller of its
            # functions.
            while place:
                code = place.tb_frame.f_code
                if not code.co_filename.endswith("pipemill_plugin.py"):
                    where = (code.co_filename.split("/")[-1], place.tb_lineno, code.co_name)
                place = place.tb_next
            where = "{}:{}, in {}".format(*where)
            host.log(types.Level.ERROR, f"{type(error).__name__}: {error} ({where})")
            raise

    return wrapped


class PipemillGuest(exports.PipemillGuest):
    @log_exceptions
    def options(self):
        return [
            wit.OptionSpec(o.name, o.kind, o.default, o.required, o.help) for o in CLASS.OPTIONS
        ]


def options_of(given):
    values = api.Options((o.name, o.default) for o in CLASS.OPTIONS if o.default is not None)
    values.update(given)
    values.prepared = Preparing.made
    return values


def info_of(info):
    return api.StreamInfo(
        info.channel,
        info.epoch,
        info.object,
        info.max_record,
        info.size,
        info.content_type,
        info.etag,
        dict(info.extensions),
    )


def refused(function, *args):
    """The result of a function of the author's. A ValueError is for the operator."""
    try:
        return function(*args)
    except ValueError as error:
        raise Err(str(error)) from None


class Preparing(exports.Preparing):
    made = None

    def prepares(self):
        return PREPARES

    @log_exceptions
    def prepare(self, given, files):
        Preparing.made = refused(CLASS.prepare, options_of(given), dict(files))


class Plan(exports.Plan):
    def plans(self):
        return PLANS

    @log_exceptions
    def companions(self, given):
        rules = refused(CLASS.companions, options_of(given))
        return [wit_plan.Companion(rule.object, rule.companion) for rule in rules]

    @log_exceptions
    def step(self, given, info, seen):
        pieces = [api.Piece(piece.of, piece.offset, piece.bytes) for piece in seen]
        step = refused(CLASS.plan, options_of(given), info_of(info), pieces)
        if step is None:
            return wit_plan.Next_Whole()
        if isinstance(step, api.Read):
            return wit_plan.Next_Read(ranges(step.ranges))
        parts = [wit_plan.Part(it.context, ranges(it.ranges), it.records) for it in step.parts]
        return wit_plan.Next_Parts(parts)


def ranges(given):
    return [wit_plan.Range(it.of, it.offset, it.length) for it in given]


class Carry(exports.Carry):
    def carries(self):
        return CARRIES

    @log_exceptions
    def save(self, stream):
        return stream.decoder.save()

    @log_exceptions
    def load(self, given, info, saved):
        decoder = refused(CLASS.load, options_of(given), info_of(info), saved)
        return Stream.of(decoder, info.offsets)


class Rest(exports.Rest):
    @log_exceptions
    def decode(self, stream, end_of_input):
        return stream.decode(stream.rest, end_of_input)


class Stream(wit.Stream):
    @classmethod
    def of(cls, decoder, offsets):
        stream = cls()
        stream.decoder = decoder
        stream.out = api.Records(Host, offsets)
        fields = decoder.schema()
        if fields is not None:
            stream.out.set_schema(fields)
        return stream

    @classmethod
    @log_exceptions
    def open(cls, given, info):
        decoder = refused(CLASS, options_of(given), info_of(info))
        return cls.of(decoder, info.offsets)

    @log_exceptions
    def decode(self, chunk, end_of_input):
        self.out.begin_call()
        try:
            progress = self.decoder.decode(chunk, end_of_input, self.out)
        except api.DecodeError as error:
            self.out.flush()
            if error.refused:
                resume = wit.Resume_Refused()
            elif error.resume_at is not None:
                resume = wit.Resume_At(error.resume_at)
            elif error.search_from is not None:
                resume = wit.Resume_Scan(error.search_from)
            else:
                resume = wit.Resume_None_()
            raise Err(wit.DecodeError(error.offset, error.message, resume)) from None
        self.out.flush()
        # The chunk, if the host asks for the rest of it.
        self.rest = chunk[progress.consumed :] if progress.more else None
        return wit.Progress(progress.consumed, min(progress.need, 0xFFFFFFFF), progress.more)

    @log_exceptions
    def resync(self, chunk, end_of_input):
        resync = self.decoder.resync(chunk, end_of_input)
        return wit.Resynced(resync.consumed, resync.found)
