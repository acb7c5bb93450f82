"""One connection to the host: its socket, the mapped ring, and the grants that are open.

This file has the rules of ACK and RELEASE. A grant is open from GRANT to RELEASE. Its `Lease` is a
weak reference to the window into its memory. When the last view has died, in any thread, the
RELEASE is sent at once. It is not sent for a batch that was never ACKed: if the program fails now,
the host must give that batch to another consumer.
"""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
import struct
import sys
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn

from . import protocol
from .errors import ClosedError, ForkError, ProtocolError
from .fork import forget, register
from .memory import PAGE_BYTES, Copy, Mapping, slot_window_type, window_type
from .protocol import (
    ACK, DEDICATED, GRANT, GRANT_MESSAGE, GRANTS, HEADER_BYTES, LARGER_SLOTS, LARGER_SLOTS_MESSAGE,
    RELEASE, DedicatedGrant, Grant, Welcome,
)  # fmt: skip

if TYPE_CHECKING:
    from typing import Union

    from .batch import Batch

    #: A received message: a GRANT, or the length and the descriptor of another message.
    Received = Union[Grant, tuple[int | None, int | None]]

# Plain numbers, because the flags are enums, whose arithmetic takes longer than a system call.
_SEND = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
#: Two ways to receive: wait at most `POLL_INTERVAL`, which is one call of the kernel where
#: `Connection.wait` needs three; or do not wait.
WAIT = int(socket.MSG_CMSG_CLOEXEC)
DONT_WAIT = int(socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT)
_PEEK = int(socket.MSG_PEEK | socket.MSG_DONTWAIT)
_TRUNCATED = int(socket.MSG_TRUNC | socket.MSG_CTRUNC)
#: Seconds between two tries to send messages that did not fit the socket.
POLL_INTERVAL = 1.0
#: Bytes for the one descriptor that may be attached to a message.
FD_SPACE = socket.CMSG_SPACE(array.array("i").itemsize)
_new, _pack = tuple.__new__, GRANTS.pack


class Lease(weakref.ref[Any]):
    """An open grant: a weak reference to the window into its memory."""

    __slots__ = ("connection", "grant", "acked", "batch", "written")
    connection: Connection
    grant: Grant
    acked: bool
    #: The mapping and the offset of a window that the program could write to, whose memory the host
    #: uses again.
    written: tuple[Mapping, int] | None
    #: The `Batch` made of it, while that lives: for error texts, and to close it with the stream.
    #: Not set if none could be made.
    batch: weakref.ref[Batch]

    def its_batch(self) -> Batch | None:
        """The batch, while it lives."""
        found = getattr(self, "batch", None)
        return None if found is None else found()


class LargerSlots:
    """Slots that the host made later, in memory of their own."""

    def __init__(self, fd: int, first: int, slots: int, slot_bytes: int) -> None:
        self.mapping = Mapping(fd, slots * slot_bytes)
        self.slot_bytes = slot_bytes
        self._slots = range(first, first + slots)
        self.window_type = slot_window_type(slot_bytes)

    def offset(self, slot: int) -> int | None:
        """Where the slot begins. None if it is not one of them."""
        return (slot - self._slots.start) * self.slot_bytes if slot in self._slots else None


