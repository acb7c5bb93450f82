"""Batches and streams for all libraries that read Arrow: pyarrow, polars, DuckDB and others.

They take a :class:`pipemill.Batch`, :class:`pipemill.Stream` or :class:`pipemill.Epoch` as it is,
by Arrow's PyCapsule interface. `types` says which Arrow type a field becomes, `columns` makes the
arrays over the shared memory, `reader` makes a stream of them.

This needs pyarrow, whose C++ code releases the arrays. A consumer may release them while an
exception is propagating, in a thread that Python does not know, or while the interpreter shuts
down. A callback made with `ctypes` is harmful in all of these cases: with pyarrow 26 it ended the
process.
"""

from __future__ import annotations

from typing import Any

#: The first version that has all types of fields.
_OLDEST = 19


def import_pyarrow(what: str) -> Any:
    """The module pyarrow, which `what` needs. Raises :class:`ImportError`, with a remedy."""
    remedy = f"pip install 'pyarrow>={_OLDEST}'"
    try:
        import pyarrow
    except ImportError as error:
        why = f"{what} needs pyarrow, which can't be imported ({error}): {remedy}"
        raise ImportError(why) from None
    if int(pyarrow.__version__.partition(".")[0]) < _OLDEST:
        raise ImportError(f"{what} needs pyarrow {_OLDEST}, found {pyarrow.__version__}: {remedy}")
    return pyarrow
