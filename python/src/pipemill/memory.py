"""Shared memory, mapped read-only, and windows into it, which show when the last view has died.

A window is a `ctypes` array over a part of the mapping. Everything that is made from it (a
memoryview, a slice of that, a numpy array, a tensor) keeps the window alive through the buffer
protocol. So a weak reference to the window dies exactly when the last view does. This takes about
a microsecond and needs no polling. The mapping stays while a window lives.
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
    """The first `size` bytes of the memory of `fd`. The caller may close `fd` afterwards."""

    def __init__(self, fd: int, size: int) -> None:
        self._address = 0
        self._size = size
        if size == 0:
            return  # a ring without slots: every batch has a dedicated buffer
        _check(fd, size)
        address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        if address is None or address == _FAILED:
            code = ctypes.get_errno()
            raise OSError(code, f"can't map {size} bytes of shared memory: {os.strerror(code)}")
        self._address = address

    def window(self, offset: int, kind: Any) -> Any:
        """A window at `offset`, of a type from `window_type`. The caller has checked the range."""
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
    """Refuses memory that is too short or may shrink: reading it would kill this process."""
    try:
        found = os.fstat(fd).st_size
        sealed = fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
    except OSError as error:
        raise ProtocolError(
            f"the host sent a descriptor that is no sealed memory: {error}"
        ) from None
    if found < size or not sealed:
        raise ProtocolError(
            f"the host's shared memory has {found} bytes of the {size} announced and is "
            f"{'' if sealed else 'not '}sealed; it is not safe to read, so it was not mapped"
        )
