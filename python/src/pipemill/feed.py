"""The host's messages in order, and what becomes of a program that waits for the next one."""

from __future__ import annotations

import gc
import os
import time
from typing import NoReturn

from . import protocol
from .connection import Connection
from .errors import HeldError, HostDied, ProtocolError, StreamTimeout
from .protocol import EpochEnd, Field, Grant

#: Waits are cut into pieces of this many seconds, so that what could not be sent is tried again.
_PIECE = 1.0
#: After this many seconds without a free credit, batches caught in reference cycles are looked for.
_COLLECT_AFTER = 0.05


class Feed:
    """Grants and ends of epochs, as they come."""

    def __init__(
        self,
        channel: str,
        connection: Connection,
        timeout: float | None,
        hold_timeout: float | None,
    ) -> None:
        self.fields: tuple[Field, ...] = ()
        #: What was handed over, for the message when the host dies.
        self.batches = self.records = 0
        self._channel = channel
        self._connection = connection
        self._timeout = timeout
        self._hold_timeout = hold_timeout
        self._ahead: Grant | EpochEnd | None = None
        self._last: tuple[int, bytes] | None = None

    def take(self) -> Grant | EpochEnd | None:
        """The next GRANT or EPOCH_END; None when the stream has ended."""
        ahead = self._ahead
        if ahead is not None:
            self._ahead = None
            return ahead
        return self._next()

    def peek(self) -> Grant | EpochEnd | None:
        """As `take`, and leaves it there."""
        if self._ahead is None:
            self._ahead = self._next()
        return self._ahead

    def discard(self) -> None:
        """Lets go of what is ahead, for the host to give to another consumer."""
        if isinstance(self._ahead, Grant) and self._ahead.fd is not None:
            os.close(self._ahead.fd)
        self._ahead = None

    def _next(self) -> Grant | EpochEnd | None:
        while self._last is None:
            message, fd = self._connection.receive()
            if message is None:
                message, fd = self._wait()
            if not message:
                self._died()
            kind = protocol.TYPE.unpack_from(message)[0] if len(message) >= 4 else 0
            if fd is not None and kind != protocol.GRANT:
                os.close(fd)
            if kind == protocol.GRANT:
                if not self.fields:
                    self._confused("a GRANT before the SCHEMA")
                return protocol.parse_grant(message, fd)
            if kind == protocol.EPOCH_END:
                return protocol.parse_epoch_end(message)
            if kind == protocol.SCHEMA:
                self.fields = protocol.parse_schema(bytes(message[4:]))
            elif kind in (protocol.STREAM_END, protocol.ERROR):
                self._last = kind, bytes(message[4:])
            else:
                self._confused(f"a message of type {kind} and {len(message)} bytes")
        kind, body = self._last
        if kind == protocol.ERROR:
            raise protocol.parse_error(body, self._channel)
        return None

    def _wait(self) -> tuple[memoryview, int | None]:
        """The next message, after a wait."""
        began = time.monotonic()
        starved: float | None = None
        collected = False
        while True:
            now = time.monotonic()
            if len(self._connection.open) < self._connection.welcome.credits:
                starved, limit = None, _PIECE
            else:
                starved = now if starved is None else starved
                limit = _PIECE if collected else _COLLECT_AFTER
                if not collected and now - starved >= _COLLECT_AFTER:
                    gc.collect()
                    collected = True
                if self._hold_timeout is not None:
                    limit = min(limit, starved + self._hold_timeout - now)
                    if limit <= 0:
                        self._held(now - starved)
            if self._timeout is not None:
                limit = min(limit, began + self._timeout - now)
            self._connection.wait(limit)
            message, fd = self._connection.receive()
            if message is not None:
                return message, fd
            if self._timeout is not None and time.monotonic() - began >= self._timeout:
                raise StreamTimeout(
                    f"channel {self._channel!r}: nothing came from the host for "
                    f"{self._timeout:g} s, after {self._read()}; ask again, give connect() a "
                    "longer timeout=, or look at the channel's source"
                )

    def _held(self, seconds: float) -> NoReturn:
        held = []
        for lease in list(self._connection.open.values()):
            alive = lease.batch is not None and lease.batch() is not None
            what = "the Batch itself" if alive else "only views of it (arrays, memoryviews)"
            held.append(f"batch {lease.grant.batch} of epoch {lease.grant.epoch}: {what}")
        raise HeldError(
            f"channel {self._channel!r}: this program holds {len(held)} batches, all that it may "
            f"({self._connection.welcome.credits} credits), and has let go of none for "
            f"{seconds:.1f} s while it asked for another. Held are: {'; '.join(held)}. Copy what "
            "you keep (array.copy(), bytes(record)) and drop the rest, or ask connect() for more "
            "credits="
        )

    def _died(self) -> NoReturn:
        raise HostDied(
            f"the pipemill host hung up on channel {self._channel!r} before the stream had ended, "
            f"after {self._read()}; it has crashed, was killed or has disconnected this consumer: "
            "look into its log. Views that this program holds stay readable",
            batches=self.batches,
            records=self.records,
        )

    def _confused(self, what: str) -> NoReturn:
        raise ProtocolError(
            f"channel {self._channel!r}: the host sent {what}, which has no place there; "
            f"{protocol.REMEDY}"
        )

    def _read(self) -> str:
        return f"{self.batches} batches with {self.records} records were read"
