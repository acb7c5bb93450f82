"""The input of a data set of another library: a channel or a source. It can be pickled, so the
stream is made in the process that reads."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from .arguments import check_shuffle, defaults_of
from .restarting import MAX_LOST, RestartingBatches
from .opening import open
from .sources import Source
from .stream import Stream, connect

#: The name of a channel. A source has a `/`, a `.` or a wildcard.
_CHANNEL = re.compile(r"[\w-]+")


def is_channel(source: Any, decoder: Any, socket: Any) -> bool:
    """Whether these arguments name a channel of a running host. Otherwise they name a source. They
    can name a channel if `socket` is given or ``$PIPEMILL_SOCKET`` is set.

    Raises :class:`ValueError` if they name neither.
    """
    is_name = isinstance(source, str) and bool(_CHANNEL.fullmatch(source)) and decoder is None
    if socket is not None and not is_name:
        raise ValueError(
            f"source={source!r} with decoder={decoder!r} is no channel, but socket= is the path "
            "of a host's socket; leave it out, or give a channel's name alone"
        )
    if not is_name or socket is not None or "PIPEMILL_SOCKET" in os.environ:
        return is_name
    if not os.path.lexists(source):
        raise ValueError(
            f"{source!r} is neither a file here nor a channel that a host is known for: "
            "$PIPEMILL_SOCKET is not set; run this program with `pipemill run -- COMMAND`, or "
            "give socket=, or name a file, a folder, a pattern or an address in S3"
        )
    return False


class Reading:
    """The arguments of :func:`pipemill.connect`, if they name a channel: see :func:`is_channel`.
    Otherwise those of :func:`pipemill.open`. `more` has the arguments of both."""

    def __init__(self, source: Source, decoder: Any, socket: Any, more: dict[str, Any]) -> None:
        more = {**more, "shuffle": check_shuffle(more["shuffle"])}
        self._source = source
        self._is_channel = is_channel(source, decoder, socket)
        what, other = ("channel", "source") if self._is_channel else ("source", "channel")
        taken = defaults_of(connect if self._is_channel else open)
        defaults = {**defaults_of(connect), **defaults_of(open)}
        for name, value in more.items():
            if name not in taken and value != defaults[name]:
                raise TypeError(
                    f"{name}={value!r} is for a {other}, and {source!r} is a {what}; leave it out"
                )
        own = {"socket": socket} if self._is_channel else {"decoder": decoder}
        self._more = {**own, **{name: more[name] for name in more if name in taken}}

    def batches(self, state: Mapping[str, Any] | None = None) -> RestartingBatches:
        """The batches of a new stream. If its host is this program's own and is killed, another one
        continues."""
        shares_host = self._is_channel or self._more.get("host") is not None
        return RestartingBatches(self.stream, state, 0 if shares_host else MAX_LOST)

    def stream(self, state: Mapping[str, Any] | None = None) -> Stream:
        """A new stream. It begins after `state`, if that is given."""
        more = self._more if state is None else {**self._more, "state": state}
        make: Any = connect if self._is_channel else open
        stream: Stream = make(self._source, **more)
        return stream
