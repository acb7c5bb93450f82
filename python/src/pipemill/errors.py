"""The exceptions of this package. Each text says what happened and what to do."""

from __future__ import annotations

from typing import Any, cast


class PipemillError(Exception):
    """The base of all errors of this package.

    All of them can be pickled and copied, even subclasses of your own with any constructor: the
    copy has the type, the text and the attributes. So an error of a worker (of ``multiprocessing``,
    ``concurrent.futures``, a ``DataLoader``, Ray) reaches the program.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        _, args, *attributes = cast("tuple[Any, ...]", super().__reduce__())
        return (made_again, (type(self), args), *attributes)


def made_again(kind: type[PipemillError], args: tuple[Any, ...]) -> PipemillError:
    """An error of this type, made of `args`. Only the constructor of Python's own base class runs,
    because another one may need more arguments."""
    base: Any = next(one for one in kind.__mro__ if one.__module__ == "builtins")
    error: PipemillError = base.__new__(kind, *args)
    base.__init__(error, *args)
    return error


class BinaryNotFound(PipemillError, FileNotFoundError):
    """The program ``pipemill``, which is the host, is not installed."""


class ConnectError(PipemillError, ConnectionError):
    """There is no host at the socket, or it does not answer."""


class Refused(ConnectError):
    """The host refused: there is no such channel, or this user may not read it."""


class ProtocolError(PipemillError):
    """The host sent something that the protocol does not allow."""


class HostDied(PipemillError, ConnectionError):
    """The host hung up before the end of the stream. Views that you hold stay readable.

    If the host is this program's own, the text names the signal or the exit status that it ended
    with, and the place of its log.

    ``batches`` and ``records`` are the numbers of batches and records that had been read.
    """

    def __init__(self, message: str, *, batches: int = 0, records: int = 0) -> None:
        super().__init__(message)
        self.batches = batches
        self.records = records


class StreamTimeout(PipemillError, TimeoutError):
    """Nothing came within the ``timeout`` of :func:`pipemill.connect`. You may ask again."""


class HeldError(PipemillError):
    """The program asked for the next batch while it held as many batches as it may.

    Nothing is lost: drop the batches or views that the text names, and ask again.
    """


class StateError(PipemillError):
    """The stream has no state: not all batches of the channel were delivered to this program.

    In mode "share", each batch goes to one of the consumers.
    """


class ForkError(PipemillError):
    """The stream was used in another process than the one that connected it."""


class ClosedError(PipemillError, ValueError):
    """A batch was used after it was given back, or a stream after it was closed."""


class AbsentError(PipemillError, ValueError):
    """An array was asked for, but some records do not have the field. See ``Batch.column``."""


class DecodeError(PipemillError):
    """The host ended the channel with an error. The text is the host's, written for a person.

    A ``DecodeError`` itself means that the input does not fit its format. Its subclasses are for
    other causes: :class:`RefusedError`, :class:`PluginError`, :class:`SourceError`,
    :class:`LimitError` and :class:`HostError`. All but ``kind`` and ``channel`` may be ``None``.
    ``channel`` is empty if the host failed before it had one::

        try:
            train(stream)
        except pipemill.DecodeError as error:
            print(error.kind, error.object, error.offset, error.record)
    """

    #: "decode", "refused", "plugin", "source", "limit" or "host".
    kind: str
    #: Name of the channel.
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

    _kind = "decode"

    def __init__(
        self, message: str, *, kind: str | None = None, channel: str = "", **where: Any
    ) -> None:
        super().__init__(message)
        # Libraries make the error again from its text alone.
        self.kind = self._kind if kind is None else kind
        self.channel = channel
        self.epoch = where.get("epoch")
        self.object = where.get("object")
        self.offset = where.get("offset")
        self.record = where.get("record")
        self.decoder = where.get("decoder")


class RefusedError(DecodeError):
    """``kind`` "refused": the decoder does not support its options or the input."""

    _kind = "refused"


class PluginError(DecodeError):
    """``kind`` "plugin": the decoder failed or broke its contract."""

    _kind = "plugin"


class SourceError(DecodeError):
    """``kind`` "source": the input can't be read."""

    _kind = "source"


class LimitError(DecodeError):
    """``kind`` "limit": a limit of the channel's configuration was hit."""

    _kind = "limit"


class HostError(DecodeError):
    """``kind`` "host": the host itself failed."""

    _kind = "host"


#: The class for each ``kind`` of an ERROR message; any other kind is a plain `DecodeError`.
BY_KIND: dict[str, type[DecodeError]] = {
    kind._kind: kind for kind in (RefusedError, PluginError, SourceError, LimitError, HostError)
}
