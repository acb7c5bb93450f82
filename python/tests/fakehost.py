"""A host in Python, for tests. It is written from docs/ring.md alone.

It checks each ACK and RELEASE against its own table. It overwrites each slot when it is RELEASEd,
so that a test fails if the reader releases memory that it still uses.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import mmap
import os
import socket
import struct
import threading
from dataclasses import dataclass, field
from typing import Any, Callable

HELLO, ACK, RELEASE, END_EPOCH, VIEWS = 1, 2, 3, 4, 6
WELCOME, REFUSED, SCHEMA, GRANT, EPOCH_END, STREAM_END, ERROR = range(16, 23)
LARGER_SLOTS = 24
DEDICATED = 0xFFFFFFFF
ABSENT = 0xFFFFFFFF
LISTED = 0xFFFFFFFF
SEALS = 1 | 2 | 4 | 0x10  # SEAL, SHRINK, GROW, FUTURE_WRITE
#: The size of a larger slot.
LARGER_BYTES = 1 << 20
BYTES = [("x", "bytes", [])]
#: Seconds. Only a test that fails waits this long, so it is long enough for the slowest machine.
HANG_TIMEOUT = 60.0


@dataclass
class Rows:
    """A batch: rows of fields, each bytes or None, with `gap` after every field."""

    rows: list[tuple[bytes | None, ...]]
    epoch: int = 0
    gap: bytes = b""
    object: str = "folder/object-0"
    first_record: int = 0
    #: In a dedicated buffer.
    dedicated: bool = False
    #: In a larger slot.
    larger: bool = False
    #: The JSON of the object's facts; empty if there are none.
    metadata: bytes = b""
    #: This changes when the object's bytes do.
    identity: bytes = b""
    #: The identity is the list of the places of a mix's inputs.
    is_mix: bool = False
    #: Number of copies at the end.
    padding: int = 0
    #: The numbers of the fields whose views follow the index.
    views: tuple[int, ...] = ()
    #: The values lie field by field, and those of one size have no lists.
    even: bool = False
    #: Header fields that are written instead of the true ones.
    lies: dict[str, int] = field(default_factory=dict)
    #: Bytes that are written over the batch, each at its place; bytes that do not fit are left out.
    damage: list[tuple[int, bytes]] = field(default_factory=list)


def up(n: int, to: int = 64) -> int:
    return (n + to - 1) // to * to


def lay_out(number: int, batch: Rows, k: int) -> bytes:
    """The bytes of a slot with this batch."""
    n = len(batch.rows)
    payload = bytearray()
    spans: list[list[tuple[int, int]]] = [[] for _ in range(k)]
    assert all(len(row) == k for row in batch.rows)
    places = [(row, f) for row in range(n) for f in range(k)]
    if batch.even:  # field by field
        places.sort(key=lambda place: place[1])
    for row, f in places:
        value = batch.rows[row][f]
        if value is None:
            spans[f].append((ABSENT, 0))
        else:
            spans[f].append((len(payload), len(value)))
            payload += value + batch.gap
    step = up(4 * n)
    table, lists = bytearray(), bytearray()
    for one in spans:
        if batch.even and (entry := even_entry(one)):
            table += entry
            continue
        table += struct.pack("<II", len(lists) // (2 * step or 1), LISTED)
        for part in (0, 1):
            lists += struct.pack(f"<{n}I", *(span[part] for span in one)).ljust(step, b"\0")
    index = table.ljust(up(len(table)), b"\0") + lists
    for f in batch.views:
        views = b"".join(view(payload, *span) for span in spans[f])
        index += views.ljust(up(len(views)), b"\0")
    name = batch.object.encode()
    header: dict[str, int] = dict(
        magic=0x33424D50, header_bytes=128, batch=number, epoch=batch.epoch,
        flags=int(any(value is None for row in batch.rows for value in row)) + 2 * batch.is_mix
        + 4 * bool(batch.views),
        records=n, fields=k, payload_at=128, payload_bytes=len(payload),
        index_at=up(128 + len(payload)), object_at=0, object_bytes=len(name),
        first_record=batch.first_record, object_offset=17,
        metadata_at=0, metadata_bytes=len(batch.metadata),
        padding=batch.padding, restart_header=7, object_number=5, restart_offset=11, restart_records=2,
        identity_at=0, identity_bytes=len(batch.identity),
    )  # fmt: skip
    header["object_at"] = header["index_at"] + len(index)
    if batch.metadata:
        header["metadata_at"] = header["object_at"] + len(name)
    if batch.identity:
        header["identity_at"] = header["object_at"] + len(name) + len(batch.metadata)
    true_index_at = header["index_at"]
    header.update(batch.lies)
    slot = struct.pack("<IIQIIIIQQQIIQQIIIIQQQII", *header.values()).ljust(128, b"\0") + payload
    names = name + batch.metadata + batch.identity
    data = bytearray(slot.ljust(true_index_at, b"\0") + index + names)
    for at, damage in batch.damage:
        data[at : at + len(damage)] = damage[: len(data) - at]
    return bytes(data)


def even_entry(spans: list[tuple[int, int]]) -> bytes | None:
    """The entry of a field whose values have one size and follow each other; None for another."""
    if not spans or not spans[0][1]:
        return None
    first, size = spans[0]
    is_even = all(span == (first + size * row, size) for row, span in enumerate(spans))
    return struct.pack("<II", first, size) if is_even else None


def view(payload: bytes | bytearray, offset: int, length: int) -> bytes:
    """The view of a string."""
    if length <= 12:
        return struct.pack("<I12s", length, bytes(payload[offset : offset + length]))
    span, place = divmod(offset, 1 << 30)
    return struct.pack("<I4sII", length, bytes(payload[offset : offset + 4]), span, place)


def list_value(elements: list[bytes]) -> bytes:
    """The value of a list: its offsets, and the elements."""
    at = 4 * (len(elements) + 1)
    offsets = [at + sum(map(len, elements[:i])) for i in range(len(elements) + 1)]
    return struct.pack(f"<{len(offsets)}I", *offsets) + b"".join(elements)


class Memory:
    """A sealed memfd that this process can write."""

    def __init__(self, size: int, seals: int = SEALS) -> None:
        self.fd = os.memfd_create("fake-ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, size)
        self.map = mmap.mmap(self.fd, size) if size else None
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)

    def overwrite(self, at: int = 0, size: int | None = None) -> None:
        """The host does the same when it reuses the memory."""
        if self.map:
            size = len(self.map) - at if size is None else size
            self.map[at : at + size] = b"\xee" * size

    def close(self) -> None:
        os.close(self.fd)


class Peer:
    """The host's end of one consumer's connection."""

    def __init__(self, sock: socket.socket, slots: int, slot_bytes: int) -> None:
        self.sock = sock
        self.slots, self.slot_bytes = slots, slot_bytes
        self.ring = Memory(slots * slot_bytes)
        self.free = list(range(slots))
        #: The larger slots, and the free ones of them.
        self.larger: Memory | None = None
        self.larger_free: list[int] = []
        #: The slot or the dedicated buffer of each grant.
        self.open: dict[int, int | Memory] = {}
        self.acked: list[int] = []
        self.released: list[int] = []
        self.ended: list[int] = []
        self.messages = 0
        #: Whether WELCOME had `views`, and how often they were requested.
        self.has_views = False
        self.views_wanted = 0
        self.hung_up = False
        self.grants = 0
        self.batches = 0
        self.k = 1
        self.credits = 2
        self.hello: dict[str, Any] = {}
        sock.settimeout(HANG_TIMEOUT)

    # messages of the consumer

    def pump(self) -> bool:
        """Receives and checks one message of the consumer. Returns False if it has hung up."""
        try:
            message = self.sock.recv(1 << 18)
        except ConnectionError:
            message = b""
        if not message:
            self.hung_up = True
            return False
        self.messages += 1
        kind = struct.unpack_from("<I", message)[0]
        if kind == HELLO:
            self.hello = json.loads(message[4:])
        elif kind in (ACK, RELEASE):
            numbers = struct.unpack(f"<{(len(message) - 4) // 8}Q", message[4:])
            for grant in numbers:
                self.check_grant(kind, grant)
        elif kind == VIEWS:
            assert message[4:] == b"" and self.has_views
            self.views_wanted += 1
        elif kind == END_EPOCH:
            self.ended.append(struct.unpack("<I", message[4:])[0])
        else:
            raise AssertionError(f"consumer sent type {kind}")
        return True

    def check_grant(self, kind: int, grant: int) -> None:
        assert grant in self.open, f"{'ACK' if kind == ACK else 'RELEASE'} of {grant}, not open"
        assert kind == RELEASE or grant not in self.acked, f"ACK of {grant} twice"
        if grant not in self.acked:
            self.acked.append(grant)
        if kind == RELEASE:
            memory = self.open.pop(grant)
            self.released.append(grant)
            if isinstance(memory, Memory):
                memory.overwrite()
                memory.close()
            elif memory >= self.slots:
                assert self.larger is not None
                self.larger.overwrite((memory - self.slots) * LARGER_BYTES, LARGER_BYTES)
                self.larger_free.append(memory)
            else:
                self.ring.overwrite(memory * self.slot_bytes, self.slot_bytes)
                self.free.append(memory)

    def until(self, condition: Callable[[], bool]) -> None:
        """Receives messages until the condition holds."""
        while not condition():
            assert self.pump(), "the consumer hung up early"

    # messages of the host

    def send(self, kind: int, body: bytes = b"", fds: tuple[int, ...] = ()) -> None:
        message = struct.pack("<I", kind) + body
        socket_fds = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([message], socket_fds)

    def say(self, kind: int, /, **body: Any) -> None:
        self.send(kind, json.dumps(body).encode())

    def welcome(self, fields: Any = BYTES, **other: Any) -> None:
        """Receives HELLO; sends WELCOME and SCHEMA."""
        self.until(lambda: bool(self.hello))
        self.credits = min(self.hello.get("credits", 2), self.slots)
        body: dict[str, Any] = dict(
            protocol=2, host="fake 0", channel=self.hello["channel"], mode="share",
            slots=self.slots, slot_bytes=self.slot_bytes, credits=self.credits,
            resumed=None, settings={"decoder": "lines"},
        )  # fmt: skip
        body.update(other)
        self.credits, self.has_views = body["credits"], body.get("views", False)
        self.send(WELCOME, json.dumps(body).encode(), (self.ring.fd,))
        self.schema(fields)

    def schema(self, fields: Any) -> None:
        """Sends SCHEMA. A field is its name, scalar and shape, and may have a dict of more keys."""
        self.k = len(fields)
        self.say(
            SCHEMA,
            fields=[dict(name=n, scalar=s, shape=d, **dict(*more)) for n, s, d, *more in fields],
        )

    def grant(self, batch: Rows, **lies: int) -> int:
        """Writes a batch and grants it; waits for a credit and a slot."""
        free = self.larger_free if batch.larger else self.free
        self.until(lambda: len(self.open) < self.credits and (batch.dedicated or bool(free)))
        data = lay_out(self.batches, batch, self.k)
        buffer = Memory(len(data)) if batch.dedicated else None
        slot = DEDICATED if batch.dedicated else free.pop(0)
        if buffer:
            buffer.map[:] = data
        elif batch.larger:
            at = (slot - self.slots) * LARGER_BYTES
            assert self.larger is not None and len(data) <= LARGER_BYTES
            self.larger.map[at : at + len(data)] = data
        else:
            at = slot * self.slot_bytes
            assert len(data) <= self.slot_bytes
            self.ring.map[at : at + len(data)] = data
        body = dict(
            grant=self.grants, batch=self.batches,
            bytes=self.slot_bytes if slot < self.slots else len(data), slot=slot, epoch=batch.epoch,
        )  # fmt: skip
        body.update(lies)
        self.open[self.grants] = slot if buffer is None else buffer
        self.grants += 1
        self.batches += 1
        self.send(GRANT, struct.pack("<QQQII", *body.values()), (buffer.fd,) if buffer else ())
        return body["grant"]

    def make_larger(
        self, slots: int = 2, memory: Memory | None = None, cut: int = 16, fds: int = 1, **lies: int
    ) -> None:
        """Makes larger slots, or says so: with other memory, fewer bytes, or more descriptors."""
        assert self.hello["larger_slots"] is True
        self.larger = memory or Memory(slots * LARGER_BYTES)
        self.larger_free = list(range(self.slots, self.slots + slots))
        body = {"slot_bytes": LARGER_BYTES, "first": self.slots, "number": slots, **lies}
        message = struct.pack("<QII", *body.values())[:cut]
        self.send(LARGER_SLOTS, message, (self.larger.fd,) * fds)

    def overwrite_all(self) -> None:
        """Reuses all memory: the consumer has hung up."""
        self.ring.overwrite()
        if self.larger is not None:
            self.larger.overwrite()
        for memory in self.open.values():
            if isinstance(memory, Memory):
                memory.overwrite()

    def epoch_end(self, epoch: int = 0, flags: int = 0, batches: int = 0, records: int = 0) -> None:
        """Ends the epoch, when all batches are ACKed."""
        self.until(lambda: all(grant in self.acked for grant in self.open))
        self.send(EPOCH_END, struct.pack("<QQII", batches, records, epoch, flags))

    def epoch(self, number: int, batches: list[Rows]) -> None:
        """A whole epoch. Skips the rest if the consumer requests it."""
        granted = 0
        for batch in batches:
            if number in self.ended:
                break
            batch.epoch = number
            self.grant(batch)
            granted += 1
        records = sum(len(batch.rows) for batch in batches[:granted])
        self.until(lambda: all(grant in self.acked for grant in self.open))
        self.epoch_end(number, int(number in self.ended), granted, records)

    def stream_end(self) -> None:
        self.send(STREAM_END)

    def linger(self) -> None:
        """Receives messages until the consumer hangs up."""
        while self.pump():
            pass

    def close(self) -> None:
        self.sock.close()
        for memory in [self.ring, self.larger, *self.open.values()]:
            if isinstance(memory, Memory):
                memory.close()


class FakeHost:
    """A context manager that listens at `path` and runs `script(peer)` in a thread per consumer.

    The end of `with` raises a script's exception.
    """

    def __init__(
        self, path: str, script: Callable[[Peer], None], slots: int = 4, slot_bytes: int = 1 << 16
    ) -> None:
        self.path, self.script = path, script
        self.slots, self.slot_bytes = slots, slot_bytes
        self.peers: list[Peer] = []
        self.faults: list[BaseException] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def __enter__(self) -> FakeHost:
        self._listener.bind(self.path)
        self._listener.listen(8)
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()
        return self

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                thread = threading.Thread(target=self._run, args=(sock,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _run(self, sock: socket.socket) -> None:
        peer = Peer(sock, self.slots, self.slot_bytes)
        self.peers.append(peer)
        try:
            self.script(peer)
        except BaseException as fault:
            self.faults.append(fault)
        finally:
            peer.close()

    def __exit__(self, kind: Any, *_: Any) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join(HANG_TIMEOUT)
        if kind is None:
            for thread in self._threads:
                thread.join(HANG_TIMEOUT)
                assert not thread.is_alive(), "the fake host's script has not ended"
            if self.faults:
                raise self.faults[0]
