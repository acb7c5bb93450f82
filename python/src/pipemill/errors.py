"""The exceptions of this package. Each text says what happened and what to do."""

from __future__ import annotations

from typing import Any


class PipemillError(Exception):
    """The base of all errors of this package."""


class ConnectError(PipemillError, ConnectionError):
    """There is no host at the socket, or it did not answer."""


class Refused(ConnectError):
    """The host answered, and said no: there is no such channel, or this user may not read it."""


class ProtocolError(PipemillError):
    """The host sent something that version 1 of the protocol does not have."""


class HostDied(PipemillError, ConnectionError):
    """The host hung up before the stream had ended. Views that you hold stay readable.

    ``batches`` and ``records`` say how much had been read.
    """

    def __init__(self, message: str, *, batches: int = 0, records: int = 0) -> None:
        super().__init__(message)
        self.batches = batches
        self.records = records


class StreamTimeout(PipemillError, TimeoutError):
    """Nothing came within the ``timeout`` of :func:`pipemill.connect`. Asking again is fine."""


class HeldError(PipemillError):
    """The next batch was asked for while all that may be held at once is held.

    Nothing is lost: let go of what is named in the text, and ask again.
    """


class ForkError(PipemillError):
    """The stream was used in another process than the one that connected it."""


class ClosedError(PipemillError, ValueError):
    """A batch or a stream was used after it had been given back or closed."""


class AbsentError(PipemillError, ValueError):
    """An array was asked for, but some records do not have the field. See ``Batch.column``."""


class DecodeError(PipemillError):
    """The host ended the channel with an error. The text is the host's, written for a person.

    A plain ``DecodeError`` says that the input does not fit its format. The subclasses are for
    what is not the input's fault: :class:`PluginError`, :class:`SourceError`, :class:`LimitError`
    and :class:`HostError`. All but ``kind`` and ``channel`` may be ``None``::

        try:
            train(stream)
        except pipemill.DecodeError as error:
            print(error.kind, error.object, error.offset, error.record)
    """

    #: "decode", "plugin", "source", "limit" or "host".
    kind: str
    channel: str
    #: Number of the epoch, from 0.
    epoch: int | None
    #: Name of the object (file, S3 key) in which it happened.
    object: str | None
    #: Byte offset in the object.
    offset: int | None
    #: Number of the record in the object, from 0.
    record: int | None
    #: Name of the decoder.
    decoder: str | None

    def __init__(self, message: str, *, kind: str, channel: str, **where: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.channel = channel
        self.epoch = where.get("epoch")
        self.object = where.get("object")
        self.offset = where.get("offset")
        self.record = where.get("record")
        self.decoder = where.get("decoder")


class PluginError(DecodeError):
    """``kind`` "plugin": the decoder itself failed or broke its contract."""


class SourceError(DecodeError):
    """``kind`` "source": the input can't be read."""


class LimitError(DecodeError):
    """``kind`` "limit": a limit of the channel's configuration was hit."""


class HostError(DecodeError):
    """``kind`` "host": the host itself failed."""


#: The class for each ``kind`` of an ERROR message; any other kind is a plain `DecodeError`.
BY_KIND: dict[str, type[DecodeError]] = {
    "plugin": PluginError,
    "source": SourceError,
    "limit": LimitError,
    "host": HostError,
}
