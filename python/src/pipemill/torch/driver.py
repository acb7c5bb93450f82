"""The interface that `direct` needs to copy to a GPU: with CUDA, and in the tests without a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Callable, Protocol

import torch

from .staging import Staging

#: CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, and CU_MEMHOSTREGISTER_PORTABLE with
#: CU_MEMHOSTREGISTER_READ_ONLY, of cuda.h.
_READ_ONLY_IS_SUPPORTED, _PORTABLE_READ_ONLY = 113, 0x01 | 0x08


class Event(Protocol):
    """The end of all copies that were begun before it."""

    def query(self) -> bool:
        """Whether these copies have ended."""

    def synchronize(self) -> None:
        """Waits until these copies have ended."""


class Driver(Protocol):
    """Copies to one device, in an order of its own: its stream."""

    def register(self, address: int, size: int) -> bool:
        """Lets the device read this memory, which is mapped read-only. False if it can't."""

    def unregister(self, address: int) -> None:
        """Ends the registration. No copy from the memory may be in progress."""

    def copy(
        self, source: torch.Tensor, shown: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        """Begins to copy `source`, which is contiguous and in registered memory. Returns the result
        of `shown` for the copy, which is contiguous. `source` must stay as it is until an event
        after this."""

    def stage(self, source: torch.Tensor) -> torch.Tensor:
        """Begins to copy any memory. `source` is not needed after this."""

    def event(self) -> Event:
        """The end of the copies up to now."""

    def hand_over(self, event: Event, copies: Sequence[torch.Tensor]) -> None:
        """Orders all further work of the program with these copies after the event."""


class CudaDriver:
    """The driver of CUDA, by PyTorch. Memory is registered by the library of the driver itself,
    which leaves no error for PyTorch if it refuses."""

    def __init__(self, device: torch.device) -> None:
        index = torch.cuda.current_device() if device.index is None else device.index
        self._device = torch.device("cuda", index)
        self._stream: Any = torch.cuda.Stream(self._device)
        self._staging = Staging()

    def register(self, address: int, size: int) -> bool:
        try:
            library = ctypes.CDLL("libcuda.so.1")
            device, supported = ctypes.c_int(), ctypes.c_int()
            # It makes the context of the device that of this thread.
            torch.cuda.synchronize(self._device)
            with torch.cuda.device(self._device):
                return (
                    library.cuDeviceGet(ctypes.byref(device), self._device.index) == 0
                    and library.cuDeviceGetAttribute(
                        ctypes.byref(supported), _READ_ONLY_IS_SUPPORTED, device
                    ) == 0
                    and supported.value == 1
                    and library.cuMemHostRegister_v2(
                        ctypes.c_void_p(address), ctypes.c_size_t(size), _PORTABLE_READ_ONLY
                    ) == 0
                )  # fmt: skip
        except (OSError, AttributeError):
            return False  # no such library, or an older one

    def unregister(self, address: int) -> None:
        with torch.cuda.device(self._device):
            torch.cuda.synchronize(self._device)
            ctypes.CDLL("libcuda.so.1").cuMemHostUnregister(ctypes.c_void_p(address))

    def copy(
        self, source: torch.Tensor, shown: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        with torch.cuda.stream(self._stream):
            copy = torch.empty(source.shape, dtype=source.dtype, device=self._device)
            copy.copy_(source, non_blocking=True)
            return shown(copy).contiguous()

    def stage(self, source: torch.Tensor) -> torch.Tensor:
        with torch.cuda.stream(self._stream):
            return self._staging.through_buffer(source, self._device, non_blocking=True)

    def event(self) -> Event:
        event: Event = torch.cuda.Event()
        event.record(self._stream)  # type: ignore[attr-defined]
        return event

    def hand_over(self, event: Event, copies: Sequence[torch.Tensor]) -> None:
        current = torch.cuda.current_stream(self._device)
        current.wait_event(event)
        for one in copies:
            # Its memory belongs to the other stream, which must not use it again before this one
            # has.
            one.record_stream(current)
