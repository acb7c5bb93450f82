"""Shared memory mapped read-only, and windows into it that tell when nobody looks through them.

A window is a `ctypes` array over a piece of the mapping. Everything that is made from it (a
memoryview, a slice of that, a numpy array, a tensor) keeps the window alive through the buffer
protocol, so a weak reference to the window dies when, and only when, the last view does. That
costs about a microsecond and needs no polling. The mapping stays as long as a window lives.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from typing import Any

from .errors import ProtocolError

_libc: Any = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
_libc.munmap.restype = ctypes.c_int
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_FAILED = ctypes.c_void_p(-1).value


class Mapping:
    """`size` bytes of the memory behind `fd`, which the caller may close afterwards."""

    def __init__(self, fd: int, size: int) -> None:
        self._address = 0
        self._size = size
        if size == 0:
            return  # a ring without slots: every batch has memory of its own
        _check(fd, size)
        address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        if address is None or address == _FAILED:
            code = ctypes.get_errno()
            raise OSError(code, f"can't map {size} bytes of shared memory: {os.strerror(code)}")
        self._address = address

    def window(self, offset: int, kind: Any) -> Any:
        """A window at `offset`, of a type made with `window_type`. The caller checks the range."""
        window = kind.from_address(self._address + offset)
        window.mapping = self
        return window

    def __del__(self, munmap: Any = _libc.munmap) -> None:
        if self._address:
            munmap(self._address, self._size)


def window_type(size: int) -> Any:
    """The type of windows of `size` bytes."""
    return ctypes.c_ubyte * size


def view(window: Any) -> memoryview:
    """The window's bytes, read-only."""
    return memoryview(window).cast("B").toreadonly()


def _check(fd: int, size: int) -> None:
    """Refuses memory that is, or could become, too short: reading it would kill this process."""
    try:
        there = os.fstat(fd).st_size
        sealed = fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
    except OSError as error:
        raise ProtocolError(
            f"the host sent a descriptor that is no sealed memory: {error}"
        ) from None
    if there < size or not sealed:
        raise ProtocolError(
            f"the host's shared memory has {there} bytes of the {size} announced and is "
            f"{'' if sealed else 'not '}sealed; it is not safe to read, so it was not mapped"
        )
