"""Reads a pipemill channel: batches of records in shared memory, without a copy.

::

    import pipemill

    with pipemill.open("train.csv", options={"header": "auto", "types": "auto"}) as stream:
        for batch in stream:
            x, y = batch["x"], batch["y"]    # numpy arrays, views of shared memory

A host, the program `pipemill`, reads and decodes. :func:`open` starts one for this program.
:func:`connect` reads from one that others started. This package needs only the standard library,
and uses numpy where it is installed. :class:`Batch` describes what a batch has,
and :class:`PipemillError` is the base of all errors.
"""

from .batch import Batch
from .binary import find_binary
from .errors import (
    AbsentError,
    BinaryNotFound,
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
from .opening import cat, open
from .position import Position
from .private_host import Host, host
from .record import Record
from .schema import Field
from .stream import Epoch, Stream, connect
from .transform import Transform
from .version import __version__

__all__ = [
    "AbsentError",
    "Batch",
    "BinaryNotFound",
    "ClosedError",
    "ConnectError",
    "DecodeError",
    "Epoch",
    "Field",
    "ForkError",
    "HeldError",
    "Host",
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
    "Transform",
    "__version__",
    "cat",
    "connect",
    "find_binary",
    "host",
    "open",
]
