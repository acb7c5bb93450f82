"""Makes a connection: connects the socket, sends HELLO, receives WELCOME and maps the ring."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from typing import Any

from . import protocol
from .address import Address
from .connection import FD_SPACE, Connection, descriptor
from .errors import ConnectError, ProtocolError
from .memory import Mapping
from .other_ranks import client_name


def establish(
    address: Address, channel: str, wishes: dict[str, Any], wait: float, version: str
) -> Connection:
    """A connection to `channel` of the host at this address. Waits at most `wait` seconds.
    `wishes`: the requests in HELLO."""
    deadline = time.monotonic() + wait
    client = f"python {'.'.join(map(str, sys.version_info[:3]))}, pipemill {version}"
    client = client_name(client, wishes.get("rank"))
    sock = _connect(address, deadline, wait)
    try:
        hello, left = protocol.hello(channel, client, wishes), deadline - time.monotonic()
        message, fd = _exchange_hello(sock, address.path, hello, max(left, 0.001))
        try:
            return _accept_welcome(sock, channel, message, fd)
        finally:
            if fd is not None:
                os.close(fd)
    except BaseException:
        sock.close()
        raise


def _connect(address: Address, deadline: float, wait: float) -> socket.socket:
    """A connected socket. Waits until the host is there, at most until `deadline`."""
    while True:
        try:
            return address.connect(max(deadline - time.monotonic(), 0.001))
        except ConnectError:
            raise
        except OSError as error:
            early = isinstance(error, (FileNotFoundError, ConnectionRefusedError, BlockingIOError))
            if not early or time.monotonic() >= deadline:
                waited = f", waited {wait:g} s for it" if early else ""
                raise ConnectError(
                    f"no pipemill host could be reached at the socket {address.path!r}{waited}: "
                    f"{error.strerror or error}; check that `pipemill run` is running, that "
                    "$PIPEMILL_SOCKET is its socket, or give connect() a longer wait="
                ) from None
        time.sleep(0.01)


def _exchange_hello(
    sock: socket.socket, path: str, hello: bytes, seconds: float
) -> tuple[bytes, int | None]:
    """Sends HELLO; returns the answer and its descriptor."""
    sock.settimeout(seconds)
    with contextlib.suppress(ConnectionError):
        # A host that refuses may hang up before it reads HELLO. Its answer can still be received.
        sock.send(hello, socket.MSG_NOSIGNAL)
    try:
        message, passed = _receive_answer(sock)
    except socket.timeout:
        raise ConnectError(
            f"the host at {path!r} took the connection but did not answer within {seconds:.1f} s; "
            "look into its log, or give connect() a longer wait="
        ) from None
    except OSError as error:
        raise ConnectError(
            f"the host at {path!r} hung up without an answer ({error.strerror or error}); look "
            "into its log"
        ) from None
    sock.settimeout(None)
    return message, descriptor(passed)


def _receive_answer(sock: socket.socket) -> tuple[bytes, list[tuple[int, int, bytes]]]:
    for last in (False, True):
        try:
            return sock.recvmsg(protocol.MAX_MESSAGE, FD_SPACE, socket.MSG_CMSG_CLOEXEC)[:2]
        except ConnectionResetError:
            # The host hung up before it had read HELLO. Linux reports this once, ahead of the
            # host's answer.
            if last:
                raise
    return b"", []


def _accept_welcome(
    sock: socket.socket, channel: str, message: bytes, fd: int | None
) -> Connection:
    """The connection, if the host's answer is a WELCOME."""
    if not message:
        raise ConnectError(
            f"the host hung up when asked for channel {channel!r}; look into its log"
        )
    kind = protocol.TYPE.unpack_from(message)[0] if len(message) >= 4 else None
    if kind == protocol.REFUSED:
        raise protocol.parse_refused(message[4:], channel)
    if kind != protocol.WELCOME or fd is None:
        raise ProtocolError(
            "the answer to HELLO is not a WELCOME with the ring's memory (it is a message of type "
            f"{kind}, {'no' if fd is None else 'with a'} descriptor); {protocol.REMEDY}"
        )
    welcome = protocol.parse_welcome(message[4:])
    return Connection(sock, welcome, Mapping(fd, welcome.slots * welcome.slot_bytes))
