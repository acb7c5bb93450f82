"""A channel's epochs and batches, over which a program iterates."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from operator import index
from os import getpid
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, NoReturn
from weakref import ref

from . import protocol
from .address import Address, address_of
from .arguments import answering
from .batch import Batch
from .connection import Connection, Lease
from .errors import ProtocolError, Refused
from .handshake import establish
from .protocol import EpochEnd, Grant
from .ranks import rank_of
from .receiver import Receiver
from .schema import Field
from .parts import no_records
from .state import Tracker, check_accept, check_state
from .status import SkippedCount, failure_of
from .transform import Transform, keeping
from .version import __version__
from .waits import Waits

if TYPE_CHECKING:
    from .private_host import Host

_BY_CHANNEL = "the channel's configuration says that: `{name}`"
#: Arguments that :func:`connect` does not take, because the host has the channel already.
_SAID_BY_CHANNEL = {
    **dict.fromkeys(
        ("decoder", "skip", "options", "fields", "add_fields", "shuffle", "workers", "order",
         "epochs", "on_error", "max_errors", "quarantine", "on_plugin_error", "max_record",
         "limits"),
        _BY_CHANNEL,
    ),
    "num_workers": "the channel's configuration says that: `workers`",
    "seed": "the channel's configuration says in which order: `shuffle`",
    "host": "socket= is the path of the host's socket",
}  # fmt: skip


@answering(_SAID_BY_CHANNEL)
def connect(
    channel: str,
    socket: str | os.PathLike[str] | None = None,
    *,
    credits: int | None = 4,
    batch: int | None = None,
    tail: str | None = None,
    batch_across: str | None = None,
    rank: tuple[int, int] | str | None = None,
    state: Mapping[str, Any] | None = None,
    accept: Sequence[str] | str = (),
    timeout: float | None = None,
    wait: float = 10.0,
    hold_timeout: float | None = 10.0,
    allow_other_users: bool = False,
) -> Stream:
    """Connects to a channel of the pipemill host. The result is a context manager. ::

        with pipemill.connect("train") as stream:
            for batch in stream:
                train(batch["image"], batch["label"])

    :param channel: name of the channel in the host's configuration.
    :param socket: path of the host's socket. The default is ``$PIPEMILL_SOCKET``, which pipemill
        sets for the command that it starts.
    :param credits: how many batches this program may hold at once, 1 or more. A batch is held while
        a view of it lives. A loop needs 2: the current batch and the next one. With 4 it seldom
        waits for the host, even if batches are small. ``None``: as the channel's configuration
        says. The host reduces it to one less than its slots.
    :param batch: records of each batch, 1 to 1,048,576, if the channel's configuration does not
        say. The first consumer of a channel decides, before it gets a batch.
    :param tail: what happens to the last records if they don't fill a batch: "keep", "drop" or
        "pad". With `batch` only.
    :param batch_across: the end meant by `tail`: of each "epoch" (the default), or of each
        "object". With `batch` only.
    :param rank: ``(rank, world)``: this program is one of `world`, and gets each batch whose
        number modulo `world` is `rank`. "auto": as the launcher says in the environment (torchrun,
        MPI, Slurm's srun), or (0, 1). All ranks get equally many batches of an epoch. Nothing comes
        before all of them are connected. It needs a number of records, and `tail` "drop" or "pad".
    :param state: a result of :meth:`Stream.state_dict`, in this or another process: the first batch
        is the next one after it. It is refused if decoder, options, fields, objects, order or
        batches have changed.
    :param accept: differences that are accepted nevertheless, one word or several. "objects":
        others were added, removed or rewritten; the one in which the state resumes must still be at
        its place in the list. Records that were added before that place are missing. If the bytes
        of that object have changed, records may be missing or repeated. "decoder" and "options":
        another plugin, another version of it or other options decode the rest of the epoch. If they
        make more or fewer records of the bytes before the place, records may be missing or
        repeated. "schema": the fields have changed.
    :param timeout: seconds to wait for a batch before :class:`StreamTimeout`; ``None``: for ever.
    :param wait: seconds to wait for a host that is not there yet before :class:`ConnectError`.
    :param hold_timeout: seconds to wait, if this program holds as many batches as it may, until it
        drops one; then :class:`HeldError`. ``None``: for ever.
    :param allow_other_users: whether the host may belong to any user, for example if it runs in
        another container. Otherwise it must belong to this user or to root, because its memory is
        read as it is.

    Raises :class:`ConnectError` if no host answers or it is another user's, :class:`Refused` with
    the host's reason, and :class:`ValueError` if an argument is out of its range.
    """
    wishes = wishes_of(channel, credits, batch, tail, batch_across, rank, state, accept)
    address = address_of(socket, allow_other_users)
    return stream_of(channel, address, wishes, timeout, wait, hold_timeout)


def wishes_of(
    channel: str,
    credits: int | None,
    batch: int | None = None,
    tail: str | None = None,
    batch_across: str | None = None,
    rank: tuple[int, int] | str | None = None,
    state: Mapping[str, Any] | None = None,
    accept: Sequence[str] | str = (),
) -> dict[str, Any]:
    """The requests of a HELLO, from the arguments of :func:`connect`."""
    if credits is not None and credits < 1:
        raise ValueError(f"credits={credits}: 1 or more are needed, and 2 for a loop over batches")
    wishes: dict[str, Any] = {}
    if credits is not None:
        wishes["credits"] = credits
    if batch is not None:
        wishes["batch"] = batch_size(batch, tail, batch_across)
    elif tail is not None or batch_across is not None:
        raise ValueError("tail= and batch_across= are about batch=, which is missing")
    own = rank_of(rank)
    if own is not None:
        wishes["rank"] = {"rank": own[0], "world": own[1]}
    if state is not None:
        wishes["state"] = check_state(channel, state)
    words = check_accept(accept)
    if words:
        wishes["accept"] = words
    return wishes


def stream_of(
    channel: str,
    address: Address,
    wishes: dict[str, Any],
    timeout: float | None = None,
    wait: float = 10.0,
    hold_timeout: float | None = 10.0,
) -> Stream:
    """A connected channel, whose HELLO had these wishes. The other arguments are those of
    :func:`connect`."""
    try:
        connection = establish(address, channel, wishes, wait, __version__)
    except Refused as refused:
        # A channel that has failed is at its end, too. Then the failure is the reason.
        failure = failure_of(address, channel) if "is at its end" in str(refused) else None
        raise failure or refused from None
    receiver = Receiver(channel, connection, timeout, hold_timeout)
    tracker = Tracker(
        channel, connection, wishes.get("rank"), wishes.get("state"), "pass" in wishes
    )
    stream = Stream(channel, connection, receiver, tracker)
    stream._skips = SkippedCount(address, channel)
    if "rank" in wishes:
        receiver.ranks = address, wishes["rank"]["rank"], wishes["rank"]["world"]
    return stream


def whole_number(name: str, value: Any, most: int, unit: str = "") -> int:
    """The value of an argument, if it is a whole number from 1 to `most`."""
    number = index(value) if hasattr(value, "__index__") else 0
    if not 1 <= number <= most:
        raise ValueError(f"{name}={value!r}: expected a whole number from 1 to {most}{unit}")
    return number


def batch_size(records: int, tail: str | None, across: str | None) -> dict[str, Any]:
    """The number of records in each batch, in the form of HELLO."""
    size: dict[str, Any] = {"records": whole_number("batch", records, 1 << 20, " records")}
    for name, word, key, words in (
        ("tail", tail, "tail", ("keep", "drop", "pad")),
        ("batch_across", across, "across", ("object", "epoch")),
    ):
        if word is not None and word not in words:
            raise ValueError(f"{name}={word!r}: expected one of {', '.join(map(repr, words))}")
        if word is not None:
            size[key] = word
    return size


class Stream:
    """A connected channel. Iterate over it for all batches of all epochs, or over :meth:`epochs`.

    :func:`connect` and :func:`pipemill.open` make it. Use it in one thread; batches and views may
    be dropped in any thread. A batch is ACKed when you ask for the next one, or call
    :meth:`Batch.ack`. If this program dies before that, the host gives the batch to another
    consumer.
    """

    def __init__(
        self, channel: str, connection: Connection, receiver: Receiver, tracker: Tracker
    ) -> None:
        #: Name of the channel.
        self.channel = channel
        #: How many batches may be held at once. The host may allow fewer than requested.
        self.credits = connection.welcome.credits
        #: How the channel is divided among consumers: "share", "broadcast" or "rank".
        self.mode = connection.welcome.mode
        self._connection = connection
        self._receiver = receiver
        self._lease: Lease | None = None  # of the current batch
        self._epoch: Epoch | None = None  # the current epoch
        self._ahead: Batch | None = None  # the next batch, see `_look_ahead`
        self._set_epoch: Epoch | None = None  # the one that set_epoch() began
        self._tracker = tracker
        self._skips = SkippedCount(None, channel)
        #: Whether the host is known to skip input that can't be decoded.
        self._may_skip = False
        #: The name of its host's part of the objects, if each epoch must have a batch.
        self._part: str | None = None
        #: The private host that it reads from, which lives at least as long.
        self._host: Host | None = None
        #: Whether the host ends with the stream, and whether other programs read from it, too.
        self._owns_host = self._shares_host = False

    # --- for the program

    def epochs(self) -> Iterator[Epoch]:
        """The epochs, one after the other. ::

            for epoch in stream.epochs():
                for batch in epoch:
                    ...
                print("epoch", epoch.number, "is over")

        A program may leave an epoch's loop early and continue with the next epoch. Then this method
        receives the rest of the epoch and drops it; the host still decodes it. :meth:`Epoch.end`
        requests that the host skips the rest.
        """
        while True:
            if self._set_epoch is None:
                while self._epoch is not None:
                    self._skip_batch(self._epoch)
                self._next_epoch()
            self._set_epoch = None
            if self._epoch is None:
                return
            yield self._epoch

    def set_epoch(self, number: int) -> None:
        """Moves on to this epoch. Epochs before it are ended as by :meth:`Epoch.end`, and skipped.
        Without effect in an epoch of this number. ::

            for number in range(first, 10):
                stream.set_epoch(number)
                for batch in next(stream.epochs()):
                    ...

        Raises :class:`ValueError` if that epoch is over, or the stream has fewer.
        """
        while True:
            epoch = self._epoch or self._next_epoch()
            if epoch is None or epoch.number > number:
                now = "has ended" if epoch is None else f"is in epoch {epoch.number}"
                raise ValueError(
                    f"set_epoch({number}): channel {self.channel!r} {now}; to go back, connect "
                    "with a state="
                )
            if epoch.number == number:
                self._set_epoch = epoch
                return
            epoch.end()
            while self._epoch is not None:
                self._skip_batch(self._epoch)

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
        """The fields of each record. Waits until the host has sent them, which it does before the
        first batch. Empty if the stream ends before."""
        if not self._receiver.fields:
            self._connection.check()
            self._receiver.peek()
        return self._receiver.fields

    def __arrow_c_schema__(self) -> Any:
        """The Arrow type of the batches, for libraries that read Arrow. Waits as :attr:`fields`."""
        from .arrow import import_pyarrow

        import_pyarrow("a stream as Arrow")
        from .arrow.types import types_of

        return types_of(self.fields).schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The batches that were not delivered yet, for libraries that read Arrow. Needs pyarrow. ::

            polars.DataFrame(stream)
            pyarrow.table(stream)
            duckdb.sql("select count(*) from stream")

        Each batch is ACKed when the next one is requested. The consumer may keep all arrays. So
        they are copies, unless more than 4 credits are free, or the consumer has dropped those of
        the batches before: then they are views of the shared memory, and hold the batch as long as
        they live. Errors are those of the consumer, with the text of this package.
        """
        return self._arrow_reader(self).__arrow_c_stream__(requested_schema)

    def _arrow_reader(self, batches: Iterator[Batch]) -> Any:
        from .arrow import import_pyarrow

        import_pyarrow("a stream as Arrow")
        from .arrow.reader import reader

        self._connection.want_views()
        open, credits = self._connection.open, self._connection.welcome.credits
        return reader(batches, self.fields, lambda: credits - len(open))

    @property
    def records(self) -> int | None:
        """How many records the channel reads in each epoch, of all its consumers together. ``None``
        if that is not known: only an index knows it, and with `shuffle` and parts for several hosts
        the epochs differ."""
        length = self._connection.welcome.length
        return None if length is None else length.records

    @property
    def batches(self) -> int | None:
        """How many batches of a fixed size each epoch has: for this rank, or for all consumers
        together if they are no ranks. ``None`` if that is not known, as with :attr:`records`."""
        length = self._connection.welcome.length
        return None if length is None else length.batches

    @property
    def skipped(self) -> int:
        """How many places of the input the host has skipped so far as errors, because of
        ``on_error`` or ``on_plugin_error``: usually a record each.

        The host is asked, so the count is that of all its consumers since it has started, and it is
        ahead of the batches that were delivered to this program. After the host has ended, the last
        answer counts: to this, or at the end of the stream.
        """
        return self._skips.now()

    @property
    def waits(self) -> Waits:
        """How long this program has waited for each of its batches."""
        return self._receiver.waits

    def state_dict(self) -> dict[str, Any]:
        """The place at which this program resumes if it is started again: after the last batch that
        was delivered to it. Save it with the model, as JSON. :func:`connect` takes it, and so does
        ``pipemill run --resume FILE``.

        A dict of text, numbers and one dict of text, always with the same keys. It counts the
        batches that were *delivered* to the program, not those that it has finished: call it
        between two steps. It costs no wait and no message.

        Raises :class:`StateError` if not all batches of the channel were delivered to this program:
        in mode "share", others get some. With ``order = "any"``, it also raises inside of an epoch.
        """
        return self._tracker.state(self._receiver.fields)

    def map(self, function: Callable[[Batch], Any]) -> Transform:
        """Replaces each batch by the result of the function. ::

            for x, y in stream.map(lambda batch: (batch["x"], batch["y"] % 2)):
                ...

        The result has the epochs, the state and the end of this stream.
        """
        return Transform(self, function)

    def filter(self, function: Callable[[Batch], object]) -> Transform:
        """The batches for which the function returns true. The others are ACKed, like batches that
        a loop skips. The result has the epochs, the state and the end of this stream."""
        return Transform(self, keeping(function))

    def close(self) -> None:
        """Hangs up, and ends the private host of :func:`pipemill.open`. The end of ``with`` does
        this.

        Batches can't be used after that. Arrays and other views of them can: from then on they show
        copies, which this makes of the batches that are held. Batches that were not ACKed go to
        another consumer: the last batch of a loop that was left early is one of them.
        """
        if self._may_skip and not self._receiver.has_ended and not self._connection.is_closing:
            self._skips.now()
        if self._ahead is not None:
            self._ahead = None
            self._receiver.take()  # its descriptor is closed already
        self._receiver.discard()
        self._connection.close()
        if self._host is None or not self._owns_host:
            return
        if self._shares_host and self._receiver.has_ended:
            self._host.leave()
        else:
            self._host.close()

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
            f"<pipemill stream of channel {self.channel!r}: {self._receiver.batches} batches, "
            f"{self._receiver.records} records read>"
        )

    def _reads_from(self, host: Host | None) -> None:
        self._host = self._receiver.host = host

    # --- epochs and batches

    def _next_epoch(self) -> Epoch | None:
        """Waits for the first message of an epoch. None at the end of the stream."""
        self._finish_batch()
        first = self._receiver.peek()
        self._epoch = None if first is None else Epoch(self, first.epoch)
        if first is None and self._may_skip:
            self._skips.now()  # the host may end now
        return self._epoch

    def _next_batch(self, epoch: Epoch) -> Batch | None:
        """The next batch of the current epoch. None at its end.

        This runs for each batch, so it makes few calls, even if it repeats a line of another
        function.
        """
        while epoch._skipped:
            if not self._skip_batch(epoch):
                return None
        connection, lease, receiver = self._connection, self._lease, self._receiver
        if connection.pid != getpid() or connection.is_closing:
            connection.check()  # raises
        if lease is not None:
            self._lease = None
            connection.ack(lease)
        grant: Any = receiver._peeked
        if grant is None:
            grant = receiver._next()
        else:
            receiver._peeked = None
        if not isinstance(grant, Grant) or grant[5] != epoch.number:
            self._ends(epoch, grant)
            return None
        batch = self._ahead
        if batch is None:
            lease, window = connection.lease(grant)
            batch = Batch(lease, window, receiver.checked)
            lease.batch = ref(batch)
        else:
            self._ahead, lease = None, batch._lease
        self._set_epoch, self._lease = None, lease
        self._tracker.batch(batch, batch._memory or batch._open_memory())
        receiver.batches += 1
        receiver.records += batch._layout.records
        return batch

    def _opened(self, grant: Grant) -> Batch:
        lease, window = self._connection.lease(grant)
        batch = Batch(lease, window, self._receiver.checked)
        lease.batch = ref(batch)
        return batch

    def _look_ahead(self) -> Batch | None:
        """The next batch of the current epoch, if it has come already. It is not delivered yet:
        the current one is not ACKed, and the state does not have the next one."""
        if self._ahead is None and self._epoch is not None:
            grant = self._receiver.look()
            if grant is not None and grant.epoch == self._epoch.number:
                self._ahead = self._opened(grant)
        return self._ahead

    def _skip_batch(self, epoch: Epoch) -> bool:
        """RELEASEs the next batch of the current epoch unread. False at the epoch's end."""
        self._finish_batch()
        grant = self._receiver.take()
        if not isinstance(grant, Grant) or grant.epoch != epoch.number:
            self._ends(epoch, grant)
            return False
        self._tracker.skipped(grant.batch)
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            self._connection.skip(grant)
        else:
            ahead._close()
            self._connection.ack(ahead._lease)
        return True

    def _ends(self, epoch: Epoch, event: Grant | EpochEnd | None) -> None:
        """Handles an event that is no grant of the current epoch: the epoch's end, or an error."""
        if not isinstance(event, EpochEnd) or event.epoch != epoch.number:
            found = "the end of the stream" if event is None else f"epoch {event.epoch}"
            raise ProtocolError(
                f"channel {self.channel!r}: the host sent {found} before the end of epoch "
                f"{epoch.number}; {protocol.REMEDY}"
            )
        if self._part and not event.batches and not event.flags & protocol.ENDED_EARLY:
            raise no_records(self.channel, self._part, event.epoch)
        self._epoch = None
        self._tracker.epoch_end(event)
        epoch._end(event)

    def _finish_batch(self) -> None:
        """ACKs the current batch, if there is one."""
        connection, lease = self._connection, self._lease
        connection.check()
        if lease is not None:
            self._lease = None
            connection.ack(lease)


