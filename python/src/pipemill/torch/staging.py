"""Copies to a GPU through a few buffers of pinned memory, which are used again.

It copies memory that `direct` can't copy from the ring: the mapping that a program may write to,
which can't be pinned without a copy of it; memory of this process; and all memory on machines whose
CUDA refuses read-only mappings. New pinned memory costs milliseconds. So a batch is copied into a
buffer, from which the GPU fetches it while the program continues.
"""

from __future__ import annotations

import threading
from typing import Any, Callable

import torch

#: Buffers that are kept. A loop has one that the GPU reads while it fills the next one.
_MAX_KEPT = 16


def _pinned(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, pin_memory=True)


class Staging:
    """A pool of buffers. A buffer that the GPU still reads is not used again."""

    def __init__(
        self,
        allocate: Callable[[int], torch.Tensor] = _pinned,
        event: Callable[[torch.device], Any] | None = None,
    ) -> None:
        self._allocate = allocate
        self._event = event or _recorded_event
        self._lock = threading.Lock()
        #: Each buffer, and the event after which it is free.
        self._buffers: list[tuple[torch.Tensor, Any]] = []

    def to(self, tensor: torch.Tensor, device: torch.device, non_blocking: bool) -> torch.Tensor:
        """The tensor on the device."""
        if device.type != "cuda" or tensor.device.type != "cpu" or tensor.is_pinned():
            return tensor.to(device, non_blocking=non_blocking)
        return self.through_buffer(tensor, device, non_blocking)

    def through_buffer(
        self, tensor: torch.Tensor, device: torch.device, non_blocking: bool
    ) -> torch.Tensor:
        """The tensor on the device, by way of a buffer. The tensor is not needed after this."""
        size = tensor.numel() * tensor.element_size()
        buffer = self._take(size)
        staged = buffer[:size].view(tensor.dtype).view(tensor.shape)
        staged.copy_(tensor)
        # A copy in any case, because the buffer is used again.
        moved = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
        moved.copy_(staged, non_blocking=non_blocking)
        with self._lock:
            self._buffers.append((buffer, self._event(device) if non_blocking else None))
            if len(self._buffers) > _MAX_KEPT:
                del self._buffers[0]
        return moved

    def _take(self, size: int) -> torch.Tensor:
        """A buffer of at least `size` bytes that the GPU does not read."""
        with self._lock:
            for at, (buffer, event) in enumerate(self._buffers):
                if size <= len(buffer) <= 4 * size + 4096 and (event is None or event.query()):
                    del self._buffers[at]
                    return buffer
        return self._allocate(1 << max(12, (size - 1).bit_length()))


def _recorded_event(device: torch.device) -> Any:
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(device))
    return event
