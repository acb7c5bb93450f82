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
_libc.mprotect.restype = ctypes.c_int
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.mremap.restype = ctypes.c_void_p
_libc.mremap.argtypes = [ctypes.c_void_p] + [ctypes.c_size_t] * 2 + [ctypes.c_int, ctypes.c_void_p]
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
# From linux/mman.h. The module `mmap` does not have them.
_PROT_NONE, _MAP_FIXED, _MREMAP_MAYMOVE, _MREMAP_FIXED = 0, 0x10, 1, 2
_FAILED = ctypes.c_void_p(-1).value


class Mapping:
    """The first `size` bytes of the memory of `fd`. The caller may close `fd` afterwards."""

    def __init__(self, fd: int, size: int) -> None:
        self._address = 0
        self._size = size
        if size == 0:
            return  # a ring without slots: every batch has a dedicated buffer
        _check(fd, size)
        self._address = _map(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd)

    def window(self, offset: int, kind: Any) -> Any:
        """A window at `offset`, of a type from `window_type`. The caller has checked the range."""
        window = kind.from_address(self._address + offset)
        window.mapping = self
        return window

    def copy(self, parts: list[tuple[int, int]]) -> int:
        """The address of a private copy of these parts, each a pair of offset and size. The copy
        has the size of the mapping, and what is not in `parts` can't be read. It is the caller's:
        end it with `drop_copy` or `replace_by`.
        """
        copy = _map(None, self._size, _PROT_NONE, _PRIVATE)
        for offset, size in parts:
            first = copy + offset // mmap.PAGESIZE * mmap.PAGESIZE
            pages = first, copy + offset + size - first
            _checked(_libc.mprotect(*pages, mmap.PROT_READ | mmap.PROT_WRITE), "copy", size)
            ctypes.memmove(copy + offset, self._address + offset, size)
            _checked(_libc.mprotect(*pages, mmap.PROT_READ), "copy", size)
        return copy

    def drop_copy(self, copy: int) -> None:
        """Unmaps what `copy` has made."""
        _libc.munmap(copy, self._size)

    def replace_by(self, copy: int | None) -> None:
        """Puts what `copy` has made in the place of the shared memory, at the same addresses.
        Where that is None, nothing can be read there any more: to try ends the process.
        """
        if self._address:
            _map(self._address, self._size, _PROT_NONE, _PRIVATE | _MAP_FIXED)
            if copy is not None:
                flags = _MREMAP_MAYMOVE | _MREMAP_FIXED
                _libc.mremap(copy, self._size, self._size, flags, self._address)

    def __del__(self, munmap: Any = _libc.munmap) -> None:
        if self._address:
            munmap(self._address, self._size)


def window_type(size: int) -> Any:
    """The type of windows of `size` bytes."""
    return ctypes.c_ubyte * size


def view(window: Any) -> memoryview:
    """The window's bytes, read-only."""
    return memoryview(window).cast("B").toreadonly()


def _map(address: int | None, size: int, protection: int, flags: int, fd: int = -1) -> int:
    found = _libc.mmap(address, size, protection, flags, fd, 0)
    _checked(-1 if found is None or found == _FAILED else 0, "map", size)
    return int(found)


def _checked(result: int, verb: str, size: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"can't {verb} {size} bytes of shared memory: {os.strerror(code)}")


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
