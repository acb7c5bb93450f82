"""The stream of a channel's epochs and batches, as a program iterates over it."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from types import TracebackType
from typing import NoReturn

from . import protocol
from .batch import Batch
from .connection import Connection, Lease
from .errors import ConnectError, ProtocolError
from .feed import Feed
from .handshake import establish
from .protocol import EpochEnd, Field, Grant
from .version import __version__


def connect(
    channel: str,
    socket: str | os.PathLike[str] | None = None,
    *,
    credits: int | None = 2,
    timeout: float | None = None,
    wait: float = 10.0,
    hold_timeout: float | None = 10.0,
) -> Stream:
    """Connects to a channel of the pipemill host; the result is a context manager. ::

        with pipemill.connect("train") as stream:
            for batch in stream:
                train(batch["image"], batch["label"])

    :param channel: name of the channel in the host's configuration.
    :param socket: path of the host's socket; left out, it is ``$PIPEMILL_SOCKET``, which pipemill
        sets for the command that it starts.
    :param credits: how many batches this program may hold at once, views of them included. A loop
        needs 2: the batch in hand and the next one. ``None``: as the channel's configuration says.
    :param timeout: seconds to wait for a batch before :class:`StreamTimeout`; ``None``: for ever.
    :param wait: seconds to wait for a host that is not there yet before :class:`ConnectError`.
    :param hold_timeout: seconds to wait for this program to let go of a batch, where it holds all
        that it may, before :class:`HeldError`; ``None``: for ever.

    Raises :class:`ConnectError`, or :class:`Refused` with the host's reason.
    """
    path = os.fspath(socket) if socket is not None else os.environ.get("PIPEMILL_SOCKET")
    if not path:
        raise ConnectError(
            "where is the pipemill host? $PIPEMILL_SOCKET is not set; run this program with "
            "`pipemill run --config FILE -- COMMAND`, or give connect() the socket's path"
        )
    if credits is not None and credits < 1:
        raise ValueError(f"credits={credits}: 1 or more are needed, and 2 for a loop over batches")
    connection = establish(path, channel, credits, wait, __version__)
    return Stream(channel, connection, Feed(channel, connection, timeout, hold_timeout))


class Stream:
    """A channel, connected. Iterate over it for all batches of all epochs, or over :meth:`epochs`.

    Made by :func:`connect`. Use it in one thread; batches and views may be dropped in any. A batch
    counts as done with when the next one is asked for (or with :meth:`Batch.ack`): until then, the
    host gives it to another consumer should this program die.
    """

    def __init__(self, channel: str, connection: Connection, feed: Feed) -> None:
        #: Name of the channel.
        self.channel = channel
        #: How many batches may be held at once; the host may have given fewer than asked for.
        self.credits = connection.welcome.credits
        #: How the channel is divided among consumers: "share" or "broadcast".
        self.mode = connection.welcome.mode
        self._connection = connection
        self._feed = feed
        self._lease: Lease | None = None  # of the batch in hand
        self._epoch: Epoch | None = None  # the current one

    # --- what a program calls

    def epochs(self) -> Iterator[Epoch]:
        """The epochs, one after the other. ::

            for epoch in stream.epochs():
                for batch in epoch:
                    ...
                print("epoch", epoch.number, "is over")

        Leaving an epoch's loop early and going on to the next epoch reads over the rest of it; the
        host still decodes it. :meth:`Epoch.end` asks the host to leave the rest out.
        """
        while True:
            while self._epoch is not None:
                self._pass_over(self._epoch)
            epoch = self._next_epoch()
            if epoch is None:
                return
            yield epoch

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Batch:
        while True:
            epoch = self._epoch or self._next_epoch()
            if epoch is None:
                raise StopIteration
            batch = self._next_batch(epoch)
            if batch is not None:
                return batch

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of each record. Waits for the host to tell them, as it does before the first
        batch; empty where the stream has none."""
        if not self._feed.fields:
            self._connection.check()
            self._feed.peek()
        return self._feed.fields

    def close(self) -> None:
        """Hangs up. The end of ``with`` does this.

        Batches can't be used any more; arrays and other views of them can, and the hang-up waits
        for the last of these. What was not ACKed, the last batch of a loop that was left early
        among it, goes to another consumer.
        """
        self._feed.discard()
        self._connection.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a pipemill stream belongs to the process that connected it and can't be pickled; "
            "call pipemill.connect() in the process that reads"
        )

    def __repr__(self) -> str:
        return (
            f"<pipemill stream of channel {self.channel!r}: {self._feed.batches} batches, "
            f"{self._feed.records} records read>"
        )

    # --- epochs and batches

    def _next_epoch(self) -> Epoch | None:
        """Waits for the first message of an epoch. None at the end of the stream."""
        self._move_on()
        first = self._feed.peek()
        self._epoch = None if first is None else Epoch(self, first.epoch)
        return self._epoch

    def _next_batch(self, epoch: Epoch) -> Batch | None:
        """The next batch of the current epoch. None at its end."""
        while epoch._left_out:
            if not self._pass_over(epoch):
                return None
        grant = self._next_grant(epoch)
        if grant is None:
            return None
        lease, window = self._connection.lease(grant)
        batch = Batch(lease, window, self._feed.fields)
        lease.batch = weakref.ref(batch)
        self._lease = lease
        self._feed.batches += 1
        self._feed.records += len(batch)
        return batch

    def _pass_over(self, epoch: Epoch) -> bool:
        """Gives the next batch of the current epoch back unread. False at the epoch's end."""
        grant = self._next_grant(epoch)
        if grant is not None:
            self._connection.pass_over(grant)
        return grant is not None

    def _next_grant(self, epoch: Epoch) -> Grant | None:
        """Is done with the batch in hand; waits for the next grant, or None at the epoch's end."""
        self._move_on()
        event = self._feed.take()
        if event is None or event.epoch != epoch.number:
            came = "the end of the stream" if event is None else f"epoch {event.epoch}"
            raise ProtocolError(
                f"channel {self.channel!r}: the host sent {came} before the end of epoch "
                f"{epoch.number}; {protocol.REMEDY}"
            )
        if isinstance(event, EpochEnd):
            self._epoch = None
            epoch._end(event)
            return None
        return event

    def _move_on(self) -> None:
        self._connection.check()
        lease = self._lease
        if lease is not None:
            self._lease = None
            self._connection.done(lease)


