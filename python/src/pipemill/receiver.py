"""Receives the host's messages in order, and waits for the next one."""

from __future__ import annotations

import gc
import os
import time
from typing import TYPE_CHECKING, Any, NoReturn

from . import protocol
from .checked import Checked
from .connection import DONT_WAIT, POLL_INTERVAL, WAIT, Connection
from .errors import HeldError, HostDied, ProtocolError, StreamTimeout
from .log import warn
from .other_ranks import why_waiting
from .protocol import EpochEnd, Grant
from .schema import Field, parse_schema
from .waits import Waits

if TYPE_CHECKING:
    from .address import Address
    from .connection import Received
    from .private_host import Host

#: Seconds without a free credit after which the reader collects reference cycles: one may contain a
#: batch.
_COLLECT_AFTER = 0.05
_clock = time.perf_counter_ns
#: Seconds after which a rank logs which others it waits for.
REPORT_AFTER = (10.0, 60.0, 600.0)


class Receiver:
    """Gives the grants and the ends of epochs, in the host's order."""

    def __init__(
        self,
        channel: str,
        connection: Connection,
        timeout: float | None,
        hold_timeout: float | None,
    ) -> None:
        #: The schema, and the checks of the last batch that has it.
        self.checked = Checked(())
        #: The numbers of batches and records that the program got, for error texts.
        self.batches = self.records = 0
        #: How long the program has waited for them.
        self.waits = Waits()
        #: Nanoseconds of the wait for the next batch so far.
        self._waited = 0
        #: The private host, and the process that has started it, if that is another one: for error
        #: texts.
        self.host: Host | None = None
        self.host_owner: str | None = None
        #: The host's address, this rank and the number of ranks, if there are several.
        self.ranks: tuple[Address, int, int] | None = None
        self._reported = 0
        self._channel = channel
        self._connection = connection
        self._credits = connection.welcome.credits
        self._timeout = timeout
        self._hold_timeout = hold_timeout
        self._peeked: Grant | EpochEnd | None = None
        self._final: tuple[int, bytes] | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of each record. Empty before the SCHEMA."""
        return self.checked.fields

    def take(self) -> Grant | EpochEnd | None:
        """The next GRANT or EPOCH_END; None when the stream has ended."""
        event = self._peeked
        if event is not None:
            self._peeked = None
            return event
        return self._next()

    def peek(self) -> Grant | EpochEnd | None:
        """As `take`, but the next call returns the same again."""
        if self._peeked is None:
            self._peeked = self._next()
        return self._peeked

    def look(self) -> Grant | None:
        """As `peek`, for a GRANT that has come already. It neither waits nor raises an error of the
        host."""
        if self._peeked is None and self.fields and self._final is None:
            if self._connection.coming() == protocol.GRANT:
                self.peek()
        return self._peeked if isinstance(self._peeked, Grant) else None

    @property
    def has_ended(self) -> bool:
        """Whether the host has sent the end of the stream."""
        return self._final is not None

    def discard(self) -> None:
        """Drops a grant that was peeked at. The host gives its batch to another consumer."""
        if isinstance(self._peeked, Grant) and self._peeked.fd is not None:
            os.close(self._peeked.fd)
        self._peeked = None

    def _next(self) -> Grant | EpochEnd | None:
        """Waits for the next GRANT or EPOCH_END, and counts how long."""
        began, connection = _clock(), self._connection
        try:
            # The usual way of a batch: one call of the kernel, and few calls of Python.
            may_wait = self._timeout is None and len(connection.open) < self._credits
            event: Any = None
            if self._final is None:
                event = connection.receive(WAIT if may_wait else DONT_WAIT)
            if type(event) is not Grant or not self.checked.fields:
                event = self._event_after(event, may_wait)
        except BaseException:
            self._waited += _clock() - began
            raise
        waited = self._waited + _clock() - began
        if type(event) is Grant:
            self._waited = 0
            self.waits._add(waited)
        else:
            self._waited = waited
        return event  # type: ignore[no-any-return]

    def _event_after(self, found: Received, waited: bool) -> Grant | EpochEnd | None:
        """The next event. `found` is the first message received. `waited`: whether it had to be
        waited for."""
        while self._final is None:
            if found[0] is None:
                found = self._receive(POLL_INTERVAL if waited else 0.0)
            event = self._event_of(found)
            if event is not None:
                return event
            found = None, None
            waited = False
        kind, body = self._final
        if kind == protocol.ERROR:
            raise protocol.parse_error(body, self._channel)
        return None

    def _event_of(self, found: Received) -> Grant | EpochEnd | None:
        """The event of a message. None if it is no event: then its content was noted."""
        if isinstance(found, Grant):
            if self.fields:
                return found
            if found.fd is not None:
                os.close(found.fd)
            self._raise_unexpected("a GRANT before the SCHEMA")
        size, fd = found
        if not size:
            self._raise_host_died()
        message = self._connection.message
        kind = protocol.TYPE.unpack_from(message)[0] if size >= 4 else 0
        if fd is not None:
            os.close(fd)
        if kind == protocol.EPOCH_END:
            return protocol.parse_epoch_end(message, size)
        body = bytes(message[4:size])
        if kind == protocol.SCHEMA:
            self.checked = Checked(parse_schema(body))
        elif kind in (protocol.STREAM_END, protocol.ERROR):
            self._final = kind, body
        elif kind == protocol.REFUSED:
            raise protocol.parse_refused(body, self._channel)
        elif kind == protocol.GRANT:
            raise ProtocolError(
                f"the host's GRANT has {size} bytes, not {protocol.GRANT_MESSAGE.size}; "
                f"{protocol.REMEDY}"
            )
        elif kind == protocol.LARGER_SLOTS:
            raise ProtocolError(
                f"the host's LARGER_SLOTS has {size} bytes and {'no' if fd is None else 'a'} "
                f"descriptor, not {protocol.LARGER_SLOTS_MESSAGE.size} and one; {protocol.REMEDY}"
            )
        else:
            self._raise_unexpected(f"a message of type {kind} and {size} bytes")
        return None

    def _receive(self, idle: float) -> Received:
        """Waits for the next message. `idle`: the seconds of the wait before."""
        connection = self._connection
        while self._timeout is None and len(connection.open) < self._credits:
            if idle:
                connection.flush()
                self._say_why_waiting(idle)
            found = connection.receive(WAIT)
            if found[0] is not None:
                return found
            idle += POLL_INTERVAL
        found = connection.receive()
        return self._wait() if found[0] is None else found

    def _wait(self) -> Received:
        """Waits for the next message as long as the program allows."""
        began = time.monotonic()
        no_credit_since: float | None = None
        collected = False
        while True:
            now = time.monotonic()
            if len(self._connection.open) < self._credits:
                no_credit_since, limit = None, POLL_INTERVAL
            else:
                no_credit_since = now if no_credit_since is None else no_credit_since
                limit = POLL_INTERVAL if collected else _COLLECT_AFTER
                if not collected and now - no_credit_since >= _COLLECT_AFTER:
                    gc.collect()
                    collected = True
                if self._hold_timeout is not None:
                    limit = min(limit, no_credit_since + self._hold_timeout - now)
                    if limit <= 0:
                        self._raise_held(now - no_credit_since)
            if self._timeout is not None:
                limit = min(limit, began + self._timeout - now)
            self._connection.wait(limit)
            found = self._connection.receive()
            if found[0] is not None:
                return found
            self._say_why_waiting(time.monotonic() - began)
            if self._timeout is not None and time.monotonic() - began >= self._timeout:
                why = self._why_waiting() or (
                    "ask again, give connect() a longer timeout=, or see in `pipemill top` or the "
                    "host's log what the channel waits for"
                )
                raise StreamTimeout(
                    f"channel {self._channel!r}: nothing came from the host for "
                    f"{self._timeout:g} s, after {self._progress()}; {why}"
                )

    def _why_waiting(self) -> str | None:
        """Which other ranks this one waits for. None if it is alone, or it is not known."""
        if self.ranks is None:
            return None
        address, _, world = self.ranks
        return why_waiting(address, self._channel, world)

    def _say_why_waiting(self, seconds: float) -> None:
        """Logs it a few times, as long as nothing comes."""
        if self.ranks is None or self._reported == len(REPORT_AFTER):
            return
        if seconds < REPORT_AFTER[self._reported]:
            return
        self._reported += 1
        why = self._why_waiting()
        if why is not None:
            _, rank, world = self.ranks
            warn(
                f"channel {self._channel!r}: rank {rank} of {world} has waited {seconds:.0f} s for "
                f"its next batch; {why}"
            )

    def _raise_held(self, seconds: float) -> NoReturn:
        held = []
        for lease in list(self._connection.open.values()):
            alive = lease.its_batch() is not None
            what = "the Batch itself" if alive else "only views of it (arrays, memoryviews)"
            held.append(f"batch {lease.grant.batch} of epoch {lease.grant.epoch}: {what}")
        raise HeldError(
            f"channel {self._channel!r}: this program holds {len(held)} batches, all that it may "
            f"({self._connection.welcome.credits} credits), and has let go of none for "
            f"{seconds:.1f} s while it asked for another. Held are: {'; '.join(held)}. Copy what "
            "you keep (array.copy(), bytes(record)) and drop the rest, or ask connect() for more "
            "credits="
        )

    def _raise_host_died(self) -> NoReturn:
        raise HostDied(
            f"the pipemill host hung up on channel {self._channel!r} before the stream had ended, "
            f"after {self._progress()}; {self._why_host_died()}. Views that this program holds "
            "stay readable",
            batches=self.batches,
            records=self.records,
        )

    def _why_host_died(self) -> str:
        if self.host is not None:
            return self.host._how_it_ended()
        why = "it has crashed, was killed or has disconnected this consumer: look into its log"
        if self.host_owner is not None:
            why += (
                f", which is the standard error of {self.host_owner}: that process has started it, "
                "and it ends with it"
            )
        return why

    def _raise_unexpected(self, what: str) -> NoReturn:
        raise ProtocolError(
            f"channel {self._channel!r}: the host sent {what}, which is not allowed there; "
            f"{protocol.REMEDY}"
        )

    def _progress(self) -> str:
        return f"{self.batches} batches with {self.records} records were read"
