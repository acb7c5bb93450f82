"""Batches as arrays of JAX. ::

    import pipemill, pipemill.jax

    with pipemill.open("data/*.npy", batch=256) as stream:
        for batch in stream:
            arrays = pipemill.jax.arrays(batch)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from .absent import AbsentValues
from .batch import Batch
from .schema import MISSING, STRINGS


def arrays(
    batch: Batch, sharding: Any = None, absent: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The fields of numbers of a batch, as a dict of ``jax.Array``. Fields with categories give
    their codes. Text and bytes are left out, because JAX has no such arrays.

    :param sharding: a device or a sharding, as ``jax.device_put`` takes it; None: the default
        device.
    :param absent: the values for records that do not have a field, by the names of fields:
        ``absent={"age": float("nan"), "label": -1}``. For a field with categories it is one of
        them, or a code.

    On the CPU an array is a view of the shared memory if its rows follow each other and begin at a
    multiple of 64 bytes. Such an array holds the batch, and so a credit, until it has died and JAX
    is called again or garbage is collected. Otherwise it is a copy. As everywhere in JAX, 64-bit
    numbers become 32-bit ones unless ``jax_enable_x64`` is set. Numbers that 32 bits can't hold are
    an error.

    Raises :class:`AbsentError` if a record does not have a field for which `absent` has no value,
    :class:`ValueError` if the values of a field are not equally long, or too large for 32 bits, and
    :class:`TypeError` if no field has numbers.
    """
    values = AbsentValues(absent).of(batch.fields)
    names = [field.name for field in batch.fields if field.scalar not in STRINGS]
    if not names:
        kinds = ", ".join(f"{field.name!r} ({field.scalar})" for field in batch.fields)
        raise TypeError(
            f"no field of {batch._name()} has numbers, which JAX needs: {kinds}; decode them, or "
            "take bytes of one length by jax.device_put(batch.dense(name))"
        )
    found = {}
    for name in names:
        array = batch.dense(name, values.get(name, MISSING))
        kind = jax.dtypes.canonicalize_dtype(array.dtype)
        if kind != array.dtype:
            _check_narrowed(batch, name, array, kind)
        found[name] = jax.device_put(array, sharding)
    return found


def _check_narrowed(batch: Batch, name: str, array: Any, kind: Any) -> None:
    """Refuses numbers that do not fit into the 32 bits that JAX makes of them."""
    if array.dtype.kind == "f":
        wrong = np.isfinite(array) & (np.abs(array) > np.finfo(kind).max)
    else:
        limits = np.iinfo(kind)
        wrong = (array < limits.min) | (array > limits.max)
    rows = np.flatnonzero(wrong.reshape(len(array), -1).any(1))
    if len(rows):
        number = array[rows[0]][wrong[rows[0]]].flat[0]
        raise ValueError(
            f"field {name!r} of row {rows[0]} of {batch._name()} has the value {number}, and JAX "
            f'makes {kind} of {array.dtype}; call jax.config.update("jax_enable_x64", True) first'
        )
