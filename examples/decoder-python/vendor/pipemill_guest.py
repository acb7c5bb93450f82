"""Inside the sandbox: makes the class derived from `Decoder` in decoder.py the exports of a
component. `componentize-py` generates the module `wit_world` from the interface, so this runs only
there."""

from __future__ import annotations

import decoder as author
from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import pipemill_guest as wit
from wit_world.imports import host, types

import pipemill_plugin as api

CLASSES = [
    item
    for item in vars(author).values()
    if isinstance(item, type) and issubclass(item, api.Decoder) and item is not api.Decoder
]
if len(CLASSES) != 1:
    raise ImportError(f"decoder.py has {len(CLASSES)} classes that derive from Decoder; write one")
CLASS = CLASSES[0]


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


class Stream(wit.Stream):
    @classmethod
    @log_exceptions
    def open(cls, given, info):
        values = api.Options((o.name, o.default) for o in CLASS.OPTIONS if o.default is not None)
        values.update(given)
        stream = cls()
        stream.out = api.Records(Host, info.offsets)
        about = api.StreamInfo(
            info.channel,
            info.epoch,
            info.object,
            info.max_record,
            info.size,
            info.content_type,
            info.etag,
            dict(info.extensions),
        )
        try:
            stream.decoder = CLASS(values, about)
        except ValueError as error:
            raise Err(str(error)) from None
        fields = stream.decoder.schema()
        if fields is not None:
            stream.out.set_schema(fields)
        return stream

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
        return wit.Progress(progress.consumed, min(progress.need, 0xFFFFFFFF), progress.more)

    @log_exceptions
    def resync(self, chunk, end_of_input):
        resync = self.decoder.resync(chunk, end_of_input)
        return wit.Resynced(resync.consumed, resync.found)
