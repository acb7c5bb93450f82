"""Shared memory, mapped read-only, and windows into it that tell when the last view has died.

A window is a `ctypes` array over a part of the mapping. Everything that is made from it (a
memoryview, a slice of that, a numpy array, a tensor) keeps the window alive through the buffer
protocol. So a weak reference to the window dies exactly when the last view does. This takes about
a microsecond and needs no polling. The mapping stays while a window lives.

Tensors have to be writable. So there is a second mapping of the same memory, which is private: the
kernel copies a page when this program writes to it, and nobody else sees the changes. Such a page
stays this program's own until `forget_writes`, even if the host has written a new batch to the
shared one. So `forget_writes` is called before the host may do that.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import weakref
from functools import lru_cache
from typing import Any, Callable, List, Tuple  # noqa: UP035

from .errors import ProtocolError

_libc: Any = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
_libc.munmap.restype = ctypes.c_int
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.restype = ctypes.c_int
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.madvise.restype = ctypes.c_int
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.mremap.restype = ctypes.c_void_p
_libc.mremap.argtypes = [ctypes.c_void_p] + [ctypes.c_size_t] * 2 + [ctypes.c_int, ctypes.c_void_p]
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
# From linux/mman.h. The module `mmap` does not have them.
_PROT_NONE, _MAP_FIXED, _MREMAP_MAYMOVE, _MREMAP_FIXED = 0, 0x10, 1, 2
_MADV_DONTNEED, _MAP_NORESERVE = 4, 0x4000
_FAILED = ctypes.c_void_p(-1).value

#: The last bytes of those entries of /proc/self/pagemap whose page is no copy: it is neither
#: present (bit 63) nor swapped (62), or belongs to the file (61).
_SHARED = bytes(top for top in range(256) if not top & 0xC0 or top & 0x20)
#: The size of a page of memory.
PAGE_BYTES = mmap.PAGESIZE
#: A copy of some pages of a mapping: their offset in it, their size, and the copy's address.
Run = Tuple[int, int, int]
#: Copies of pages of a mapping, and of the private one with it, in order.
Copy = Tuple[List[Run], List[Run]]


class Mapping:
    """The first `size` bytes of the memory of `fd`. The caller may close `fd` afterwards."""

    def __init__(self, fd: int, size: int, private: bool = False) -> None:
        """Maps it for reading. If `private`, maps it for writing to copies of its pages."""
        self._address = 0
        self._size = size
        #: The descriptor of the shared memory. If this is private: that of the process's page
        #: table.
        self._fd = -1
        self._private: Mapping | None = None
        #: Called before the addresses show other memory or none.
        self.before_end: Callable[[], None] | None = None
        self._protection = mmap.PROT_READ | (mmap.PROT_WRITE if private else 0)
        if size == 0:
            return  # a ring without slots: every batch has a dedicated buffer
        if private:
            # Without it, the kernel would count memory for a copy of every page.
            flags = mmap.MAP_PRIVATE | _MAP_NORESERVE
            self._address = _map(None, size, self._protection, flags, fd)
            return
        _check(fd, size)
        self._address = _map(None, size, self._protection, mmap.MAP_SHARED, fd)
        self._fd = os.dup(fd)

    def window(self, offset: int, kind: Any) -> Any:
        """A window at `offset`, of a type from `window_type`. The caller has checked the range."""
        window = kind.from_address(self._address + offset)
        window.mapping, window.offset, window.writable = self, offset, None
        return window

    def writable_window(self, window: Any) -> Any:
        """A window to the same bytes as `window`, for writing: from then on they are the program's
        own. It keeps `window`. There is one for each window, as long as it lives."""
        found = window.writable and window.writable()
        if found is None:
            if self._private is None:
                self._private = Mapping(self._fd, self._size, private=True)
            found = self._private.window(window.offset, type(window))
            found.shared = window
            window.writable = weakref.ref(found)
        return found

    def forget_writes(self, offset: int, size: int) -> None:
        """Ends the copies of pages that were written to. The mapping shows the shared ones again.
        Both numbers are multiples of the size of a page."""
        private = self._private
        if private is not None and private._address and private._has_copies(offset, size):
            address = private._address + offset
            _checked(_libc.madvise(address, size, _MADV_DONTNEED), "drop the copy of", size)

    def _has_copies(self, offset: int, size: int) -> bool:
        """Whether pages of a private mapping were written to. This check takes 3 us for each MiB.
        To drop the pages takes 25 us, because each has to be mapped again. So pages are dropped
        only after a check."""
        try:
            if self._fd < 0:
                self._fd = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
            first = (self._address + offset) // PAGE_BYTES
            entries = os.pread(self._fd, size // PAGE_BYTES * 8, first * 8)
        except OSError:
            return True  # without /proc
        return len(entries) * PAGE_BYTES < size * 8 or bool(entries[7::8].translate(None, _SHARED))

    def copy(self, parts: list[tuple[int, int]], writable: list[tuple[int, int]]) -> Copy:
        """Private copies of the pages of these parts, each a pair of offset and size, as the
        mapping shows them, and of the parts `writable` as the private mapping shows them. They are
        the caller's: end them with `drop_copy` or `replace_by`.
        """
        own = self._copy(parts)
        try:
            return own, [] if self._private is None else self._private._copy(writable)
        except BaseException:
            _unmap(own)
            raise

    def _copy(self, parts: list[tuple[int, int]]) -> list[Run]:
        copies: list[Run] = []
        try:
            for offset, size in _whole_pages(parts):
                # A mapping for each run: before Linux 6.17, `mremap` moves no more than that.
                address = _map(None, size, mmap.PROT_READ | mmap.PROT_WRITE, _PRIVATE)
                copies.append((offset, size, address))
                ctypes.memmove(address, self._address + offset, size)
                _checked(_libc.mprotect(address, size, self._protection), "copy", size)
        except BaseException:
            _unmap(copies)
            raise
        return copies

    def drop_copy(self, copy: Copy) -> None:
        """Unmaps the pages of `copy`."""
        for one in copy:
            _unmap(one)

    def replace_by(self, copy: Copy | None) -> None:
        """Puts the pages of `copy` in the place of the shared memory, at the same addresses. All
        other memory can't be read any more: to try ends the process. Other threads may read the
        copied parts meanwhile. Their writes to the private mapping meanwhile may be lost.
        """
        own, private = copy or ([], [])
        self.end_uses()
        if self._address:
            self._replace_by(own)
        if self._private is not None:
            self._private._replace_by(private)
        self.close_descriptor()

    def end_uses(self) -> None:
        """Calls `before_end`, if it has not been called yet."""
        end, self.before_end = self.before_end, None
        if end is not None:
            end()

    def _replace_by(self, copies: list[Run]) -> None:
        done = 0
        for offset, size, address in copies:
            self._hide(done, offset)
            # One step, so that other threads never see the address without memory.
            flags = _MREMAP_MAYMOVE | _MREMAP_FIXED
            moved = _libc.mremap(address, size, size, flags, self._address + offset)
            _checked(-1 if moved in (None, _FAILED) else 0, "move a copy of", size)
            done = offset + size
        self._hide(done, self._size)

    def _hide(self, begin: int, end: int) -> None:
        """Gives the memory from `begin` to `end` back. The addresses stay reserved."""
        if begin < end:
            flags = _PRIVATE | _MAP_FIXED | _MAP_NORESERVE
            _map(self._address + begin, end - begin, _PROT_NONE, flags)

    def close_descriptor(self) -> None:
        """Closes the descriptors that reading does not need. No window can be made writable after
        this."""
        if self._private is not None:
            self._private.close_descriptor()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self, munmap: Any = _libc.munmap, close: Any = os.close) -> None:
        try:
            self.end_uses()
        except Exception:
            pass  # at the end of the interpreter, whose modules are empty
        if self._address:
            munmap(self._address, self._size)
        if self._fd >= 0:
            close(self._fd)


def _whole_pages(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pages of these parts as pairs of offset and size, in order, with space between the
    pairs."""
    runs: list[tuple[int, int]] = []
    for offset, size in sorted(parts):
        first = offset // PAGE_BYTES * PAGE_BYTES
        end = -(-(offset + size) // PAGE_BYTES) * PAGE_BYTES
        if runs and first <= sum(runs[-1]):
            before = runs.pop()
            first, end = before[0], max(end, sum(before))
        runs.append((first, end - first))
    return runs


def _unmap(copies: list[Run]) -> None:
    for _, size, address in copies:
        _libc.munmap(address, size)


def window_type(size: int) -> Any:
    """The type of windows of `size` bytes."""
    return ctypes.c_ubyte * size


@lru_cache(16)
def slot_window_type(size: int) -> Any:
    """The same for the slots of a ring. It needs many windows, so they have no dict each."""
    slots = ("mapping", "offset", "writable", "connection", "shared")
    return type("SlotWindow", (window_type(size),), {"__slots__": slots})


def _map(address: int | None, size: int, protection: int, flags: int, fd: int = -1) -> int:
    # ctypes has None for the address 0.
    found = int(_libc.mmap(address, size, protection, flags, fd, 0) or 0)
    _checked(-1 if found in (0, _FAILED) else 0, "map", size)
    return found


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
