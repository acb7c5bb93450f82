"""Gives a forked child private copies of the batches that its parent held.

The shared memory itself does not belong to the child. As soon as the parent RELEASEs a batch, the
host writes another one there, and a view in the child would show it. So the parent copies the
memory of its batches before it forks, and the child puts the copies in the place of the shared
memory, at the same addresses. All views show the same bytes as before the fork. The rest of the
shared memory can't be read in the child: an attempt ends it with SIGSEGV. This can only happen to a
view that another thread made during the fork, or if native code has forked without Python's hooks.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .connection import Connection
    from .memory import Copy, Mapping

_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


class _Forking(threading.local):
    """The thread that forks: each connection that holds batches, and its copies."""

    copies: tuple[tuple[Connection, dict[Mapping, Copy]], ...] = ()


_forking = _Forking()


def register(connection: Connection) -> None:
    """From now on, forked children have copies of the batches that this connection holds."""
    _connections.add(connection)


def forget(connection: Connection) -> None:
    """Forgets a connection, whose views do not show shared memory any more."""
    _connections.discard(connection)


def _before() -> None:
    copies = []
    for connection in list(_connections):
        # Without memory for a copy, the child can't read these batches.
        with contextlib.suppress(OSError):
            copies.append((connection, connection.copy_held()))
    _forking.copies = tuple(copies)


def _after_in_parent() -> None:
    copies, _forking.copies = _forking.copies, ()
    for connection, held in copies:
        connection.drop_copies(held)


def _after_in_child() -> None:
    copies = dict(_forking.copies)
    _forking.copies = ()
    try:
        for connection in list(_connections):
            connection.leave_to_parent(copies.get(connection, {}))
            # A child of this child inherits the copy.
            _connections.discard(connection)
    except BaseException:
        # The child must not continue with views that the host overwrites.
        os.abort()


os.register_at_fork(
    before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)
