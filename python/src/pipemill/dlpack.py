"""Arrays for libraries that take them by DLPack.

A read-only array is of little use there. A legacy consumer refuses it, JAX refuses it in all
versions, and PyTorch ignores that it is read-only: a write would end the process. So these arrays
lie in the private mapping, whose pages the kernel copies when the program writes to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .batch import Batch
    from .column import Column


def writable(batch: Batch, column: Column) -> Any:
    """The dense array of a column, made writable: a view if its rows are evenly spaced and aligned.
    Raises the errors of `Batch.dense`, and :class:`ImportError` without numpy."""
    try:
        from .numpy_arrays import payload_array
    except ImportError as error:
        raise ImportError(
            f"dlpack() needs numpy, which can't be imported ({error}): pip install numpy"
        ) from None
    payload = batch._writable_payload()
    if payload is not None:
        column = column.over(payload, payload_array(payload))
    array = column.dense()
    # DLPack counts strides in elements.
    return array if array.flags.writeable and array.flags.aligned else array.copy()
