"""The input of a `Dataset` or a `Loader`, in any process: a channel of a running host, or a source.
The process that made it starts a host for a source.

It can be pickled and forked. Each process connects for itself.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..address import Address, address_of
from ..errors import ConnectError, Refused
from ..opening import (
    NODE_TIMEOUT,
    OWNER_OF_NODE,
    lists_of_job,
    may_skip,
    node_address,
    part_name,
    plan,
)
from ..private_host import Host
from ..ranks import rank_of
from ..reading import is_channel
from ..state import START_OF_EPOCH, check_accept, check_state, identity_of_list
from ..status import SkippedCount
from ..stream import Stream, stream_of, wishes_of
from ..toml_text import literal, toml
from .count import DIFFERENT, NOWHERE
from .ends import number_of
from .resume import LeftOut

#: Batches that a program may hold. Trainers look one batch ahead, and a worker's batch is held
#: until a thread has sent it.
_CREDITS = 4
#: The settings of a state for the objects that a host reads: part, parts, how they are dealt.
_PART = re.compile(r"none|(?P<part>\d+)/(?P<parts>\d+) by (?P<how>.*)")
#: Arguments that only a channel has.
_OF_CHANNEL = {"wait", "allow_other_users"}
#: How objects are dealt by default.
_BALANCE = "count"


class Place(NamedTuple):
    """The place where a rank resumes."""

    #: The state of its stream.
    stream: dict[str, Any]
    #: The batches from there on that were delivered before the stop.
    left_out: LeftOut


def _other_ranks(stream: Mapping[str, Any], hosts: int, now: int, world: int) -> str:
    """The error text for a number of ranks that has changed in the middle of an epoch."""
    before = f"{stream['world'] * hosts} ranks" if stream["world"] * hosts > 1 else "one rank"
    after = f"{world * now} ranks" if world * now > 1 else "one rank"
    if stream["world"] * hosts == world * now:
        before, after = f"{before} with {hosts} hosts", f"{after} with {now} hosts"
    return (
        f"this state was taken in the middle of epoch {stream['epoch']} by one of {before}, and "
        f"now there are {after}: nobody knows which batches the others were delivered. Start "
        f"{before}, or give a state from the end of a pass without steps=: the number of ranks can "
        "change where an epoch begins"
    )


class Reading:
    """Arguments of :func:`pipemill.connect`, or of :func:`pipemill.open`."""

    def __init__(
        self, source: Any, decoder: Any, socket: Any, rank: Any, how: dict[str, Any], slots: int
    ) -> None:
        """Starts the host if `source` is given, with at least as many slots. `how`: the other
        arguments, without those that are None."""
        given = {name: value for name, value in how.items() if value is not None}
        self._wishes: dict[str, Any] = {"credits": given.pop("credits", _CREDITS)}
        for name in ("timeout", "hold_timeout"):
            if name in given:
                self._wishes[name] = given.pop(name)
        #: Accepted differences from the time of a state.
        self._accept = check_accept(given.pop("accept"))
        self._program = uuid.uuid4().hex
        #: The count of the host's last stream in this process.
        self._skips: SkippedCount | None = None
        self._may_skip = may_skip(how["on_error"], how["on_plugin_error"])
        #: The address of the host. None if no host was named.
        self._address: Address | None = None
        self._host: Host | None = None
        #: The process that has started the host, for texts in other processes.
        self._owner: str | None = None
        #: The part of the objects that the host reads, if it does not read all.
        self._own_part: dict[str, int] | None = None
        #: The name of that part, for error texts.
        self._part: str | None = None
        #: The name of the input, the same on all ranks that read parts of it. None if no part is
        #: read.
        self._name: str | None = None
        own = rank_of(rank)
        self._is_channel = is_channel(source, decoder, socket)
        if self._is_channel:
            self._of_channel(source, socket, given)
            self._rank, self._world = own or (0, 1)
            if own is not None:
                self._name = _name_of(f"channel {source}")
            #: Whether the host's batches go only to this program.
            self._alone = own is None or (rank == "auto" and own[1] == 1)
            return
        for name in _OF_CHANNEL & set(given):
            raise ValueError(
                f"{name}= is for a channel, and source={source!r} is a source, whose host this "
                f"program starts; leave {name}= out"
            )
        credits = self._wishes["credits"]
        asked: dict[str, Any] = {"epochs": None, **given}
        name, channel, node = plan(source, decoder, rank=own, credits=credits, **asked)
        self._own_part = channel["source"].get("part")
        if self._own_part is not None:
            whole = {**channel, "source": {**channel["source"], "part": None}}
            self._name = _name_of(toml({"channel": [whole]}))
        self._part = part_name(channel, node)
        #: Whether objects are shuffled before they are dealt: epochs differ in their batches then.
        self._shuffles = channel["shuffle"] is not None
        needed = (credits + 1) * (node.local_world if node else 1) + 2
        channel["ring"] = {"slots": max(slots, needed)}
        self._channel, self._alone = name, node is None
        self._rank, self._world = (node.local_rank, node.local_world) if node else (0, 1)
        text = toml({"channel": [channel]})
        if node is None:
            self._text = text
            self._variables = lists_of_job(channel)
            self._start()
            return
        self._address = node_address(node, text)
        self._wishes["wait"] = NODE_TIMEOUT
        self._owner = OWNER_OF_NODE
        if node.local_rank == 0:
            text = toml({"socket": literal(self._address.path)}) + text
            self._host = Host.of_text(text, consumers_first=True)

    def _start(self) -> None:
        # The state may come later, with `load_state_dict`.
        self._host = Host.of_text(self._text, consumers_first=True, variables=self._variables)
        self._address = Address(self._host.socket)
        self._owner = f"process {os.getpid()}"

    def name_of_unequal(self, world: int) -> str | None:
        """The name of the input for the `world` ranks of a process group, if they may get different
        numbers of batches: they read parts of it, by several hosts. Otherwise None."""
        is_one_host = self._is_channel and self._world >= world
        return None if is_one_host else self._name

    @property
    def can_start_again(self) -> bool:
        """Whether the host is this process's alone."""
        return self._host is not None and self._alone and self._host._owner == os.getpid()

    def start_again(self) -> None:
        """Starts the host again, if it belongs to this process alone. A host that has read all
        epochs does not go back."""
        if self._host is not None and self.can_start_again:
            self._host.close()
            self._start()

    def _of_channel(self, channel: str, socket: Any, given: dict[str, Any]) -> None:
        taken = {"batch", "tail", "batch_across"} | _OF_CHANNEL
        others = sorted(set(given) - taken)
        if others:
            raise ValueError(
                f"{others[0]}= is for a source, and {channel!r} is a channel, whose configuration "
                f"says that; leave {others[0]}= out, or give the path or address of a source"
            )
        self._channel = channel
        allows = bool(given.pop("allow_other_users", False))
        if socket is not None or os.environ.get("PIPEMILL_SOCKET"):
            self._address = address_of(socket, allows)
        self._wishes.update(given)

    def of_this_host(self, state: Mapping[str, Any], workers: int) -> Place:
        """Where this rank resumes from a state of a `Dataset`, which may be another rank's.

        :param workers: how many processes read for this program.

        Raises :class:`ValueError` if the state does not determine this rank's place.
        """
        stream, since = check_state(self._channel, state["stream"]), state["since"]
        if self._is_channel:
            return Place(stream, LeftOut())  # its configuration says which objects it reads
        settings = stream["settings"]
        found = _PART.fullmatch(settings.get("part", "none"))
        if found is None:
            return Place(stream, LeftOut())  # the host says which settings it lacks
        part, parts = int(found["part"] or 0), int(found["parts"] or 1)
        own, count = (self._own_part["index"], self._own_part["count"]) if self._own_part else (0, 1)
        world = 1 if self._alone and workers == 1 else self._world * workers
        if "shards" in settings and stream["world"] == world:
            return Place(stream, LeftOut())  # it is the same for any number of hosts
        is_start = not stream["delivered"] and not since["batches"]
        if parts != count or stream["world"] != world:
            if parts == count == 1 and stream["delivered"]:
                return Place(stream, LeftOut())  # the host divides the batches after it anew
            if stream["delivered"] or (parts != count and not is_start):
                raise ValueError(_other_ranks(stream, parts, count, world))
            # An epoch's first batch is that of rank 0.
            stream["batch"] += -stream["batch"] % world
            stream.update(rank=0, world=world)
        if (part, parts) == (own, count):
            return Place(stream, LeftOut())
        own_part = f"{own}/{count} by {found['how'] or _BALANCE}" if count > 1 else "none"
        stream["settings"] = {**settings, "part": own_part}
        if is_start:
            return Place(stream, LeftOut())
        return self._of_other_part(stream, state, part, own)

    def _of_other_part(
        self, stream: dict[str, Any], state: Mapping[str, Any], part: int, own: int
    ) -> Place:
        """The place in this part of the objects when the rank of another part was at `stream`. It
        is found by reading, because it is not known yet which of this part's batches were
        delivered."""
        since, whose = state["since"], f"this is the state of a rank that reads part {part} of "
        whose += f"the objects, and this rank reads part {own}"
        if stream["settings"].get("batch") == "none":
            raise ValueError(
                f"{whose}: without batch=, nobody knows which batches are those of the same step. "
                "Give each rank the state that it has saved, or say batch="
            )
        if since["epoch"] == NOWHERE:
            raise ValueError(
                f"{whose}: passes had a number of steps, and then were epochs, so ranks may be in "
                "different epochs. Give each rank the state that it has saved, or keep steps="
            )
        if not self._shuffles and since["each_epoch"] == DIFFERENT:
            raise ValueError(
                f"{whose}: its epochs since epoch {since['epoch']} had different numbers of "
                "batches (one was ended early, or the objects have changed), so nobody knows how "
                "many those of this part had. Give each rank the state that it has saved"
            )
        # The record numbers of the other rank have no meaning here.
        end = stream["batch"]
        if stream["delivered"]:
            end += stream["world"] - stream["rank"]
        first = max(end - since["batches"] * stream["world"], 0)
        # The objects of the epoch have to be the same, whichever of them the other rank was in.
        is_same_epoch = since["epoch"] == stream["epoch"]
        objects = identity_of_list(stream["identity"]) if is_same_epoch else ""
        stream.update(START_OF_EPOCH, epoch=since["epoch"], batch=first, identity=objects)
        is_equal = not self._shuffles
        crosses_epochs = since["crosses_epochs"]
        return Place(
            stream, LeftOut(since["epoch"], since["batches"], crosses_epochs, is_equal)
        )

    def connect(self, worker: int, workers: int, number: int | None, state: Any) -> Stream:
        """The stream of one of `workers` processes that read for this program. `number` is the
        number of their pass. The host hangs up on processes of an older pass, which a DataLoader
        may end only later."""
        asked = dict(self._wishes)
        times = {name: asked.pop(name) for name in ("timeout", "wait", "hold_timeout") if name in asked}
        rank = None if self._alone and workers == 1 else (
            self._rank * workers + worker, self._world * workers,
        )  # fmt: skip
        wishes = wishes_of(
            self._channel, rank=rank, state=state, accept=self._accept, **asked
        )
        if number is not None:
            wishes["pass"] = {"program": self._program, "number": number}
        own = self._host if self.can_start_again else None
        try:
            if own is not None and own._has_ended():
                raise ConnectError("the host has ended")
            stream = stream_of(self._channel, address_of(self._address), wishes, **times)
        except ConnectError as error:
            # A host that was killed refuses nothing, and does not answer.
            is_silent = own is not None and not isinstance(error, Refused)
            died = own._died(self._channel) if own is not None and is_silent else None
            raise died or error from None
        stream._reads_from(self._host)
        self._skips, stream._may_skip = stream._skips, self._may_skip
        stream._part = self._part if state is None else None
        if self._host is None and self._owner is not None:
            stream._receiver.host_owner = self._owner
        return stream

    @property
    def skipped(self) -> int:
        """As :attr:`pipemill.Stream.skipped`."""
        if self._skips is None:
            self._skips = SkippedCount(self._address, self._channel)
        return self._skips.now()

    def close(self) -> None:
        """Ends the host, if it is this program's."""
        if self._host is not None:
            self._host.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_host": None}


def _name_of(what: str) -> str:
    """A short name of a dataset that reads this, the same on all ranks."""
    digest = hashlib.sha256(what.encode()).hexdigest()[:20]
    return f"{digest}-{number_of(digest)}"