class Epoch:
    """One pass over the channel's input. Iterate over it for its batches."""

    def __init__(self, stream: Stream, number: int) -> None:
        #: Number of the epoch, from 0.
        self.number = number
        #: Number of batches that the channel delivered in this epoch, to all consumers together;
        #: None until its end.
        self.batches: int | None = None
        #: Number of records in these batches; None until its end.
        self.records: int | None = None
        #: Whether the epoch was ended before the end of its input; None until its end.
        self.ended_early: bool | None = None
        self._stream = stream
        self._skipped = False

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Batch:
        stream = self._stream
        batch = stream._next_batch(self) if stream._epoch is self else None
        if batch is None:
            raise StopIteration
        return batch

    def __arrow_c_schema__(self) -> Any:
        """As :meth:`Stream.__arrow_c_schema__`."""
        return self._stream.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """As :meth:`Stream.__arrow_c_stream__`, for the batches of this epoch."""
        return self._stream._arrow_reader(self).__arrow_c_stream__(requested_schema)

    def end(self) -> None:
        """Requests that the host skips the rest of this epoch.

        This is for all consumers of the channel. In mode "broadcast" it is for this consumer alone,
        until all consumers have requested it.

        No more batches come in this epoch; continue with the next one. Without effect if the epoch
        has ended.

        ::

            for epoch in stream.epochs():
                for step, batch in enumerate(epoch):
                    train(batch)
                    if step == 1000:
                        epoch.end()
        """
        stream = self._stream
        if stream._epoch is self and not self._skipped:
            stream._connection.check()
            self._skipped = True
            stream._connection.end_epoch(self.number)

    def _end(self, event: EpochEnd) -> None:
        self.batches, self.records = event.batches, event.records
        self.ended_early = bool(event.flags & protocol.ENDED_EARLY)

    def __repr__(self) -> str:
        return f"<pipemill epoch {self.number} of channel {self._stream.channel!r}>"