class Connection:
    """A connected socket whose host has sent WELCOME."""

    def __init__(self, sock: socket.socket, welcome: Welcome, ring: Mapping) -> None:
        self.welcome = welcome
        self.open: dict[int, Lease] = {}
        self.pid = os.getpid()
        self._sock = sock
        self._ring = ring
        #: The slots that the host made later, if there are any.
        self._larger: LargerSlots | None = None
        self._window_at = slot_window_type(welcome.slot_bytes).from_address
        self._slots, self._slot_bytes = welcome.slots, welcome.slot_bytes
        #: A buffer that begins with the last message. Older bytes follow.
        self.message = memoryview(bytearray(protocol.MAX_MESSAGE))
        self._buffers = [self.message]
        limit = struct.pack("ll", int(POLL_INTERVAL), 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._unsent: deque[bytes] = deque()
        #: Whether VIEWS was sent.
        self._wants_views = False
        #: Whether `close` was called.
        self.is_closing = False
        self._closed = False
        self._hung_up = False
        # Called for each batch.
        self._receive, self._send_now = sock.recvmsg_into, sock.send
        # Re-entrant: the last view may die at any point of this code, and then its RELEASE is sent.
        self._lock = threading.RLock()
        register(self)

    # --- receiving

    def receive(self, how: int = DONT_WAIT) -> Received:
        """The next message: a GRANT, or the length and the descriptor of another message; (None,
        None) if there is none. An empty message is the host's hang-up. `message` begins with the
        message until the next call. `how`: `WAIT` or `DONT_WAIT`.
        """
        try:
            size, passed, flags, _ = self._receive(self._buffers, FD_SPACE, how)
        except BlockingIOError:
            return None, None
        except ConnectionError:
            # Linux reports this once, before the messages that the host had sent. Receive these.
            if self._hung_up:
                return 0, None
            self._hung_up = True
            return self.receive(how)
        fd = descriptor(passed) if passed else None
        if size == GRANT_MESSAGE.size and not flags & _TRUNCATED:
            grant: Grant = _new(Grant, GRANT_MESSAGE.unpack_from(self.message))  # Grant(…) is slow
            if grant[0] == GRANT:
                return grant if fd is None else self._dedicated_grant(grant, fd)
        if flags & _TRUNCATED:
            if fd is not None:
                os.close(fd)
            raise ProtocolError(f"the host sent a message that is too long; {protocol.REMEDY}")
        if fd is not None and size == LARGER_SLOTS_MESSAGE.size:
            kind, *numbers = LARGER_SLOTS_MESSAGE.unpack_from(self.message)
            if kind == LARGER_SLOTS:
                self._map_larger(fd, *numbers)
                return self.receive(how)
        return size, fd

    def _map_larger(self, fd: int, slot_bytes: int, first: int, slots: int) -> None:
        """Maps the slots that the host has made, once."""
        try:
            can_be = self._slots <= first < first + slots <= DEDICATED
            if not can_be or not 0 < slot_bytes <= 1 << 40 or slot_bytes % PAGE_BYTES:
                raise ProtocolError(
                    f"the host's LARGER_SLOTS says {slots} slots of {slot_bytes} bytes from {first} "
                    f"on, of whole pages of {PAGE_BYTES} bytes and from {self._slots} on expected; "
                    f"{protocol.REMEDY}"
                )
            if self._larger is not None:
                raise ProtocolError(f"the host sent LARGER_SLOTS twice; {protocol.REMEDY}")
            self._larger = LargerSlots(fd, first, slots, slot_bytes)
        finally:
            os.close(fd)

    @staticmethod
    def _dedicated_grant(grant: Grant, fd: int) -> Grant:
        found = DedicatedGrant(*grant)
        found.descriptor = fd
        return found

    def coming(self) -> int | None:
        """The type of the next message, which is not removed. None if none has come."""
        try:
            head = self._sock.recv(protocol.TYPE.size, _PEEK)
        except OSError:
            return None  # nothing yet, or the host has hung up: `receive` reports that
        return protocol.TYPE.unpack(head)[0] if len(head) == protocol.TYPE.size else None

    def wait(self, seconds: float) -> None:
        """Waits for a message, at most `seconds`."""
        self.flush()
        self._poll.poll(max(0, int(seconds * 1000)))

    # --- grants

    def lease(self, grant: Grant) -> tuple[Lease, Any]:
        """Opens a grant: its lease, and the window into its memory, which the caller must keep."""
        _, number, _, size, slot, _ = grant
        if (
            type(grant) is Grant
            and slot < self._slots
            and HEADER_BYTES <= size <= self._slot_bytes
            and number not in self.open
        ):
            # As `Mapping.window`, without a call.
            ring, offset = self._ring, slot * self._slot_bytes
            window = self._window_at(ring._address + offset)
            window.mapping, window.offset, window.writable = ring, offset, None
        else:
            window = self._larger_window(grant) or self._dedicated_window(grant)
        # After a hang-up the host reuses the window's memory. So the window keeps the connection.
        window.connection = self
        lease = Lease(window, _on_last_view_died)
        lease.connection = self
        lease.grant = grant
        lease.acked, lease.written = False, None
        self.open[number] = lease
        return lease, window

    def _larger_window(self, grant: Grant) -> Any:
        """A window into a larger slot. None if the grant is not one of it."""
        larger = self._larger
        if larger is None or type(grant) is not Grant or grant.grant in self.open:
            return None
        offset = larger.offset(grant.slot)
        if offset is None or not HEADER_BYTES <= grant.bytes <= larger.slot_bytes:
            return None
        return larger.mapping.window(offset, larger.window_type)

    def _dedicated_window(self, grant: Grant) -> Any:
        """A window over a dedicated buffer, which is unmapped when the window dies."""
        fd = grant.fd
        if fd is None:
            self._raise_unsound(grant)
        try:
            sound = grant.slot == DEDICATED and grant.grant not in self.open
            if not sound or grant.bytes < HEADER_BYTES:
                self._raise_unsound(grant)
            mapping = Mapping(fd, grant.bytes)
        finally:
            os.close(fd)
        return mapping.window(0, window_type(grant.bytes))

    def _raise_unsound(self, grant: Grant) -> NoReturn:
        raise ProtocolError(
            f"the host granted what it does not have: {grant}, of {self._slots} slots of "
            f"{self._slot_bytes} bytes; {protocol.REMEDY}"
        )

    def writable_window(self, lease: Lease) -> Any:
        """A window into the same memory that the program may write to: nobody else sees the
        changes. None if that is impossible, because slots share pages."""
        window = lease()
        slot = lease.grant.slot
        if window is None or (slot < self._slots and self._slot_bytes % PAGE_BYTES):
            return None
        if slot != DEDICATED:
            lease.written = window.mapping, window.offset
        return window.mapping.writable_window(window)

    def ack(self, lease: Lease) -> None:
        """Sends ACK, because the program has processed the batch. Sends RELEASE if no view is
        left."""
        with self._lock:
            window = lease()  # a reference, so that the window can't die before the ACK is sent
            if window is None:
                self._give_back(lease)
            elif not lease.acked:
                lease.acked = True
                message = _pack(ACK, lease.grant[1])
                # As `_send`, without a call.
                if self._unsent or self._closed:
                    self._send(message)
                    return
                try:
                    self._send_now(message, _SEND)
                except OSError:
                    self._send(message)

    def skip(self, grant: Grant) -> None:
        """RELEASEs a batch unread."""
        if grant.fd is not None:
            os.close(grant.fd)
        with self._lock:
            self._send(_pack(RELEASE, grant.grant))

    def end_epoch(self, epoch: int) -> None:
        """Requests to skip the rest of the epoch."""
        with self._lock:
            self._send(protocol.EPOCH.pack(protocol.END_EPOCH, epoch))

    def want_views(self) -> None:
        """Requests the views of strings in the batches from now on, once."""
        if self._wants_views or not self.welcome.views or self.is_others():
            return
        with self._lock:
            self._wants_views = True
            self._send(protocol.TYPE.pack(protocol.VIEWS))

    def _give_back(self, lease: Lease) -> None:
        """Sends RELEASE, under the lock."""
        grant = lease.grant
        if self.open.pop(grant[1], None) is not None:
            if lease.written and not self._closed:
                # The host may write the next batch there, which the private mapping has to show.
                mapping, offset = lease.written
                mapping.forget_writes(offset, -(-grant.bytes // PAGE_BYTES) * PAGE_BYTES)
            self._send(_pack(RELEASE, grant[1]))

    def _after_close(self, lease: Lease) -> None:
        """Called when the last view of a batch has died after `close`. Hangs up if no other is
        left."""
        self.open.pop(lease.grant.grant, None)
        if not self._has_views():
            self._hang_up()

    # --- sending (under the lock)

    def _send(self, message: bytes) -> None:
        if not self._unsent and not self._closed:
            try:
                self._send_now(message, _SEND)
                return
            except BlockingIOError:
                pass
            except OSError:
                return  # the host has hung up; the next receive reports it
        self._unsent.append(message)
        self.flush()

    def flush(self) -> None:
        """Sends messages that did not fit the socket before. Never waits: the next call tries
        again."""
        with self._lock:
            while self._unsent and not self._closed:
                message = self._unsent.popleft()
                try:
                    self._sock.send(message, _SEND)
                except BlockingIOError:
                    self._unsent.appendleft(message)
                    return
                except OSError:
                    self._unsent.clear()

    # --- the end

    def is_others(self) -> bool:
        """Whether it is the connection of the process that has forked this one."""
        return self.pid != os.getpid()

    def check(self) -> None:
        """Raises if this connection can't be used: in a forked child, or when closed."""
        if self.is_others():
            raise ForkError(
                f"this stream was connected by process {self.pid} and is used in {os.getpid()}; "
                "call pipemill.connect() in the process that reads, after the fork"
            )
        if self.is_closing:
            raise ClosedError("the stream is closed; call pipemill.connect() for a new one")

    def close(self) -> None:
        """Hangs up. From then on, views that live show private copies at the same addresses,
        because the host reuses the memory. If there is no memory for copies, the hang-up waits
        until the last view has died."""
        with self._lock:
            if self.is_closing:
                return
            self.is_closing = True
            for lease in list(self.open.values()):
                batch = lease.its_batch()
                if batch is not None:
                    batch._close()
            if not self._has_views() or self._keep_copies():
                self._hang_up()

    def _keep_copies(self) -> bool:
        """Replaces the shared memory under views with copies. False if there is no memory for
        that."""
        try:
            copy = self.copy_held()
        except OSError:
            return False
        self._show(copy)
        # A forked child, too, gets the copies with the process's memory.
        forget(self)
        return True

    def _has_views(self) -> bool:
        return any(lease() is not None for lease in list(self.open.values()))

    def _hang_up(self) -> None:
        if not self._closed:
            self.flush()
            self._closed = True
            for mapping in self._slot_mappings():
                mapping.close_descriptor()
            if not self.is_others():
                # The host notices it at once. A process that another thread is just starting has a
                # copy of the socket until it runs its own program.
                with contextlib.suppress(OSError):
                    self._sock.shutdown(socket.SHUT_RDWR)
            self._sock.close()

    def _slot_mappings(self) -> list[Mapping]:
        larger = self._larger
        return [self._ring] if larger is None else [self._ring, larger.mapping]

    # --- a fork, see `fork`

    def copy_held(self) -> dict[Mapping, Copy]:
        """Copies of the memory under views, for each mapping with views."""
        shown: dict[Mapping, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
        # While these windows live, the host writes to no memory of theirs.
        windows = [(lease.grant.bytes, lease()) for lease in list(self.open.values())]
        for size, window in windows:
            if window is not None:
                parts, writable = shown.setdefault(window.mapping, ([], []))
                parts.append((window.offset, size))
                if window.writable is not None:
                    writable.append(parts[-1])
        copies: dict[Mapping, Copy] = {}
        try:
            for mapping, (parts, writable) in shown.items():
                copies[mapping] = mapping.copy(parts, writable)
        except BaseException:
            self.drop_copies(copies)
            raise
        return copies

    @staticmethod
    def drop_copies(copies: dict[Mapping, Copy]) -> None:
        """Unmaps copies that nothing shows. In the parent: the child has them."""
        for mapping, copy in copies.items():
            mapping.drop_copy(copy)

    def _show(self, copies: dict[Mapping, Copy]) -> None:
        """Replaces the shared memory with the copies. Memory that was not copied can't be read."""
        windows = [lease() for lease in list(self.open.values())]
        mappings = {window.mapping for window in windows if window is not None}
        for mapping in mappings.union(self._slot_mappings()):
            mapping.replace_by(copies.get(mapping))

    def leave_to_parent(self, copies: dict[Mapping, Copy]) -> None:
        """In the child: its views show the copies, and it closes its copy of the socket. With it
        open, the host would not notice when the parent dies."""
        self._lock = threading.RLock()
        self._closed = self.is_closing = True
        self._show(copies)
        self._sock.close()

    def __del__(self) -> None:
        # No window is left either, because each keeps its connection. At the end of the interpreter
        # this module may be empty already: then nothing of it can be called, `suppress` neither.
        try:
            self._hang_up()
        except Exception:
            pass


def _on_last_view_died(lease: Any, is_finalizing: Any = sys.is_finalizing) -> None:
    """Sends RELEASE if the batch was ACKed. Hangs up if the stream is closed."""
    # A view in a global name may die when the modules of this package are empty already. The end of
    # the process hangs up.
    if is_finalizing():
        return
    connection: Connection = lease.connection
    with connection._lock:
        if lease.acked and (lease.written or connection._unsent or connection._closed):
            connection._give_back(lease)
        elif lease.acked and connection.open.pop(lease.grant[1], None) is not None:
            # As `_give_back`, without a call.
            message = _pack(RELEASE, lease.grant[1])
            try:
                connection._send_now(message, _SEND)
            except OSError:
                connection._send(message)
        if connection.is_closing:
            connection._after_close(lease)


def descriptor(passed: list[tuple[int, int, bytes]]) -> int | None:
    """The only descriptor of a message."""
    fds = array.array("i")
    for level, kind, data in passed:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    if len(fds) > 1:
        for fd in fds:
            os.close(fd)
        raise ProtocolError(
            f"the host sent a message with {len(fds)} descriptors, at most one expected; "
            f"{protocol.REMEDY}"
        )
    return fds[0] if fds else None
