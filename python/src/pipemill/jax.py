"""Batches as arrays of JAX. ::

    import pipemill, pipemill.jax

    with pipemill.open("data/*.npy", batch=256) as stream:
        for batch in stream:
            arrays = pipemill.jax.arrays(batch)
"""

from __future__ import annotations

from typing import Any

import jax

from .batch import Batch
from .schema import STRINGS


def arrays(batch: Batch, sharding: Any = None) -> dict[str, Any]:
    """The fields of numbers of a batch, as a dict of ``jax.Array``. Fields with categories give
    their codes. Text and bytes are left out, because JAX has no such arrays.

    :param sharding: a device or a sharding, as ``jax.device_put`` takes it; None: the default
        device.

    On the CPU an array is a view of the shared memory if its rows follow each other and begin at a
    multiple of 64 bytes. Such an array holds the batch, and so a credit, until it has died and JAX
    is called again or garbage is collected. Else it is a copy. As everywhere in JAX, 64-bit numbers
    become 32-bit ones unless ``jax_enable_x64`` is set.

    Raises :class:`ValueError` where a field is absent in a record or its values are not equally
    long, and :class:`TypeError` where no field has numbers.
    """
    names = [field.name for field in batch.fields if field.scalar not in STRINGS]
    if not names:
        kinds = ", ".join(f"{field.name!r} ({field.scalar})" for field in batch.fields)
        raise TypeError(
            f"no field of {batch._name()} has numbers, which JAX needs: {kinds}; decode them, or "
            "take bytes of one length by jax.device_put(batch.dense(name))"
        )
    return {name: jax.device_put(batch.dense(name), sharding) for name in names}
