"""What a host says of itself, asked for over its socket: see docs/operate.md."""

from __future__ import annotations

import socket
import struct
from typing import Any

from . import protocol
from .errors import DecodeError, ProtocolError

_GET_STATUS = struct.pack("<I", 5)
_STATUS = 23
_PART = struct.Struct("<IQ")
#: Seconds that a host has to answer. A thread of its own does that, whatever its channels do.
_TIMEOUT = 10.0


def status_of(path: str, channel: str) -> dict[str, Any]:
    """The status of a channel of the host at this socket.

    Raises :class:`OSError` where no host answers, and :class:`ProtocolError` where its answer is
    none or has no such channel.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.settimeout(_TIMEOUT)
        sock.connect(path)
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


def skipped_of(path: str, channel: str) -> int:
    """How many decode errors the channel has skipped. Raises as `status_of`."""
    totals = status_of(path, channel).get("totals")
    count = totals.get("decode_errors") if isinstance(totals, dict) else None
    if type(count) is not int:
        raise ProtocolError(f"the host's status has no number of errors; {protocol.REMEDY}")
    return count


def failure_of(path: str, channel: str) -> DecodeError | None:
    """The failure that has ended a channel; None where it has not failed, or nobody answers."""
    try:
        status = status_of(path, channel)
    except (OSError, ProtocolError):
        return None
    error = status.get("error")
    if not isinstance(error, dict):
        return None
    return protocol.error_of({**error, "decoder": status.get("decoder")}, channel)
