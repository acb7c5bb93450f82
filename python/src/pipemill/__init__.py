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

from __future__ import annotations

# Each name is imported when it is first used, because to import all of them takes 30 to 40 ms. A
# program that only imports this package, or runs the binary, should not wait for that. Type
# checkers see all names.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .batch import Batch
    from .binary import find_binary
    from .dataset import Dataset
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
    from .indexing import index
    from .opening import cat, open
    from .position import Position
    from .private_host import Host, host
    from .record import Record
    from .schema import Field
    from .stream import Epoch, Stream, connect
    from .transform import Transform
    from .version import __version__
    from .waits import Waits

__all__ = [
    "AbsentError",
    "Batch",
    "BinaryNotFound",
    "ClosedError",
    "ConnectError",
    "Dataset",
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
    "Waits",
    "__version__",
    "cat",
    "connect",
    "find_binary",
    "host",
    "index",
    "open",
]

#: The modules of these names. All other names are errors.
_MODULES = {
    "Batch": "batch",
    "Dataset": "dataset",
    "Epoch": "stream",
    "Field": "schema",
    "Host": "private_host",
    "Position": "position",
    "Record": "record",
    "Stream": "stream",
    "Transform": "transform",
    "Waits": "waits",
    "__version__": "version",
    "cat": "opening",
    "connect": "stream",
    "find_binary": "binary",
    "host": "private_host",
    "index": "indexing",
    "open": "opening",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f".{_MODULES.get(name, 'errors')}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
