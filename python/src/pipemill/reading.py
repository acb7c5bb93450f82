"""What a data set of another library reads: the arguments of `open` or of `connect`. It can be
pickled, so the stream is made in the process that reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .opening import open
from .sources import Source
from .stream import Stream, connect


class Reading:
    """A source with the arguments of :func:`pipemill.open`, or a channel with those of
    :func:`pipemill.connect`."""

    def __init__(
        self, source: Source | None, decoder: str | os.PathLike[str] | None, channel: str | None, more: dict[str, Any]
    ) -> None:
        if (source is None) == (channel is None):
            raise ValueError(
                "give a source, and the arguments of pipemill.open(), or channel=, and those of "
                "pipemill.connect(): "
                + ("found neither" if source is None else f"found {source!r} and {channel!r}")
            )
        self._source = source
        self._channel = channel
        self._more = {"decoder": decoder, **more} if channel is None else more

    def stream(self, state: Mapping[str, Any] | None = None) -> Stream:
        """A new stream. It begins after `state`, if that is given."""
        more = self._more if state is None else {**self._more, "state": state}
        if self._channel is not None:
            return connect(self._channel, **more)
        assert self._source is not None
        return open(self._source, **more)
