"""A host that gives records of an index by their numbers, as the child of this program.

A request and its answer go through the socket that also ties the host to this program: see
`host/access/src/requests.rs`. An answer is a batch in memory of its own, which needs no ACK. When
its last view has died, the next request says so, and its memory can have another answer. A forked
child may read the answers that were there when it was forked, so they are never given back.
"""

from __future__ import annotations

import array
import os
import socket
import struct
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, Callable

from .batch import Batch
from .checked import Checked
from .connection import FD_SPACE, Lease, descriptor
from .errors import HostDied, ProtocolError
from .memory import Mapping, window_type
from .private_host import Host, memory_file
from .protocol import DEDICATED, GRANT, HEADER_BYTES, REMEDY, Grant, error_of, parse_json
from .schema import Field, parse_schema

#: Most records of a request.
MAX_RECORDS = 1 << 16
#: Most answers that a request gives back.
_MOST_GIVEN_BACK = 1 << 10
_REQUEST = struct.Struct("<II")
#: The kind of an answer, its records, and its bytes.
_ANSWER = struct.Struct("<IIQ")
_BATCH, _ERROR = 1, 2
#: Most bytes of an error.
_MAX_ERROR = 1 << 20


class AccessHost(Host):
    """A running host for one index. Several threads may use it."""

    #: Number of records, with those that are skipped.
    records: int
    #: Ranges of the records that are skipped, in order: the first record, and the one after the
    #: last.
    skipped: list[list[int]]
    #: The fields of each record.
    fields: tuple[Field, ...]
    #: Identifies the content of the index.
    index: str

    def __init__(self, text: str, words: list[str]) -> None:
        """`text`: the configuration of the only channel, whose source is the index. `words`: more
        options of the command."""
        with memory_file(text) as fd:
            file = f"/proc/self/fd/{fd}"
            answer = self._start("access", words, file, (fd,), "")
        self.socket = ""
        self.records, self.index = answer["records"], answer["index"]
        self.skipped = answer["skipped"]
        self.fields = parse_schema(answer["schema"].encode()) if self.records else ()
        self._sock = socket.socket(fileno=os.dup(self._lifeline))
        self._lock = threading.Lock()
        self._answered = 0
        #: The answers of which a view lives, and that no forked child has.
        self._live: dict[int, Lease] = {}
        #: The numbers of the answers that are to be given back.
        self._dead: deque[int] = deque()
        _hosts.add(self)

    def is_usable(self) -> bool:
        """Whether this process has started it, and has not closed it."""
        return self._owner == os.getpid() and self._end.alive

    def batch(self, numbers: Sequence[int]) -> Batch:
        """The first of these records, or all of them, at least one. There are 1 to `MAX_RECORDS`
        numbers."""
        with self._lock:
            try:
                self._send(numbers)
                kind, records, size, fd = self._receive_head()
                body = self._receive(size) if kind == _ERROR and size <= _MAX_ERROR else None
            except OSError:
                how = self._how_it_ended()
                self.close()
                raise HostDied(f"the host that reads the index ended: {how}") from None
            except BaseException:
                # The rest of the answer would be taken for that of the next request.
                self.close()
                raise
            if body is not None:
                raise error_of(parse_json("ERROR", body), "")
            if kind != _BATCH or fd is None or not 0 < records <= len(numbers):
                self.close()
                raise ProtocolError(f"the host gave an answer of kind {kind}; {REMEDY}")
            try:
                return self._batch_in(fd, size)
            finally:
                os.close(fd)

    def _send(self, numbers: Sequence[int]) -> None:
        count = min(len(self._dead), _MOST_GIVEN_BACK)
        body = array.array("Q", [self._dead.popleft() for _ in range(count)])
        body.extend(numbers)
        request = _REQUEST.pack(len(numbers), count) + body.tobytes()
        self._sock.sendall(request, socket.MSG_NOSIGNAL)

    def _receive_head(self) -> tuple[int, int, int, int | None]:
        head, fd = b"", None
        while len(head) < _ANSWER.size:
            part, passed, _, _ = self._sock.recvmsg(
                _ANSWER.size - len(head), FD_SPACE, socket.MSG_CMSG_CLOEXEC
            )
            if not part:
                raise ConnectionResetError
            head, fd = head + part, descriptor(passed) if passed else fd
        return (*_ANSWER.unpack(head), fd)

    def _batch_in(self, fd: int, size: int) -> Batch:
        if size < HEADER_BYTES:
            raise ProtocolError(f"the host gave a batch of {size} bytes; {REMEDY}")
        window = Mapping(fd, size).window(0, window_type(size))
        lease = Lease(window, _giver_back(self._live, self._dead))
        lease.connection = _NO_CONNECTION
        lease.grant = Grant(GRANT, 0, self._answered, size, DEDICATED, 0)
        lease.acked, lease.written = True, None
        self._live[self._answered] = lease
        self._answered += 1
        # Threads may read several batches at once, so these share no checks.
        return Batch(lease, window, Checked(self.fields))

    def _receive(self, size: int) -> bytes:
        body = b""
        while len(body) < size:
            part = self._sock.recv(size - len(body))
            if not part:
                raise ConnectionResetError
            body += part
        return body


def _giver_back(live: dict[int, Lease], dead: deque[int]) -> Callable[[Any], None]:
    """Notes, when the last view of an answer has died, that it can be given back."""

    def note(lease: Any) -> None:
        number = lease.grant.batch
        if live.pop(number, None) is not None:
            dead.append(number)

    return note


#: All hosts. When this program forks, the child has the answers whose views live.
_hosts: weakref.WeakSet[AccessHost] = weakref.WeakSet()


def _keep_answers() -> None:
    for host in list(_hosts):
        host._live.clear()


# Other threads may get an answer in between.
os.register_at_fork(before=_keep_answers, after_in_parent=_keep_answers)


class _NoConnection:
    """Stands for the connection of batches that belong to no ring."""

    def check(self) -> None:
        """Nothing can be wrong with it."""

    def ack(self, lease: Lease) -> None:
        """Nobody waits for it."""

    def writable_window(self, lease: Lease) -> Any:
        """A window into the same memory that the program may write to."""
        window = lease()
        return None if window is None else window.mapping.writable_window(window)


_NO_CONNECTION: Any = _NoConnection()
