"""Reads a pipemill channel: batches of records in shared memory, without a copy.

::

    import pipemill

    with pipemill.connect("train") as stream:
        for epoch in stream.epochs():
            for batch in epoch:
                x, y = batch["x"], batch["y"]    # numpy arrays, views of shared memory

The host, `pipemill run`, reads and decodes. This package needs only the standard library, and uses
numpy where it is installed. Start with :func:`connect`. :class:`Batch` describes what a batch has,
and :class:`PipemillError` is the base of all errors.
"""

from .batch import Batch
from .errors import (
    AbsentError,
    ClosedError,
    ConnectError,
    DecodeError,
    ForkError,
    HeldError,
    HostDied,
    HostError,
    LimitError,
    PipemillError,
    PluginError,
    ProtocolError,
    Refused,
    RefusedError,
    SourceError,
    StateError,
    StreamTimeout,
)
from .position import Position
from .record import Record
from .schema import Field
from .stream import Epoch, Stream, connect
from .version import __version__

__all__ = [
    "AbsentError",
    "Batch",
    "ClosedError",
    "ConnectError",
    "DecodeError",
    "Epoch",
    "Field",
    "ForkError",
    "HeldError",
    "HostDied",
    "HostError",
    "LimitError",
    "PipemillError",
    "PluginError",
    "Position",
    "ProtocolError",
    "Record",
    "Refused",
    "RefusedError",
    "SourceError",
    "StateError",
    "Stream",
    "StreamTimeout",
    "__version__",
    "connect",
]
