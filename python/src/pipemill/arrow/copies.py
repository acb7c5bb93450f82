"""The copies of a batch, which hold nothing of the host's memory."""

from __future__ import annotations

from typing import Any
from weakref import ref

import pyarrow as pa


class _Copy(bytearray):
    """Bytes that can be referred to weakly."""

    __slots__ = ("__weakref__",)


class Copies:
    """Makes the copies of one batch, and knows whether one of them lives."""

    def __init__(self) -> None:
        self._made: list[ref[Any]] = []

    def add(self, data: Any) -> Any:
        """A copy of `data` as a buffer of Arrow."""
        copy = _Copy(data)
        self._made.append(ref(copy))
        return pa.py_buffer(memoryview(copy).toreadonly())

    def wrap(self, copy: Any) -> Any:
        """A buffer of Arrow of an array that is a copy already."""
        self._made.append(ref(copy))
        return pa.py_buffer(copy)

    def are_alive(self) -> bool:
        """Whether a buffer lives."""
        return any(one() is not None for one in self._made)