class Epoch:
    """One pass over the channel's input. Iterate over it for its batches."""

    def __init__(self, stream: Stream, number: int) -> None:
        #: Number of the epoch, from 0.
        self.number = number
        #: What the whole channel had in this epoch, all consumers together; None until its end.
        self.batches: int | None = None
        self.records: int | None = None
        #: Whether the epoch was ended before the end of its input; None until its end.
        self.ended_early: bool | None = None
        self._stream = stream
        self._left_out = False

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Batch:
        stream = self._stream
        batch = stream._next_batch(self) if stream._epoch is self else None
        if batch is None:
            raise StopIteration
        return batch

    def end(self) -> None:
        """Asks the host to leave out the rest of this epoch, for all consumers of the channel.

        No more batches come from this epoch; go on with the next one. Nothing happens where the
        epoch is over.

        ::

            for epoch in stream.epochs():
                for step, batch in enumerate(epoch):
                    train(batch)
                    if step == 1000:
                        epoch.end()
        """
        stream = self._stream
        if stream._epoch is self and not self._left_out:
            stream._connection.check()
            self._left_out = True
            stream._connection.end_epoch(self.number)

    def _end(self, event: EpochEnd) -> None:
        self.batches, self.records = event.batches, event.records
        self.ended_early = bool(event.flags & protocol.ENDED_EARLY)

    def __repr__(self) -> str:
        return f"<pipemill epoch {self.number} of channel {self._stream.channel!r}>"
