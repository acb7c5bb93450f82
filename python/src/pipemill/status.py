"""The status of a host, asked for over its socket: see docs/operate.md."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Any

from . import protocol
from .address import Address, address_of
from .errors import DecodeError, ProtocolError

_GET_STATUS = struct.pack("<I", 5)
_STATUS = 23
_PART = struct.Struct("<IQ")
#: Seconds that a host has to answer. A thread of its own answers, whatever its channels do.
_TIMEOUT = 10.0


def status_of(address: str | Address, channel: str) -> dict[str, Any]:
    """The status of a channel of the host at this socket.

    Raises :class:`OSError` if no trusted host answers, and :class:`ProtocolError` if its answer is
    no status or has no such channel.
    """
    with address_of(address).connect(_TIMEOUT) as sock:
        sock.send(_GET_STATUS, socket.MSG_NOSIGNAL)
        text = b"".join(_parts(sock))
    channels = protocol.parse_json("STATUS", text).get("channels")
    for one in channels if isinstance(channels, list) else []:
        if isinstance(one, dict) and one.get("name") == channel:
            return one
    raise ProtocolError(f"the host's status has no channel {channel!r}; {protocol.REMEDY}")


def _parts(sock: socket.socket) -> Any:
    while True:
        message = sock.recv(protocol.MAX_MESSAGE)
        kind, left = _PART.unpack_from(message) if len(message) >= _PART.size else (0, 0)
        part = message[_PART.size :]
        if kind != _STATUS or left < len(part):
            raise ProtocolError(f"the host's answer to GET_STATUS is no STATUS; {protocol.REMEDY}")
        yield part
        if left == len(part):
            return


class SkippedCount:
    """How many decode errors a channel has skipped, as long as its host can be asked."""

    def __init__(self, address: Address | None, channel: str) -> None:
        """`address`: None if no host was named."""
        self._address = address
        self._channel = channel
        self._last = 0

    def now(self) -> int:
        """The count now. After the end of the host, its last answer."""
        if self._address is None:
            return self._last
        with contextlib.suppress(OSError, ProtocolError):
            totals = status_of(self._address, self._channel).get("totals")
            count = totals.get("decode_errors") if isinstance(totals, dict) else None
            self._last = count if isinstance(count, int) else self._last
        return self._last


def failure_of(address: Address, channel: str) -> DecodeError | None:
    """The failure that has ended a channel. None if it has not failed, or no host answers."""
    try:
        status = status_of(address, channel)
    except (OSError, ProtocolError):
        return None
    error = status.get("error")
    if not isinstance(error, dict):
        return None
    return protocol.error_of({**error, "decoder": status.get("decoder")}, channel)
