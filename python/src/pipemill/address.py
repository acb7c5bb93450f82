"""The address of a host, and whether the host is trusted. A host's memory and messages are taken as
they are. So a reader checks the owner of the socket, and asks the kernel for the process at its
other end, before it sends or reads anything."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
from typing import NamedTuple

from .errors import ConnectError

#: The kernel's facts about the process at the other end: its id, its user and its group.
_CREDENTIALS = struct.Struct("iII")
_ROOT = 0


class Address(NamedTuple):
    """The path of a host's socket, as :func:`pipemill.connect` takes it."""

    path: str
    #: Whether the host may belong to any user.
    allow_other_users: bool = False
    #: Whether other users can know the path, and so create its folder before the host does.
    can_be_guessed: bool = False

    def __fspath__(self) -> str:
        return self.path

    def connect(self, seconds: float) -> socket.socket:
        """A connected socket. Waits at most `seconds`, as does each of its calls.

        Raises :class:`OSError` if no host answers, and :class:`ConnectError` if the host is not
        trusted.
        """
        if not self.allow_other_users:
            if self.can_be_guessed:
                _check_folder(os.path.dirname(self.path))
            # Another user's process could let a connection wait. If nothing is there, connecting
            # gives the reason.
            with contextlib.suppress(FileNotFoundError):
                self._check_user(_owner(self.path))
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            sock.settimeout(seconds)
            sock.connect(self.path)
            if not self.allow_other_users:
                peer = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
                pid, user, _ = _CREDENTIALS.unpack(peer)
                self._check_user(user, f" (process {pid})" if pid else "")
        except BaseException:
            sock.close()
            raise
        return sock

    def _check_user(self, user: int, process: str = "") -> None:
        if not _is_believed(user):
            raise ConnectError(
                f"{self.path}: expected a host of user {os.geteuid()} or of root, found one of "
                f"user {user}{process}, which could send anything; if you trust that user, connect "
                "with allow_other_users; if not, let the host serve a path in a folder that only "
                "you can write to"
            )


def address_of(path: str | os.PathLike[str] | None, allow_other_users: bool = False) -> Address:
    """The address of a host: `path`, or that of ``$PIPEMILL_SOCKET``.

    Raises :class:`ConnectError` if there is none.
    """
    if isinstance(path, Address):
        return path
    where = os.fspath(path) if path is not None else os.environ.get("PIPEMILL_SOCKET")
    if not where:
        raise ConnectError(
            "where is the pipemill host? $PIPEMILL_SOCKET is not set; run this program with "
            "`pipemill run --config FILE -- COMMAND`, or give connect() the socket's path"
        )
    return Address(where, bool(allow_other_users))


def _is_believed(user: int) -> bool:
    """Whether it is this process's user, or root, who can change this process anyway."""
    return user in (_ROOT, os.geteuid())


def _owner(path: str) -> int:
    """The user who owns the file at the path, or a link there: its owner decides where the link
    leads."""
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode) and _is_believed(found.st_uid):
        found = os.stat(path)
    return found.st_uid


def _check_folder(folder: str) -> None:
    """Refuses a folder into which another user could have put a socket."""
    found = os.lstat(folder)
    is_link = stat.S_ISLNK(found.st_mode) and not _is_believed(found.st_uid)
    if stat.S_ISLNK(found.st_mode) and not is_link:
        found = os.stat(folder)
    if not is_link and _is_believed(found.st_uid) and not found.st_mode & 0o022:
        return
    remedy = (
        "take the others' permission to write away: chmod go-w"
        if _is_believed(found.st_uid)
        else "another user has made it, so choose another one: set $XDG_RUNTIME_DIR, for all "
        "processes of the job, to a folder of this user"
    )
    raise ConnectError(
        f"{folder}: the folder of the socket must be one that only this user may write to (owner "
        f"{os.geteuid()}, mode 0755 or stricter); found {'a link with ' if is_link else ''}owner "
        f"{found.st_uid}, mode {stat.S_IMODE(found.st_mode):04o}; {remedy}"
    )
