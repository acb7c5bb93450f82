"""Batches that a GPU copies directly from the ring, while the program uses the batch before.

The mapping of the ring, which is read-only, is registered once for each connection, and so is that
of larger slots. A copy continues after the call that begins it. So a batch is held until the event after its copy: the host
writes nothing there before that. The next batch is copied, too, if it has come already. It is not
delivered yet, and the state does not have it.

If the driver can't register the mapping, `staging` copies through pinned memory.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import torch

from ..absent import AbsentValues
from .driver import Driver, Event
from .tensors import Tensors, tensors_over

if TYPE_CHECKING:
    from ..batch import Batch
    from ..connection import Connection
    from ..memory import Mapping as SlotMapping
    from ..stream import Stream


class Copied(NamedTuple):
    """A batch whose copy was begun."""

    batch: Batch
    tensors: Tensors
    #: All tensors in it.
    parts: list[torch.Tensor]
    event: Event


class Direct:
    """The copies of one loader."""

    def __init__(
        self,
        driver: Callable[[], Driver],
        absent: Mapping[str, Any] | AbsentValues | None = None,
        dense: Sequence[str] | str = (),
    ) -> None:
        """`driver`: makes the driver at the first batch, for the device of that moment. The other
        arguments are those of :func:`tensors`."""
        self._make_driver = driver
        self._absent, self._dense = absent, dense
        #: The connection that was checked last, and how many of its mappings were looked at.
        self._connection: weakref.ref[Connection] | None = None
        self._seen = 0
        #: Those of its mappings that are registered.
        self._mappings: list[SlotMapping] = []
        #: Copies that may still be in progress, and the memory that each of them holds.
        self._under_way: deque[tuple[Event, Any]] = deque()
        self._ahead: Copied | None = None
        self._pid = os.getpid()

    @functools.cached_property
    def _driver(self) -> Driver:
        return self._make_driver()

    @property
    def is_registered(self) -> bool:
        """Whether the device reads the slots of the last connection."""
        return bool(self._mappings)

    def placed(self, batch: Batch, stream: Stream) -> Tensors | None:
        """The batch on the device. None if its slots are not registered."""
        connection = stream._connection
        if not self._is_registered(connection):
            return None
        self._let_go()
        copied, self._ahead = self._ahead, None
        if copied is None or copied.batch is not batch:
            copied = self._begin(batch)
        self._driver.hand_over(copied.event, copied.parts)
        coming = stream._look_ahead()
        if coming is not None:
            # An error of it comes when the program asks for it.
            with contextlib.suppress(Exception):
                self._ahead = self._begin(coming)
        # The host needs a free credit for each of the next two batches that is not here yet.
        free = 1 if self._ahead is not None else 2
        credits = connection.welcome.credits
        self._let_go(keep=max(credits - free, min(credits - 1, 1)))
        return copied.tensors

    def finish(self) -> None:
        """Waits until no copy is in progress, and releases all memory."""
        self._ahead = None
        self._let_go(keep=0)

    def leave(self) -> None:
        """Ends the registrations, after all copies. A new connection has new ones."""
        self.finish()
        self._connection = None
        for mapping in list(self._mappings):
            mapping.end_uses()

    def _begin(self, batch: Batch) -> Copied:
        """Begins the copy of a batch, and holds its memory until it has ended."""
        window = batch._lease()
        parts: list[torch.Tensor] = []

        def moved(tensor: torch.Tensor) -> torch.Tensor:
            parts.append(self._moved(tensor))
            return parts[-1]

        try:
            found = tensors_over(batch, _shared_payload(batch, window), self._absent, self._dense)
            copies = found._mapped(moved)
            event = self._driver.event()
        except BaseException:
            # Some of its copies may be in progress, and its memory goes back now.
            self._driver.event().synchronize()
            raise
        self._under_way.append((event, window))
        return Copied(batch, copies, parts, event)

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        """Begins the copy of a tensor of the host's memory."""
        span = self._span(tensor)
        if span is None:
            return self._driver.stage(tensor)
        shape, strides = tensor.shape, tensor.stride()
        return self._driver.copy(span, lambda copy: copy.as_strided(shape, strides))

    def _span(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """All numbers from the first of this tensor to the last, in a row. None if it is not in a
        slot that is registered, or if most of these numbers do not belong to it."""
        if tensor.numel() == 0:
            return None
        steps = zip(tensor.shape, tensor.stride())
        count = 1 + sum((size - 1) * step for size, step in steps)
        begin = tensor.data_ptr()
        end = begin + count * tensor.element_size()
        if not any(at._address <= begin and end <= at._address + at._size for at in self._mappings):
            return None
        if count > 2 * tensor.numel():
            return None
        return tensor.as_strided((count,), (1,))

    def _let_go(self, keep: int | None = None) -> None:
        """Releases memory whose copy has ended. `keep`: also waits for all copies but this number
        of the last ones."""
        while self._under_way:
            event, _ = self._under_way[0]
            if keep is not None and len(self._under_way) > keep:
                event.synchronize()
            elif not event.query():
                return
            self._under_way.popleft()

    # --- the slots

    def _is_registered(self, connection: Connection) -> bool:
        """Whether the device reads this connection's slots. Registers new ones."""
        known = self._connection and self._connection()
        if known is not connection:
            self._connection, self._mappings, self._seen = weakref.ref(connection), [], 0
        mappings = connection._slot_mappings()
        for mapping in mappings[self._seen :]:
            if mapping._size and self._driver.register(mapping._address, mapping._size):
                self._mappings.append(mapping)
                mapping.before_end = _Registration(self, mapping)
        self._seen = len(mappings)
        return self.is_registered

    def __del__(self) -> None:
        # Its memory must not go back to the host before. A forked child has none of it.
        with contextlib.suppress(Exception):
            if os.getpid() == self._pid:
                self.finish()


class _Registration:
    """Ends a registration, before the addresses are used for other memory."""

    def __init__(self, direct: Direct, mapping: SlotMapping) -> None:
        self._direct = weakref.ref(direct)
        self._driver = direct._driver
        self._address = mapping._address
        self._pid = os.getpid()

    def __call__(self) -> None:
        # Not in a forked child, which has no GPU, nor at the end of the interpreter.
        if os.getpid() != self._pid or sys.is_finalizing():
            return
        direct = self._direct()
        if direct is not None:
            direct.finish()
            direct._mappings = [one for one in direct._mappings if one._address != self._address]
        self._driver.unregister(self._address)


def _shared_payload(batch: Batch, window: Any) -> memoryview:
    """The payload in the shared memory, in the form in which tensors take it: as if it could be
    written to. It must only be copied from."""
    layout = batch._layout
    return memoryview(window).cast("B")[layout.payload_at : layout.payload_end]
