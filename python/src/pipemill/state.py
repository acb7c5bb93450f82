"""The state of a channel: where a restarted program resumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .batch import Batch
from .connection import Connection
from .errors import StateError
from .position import position_of
from .protocol import PASSED, POSITION_KEYS, STATE_KEYS, EpochEnd, Head, header_of
from .schema import Field

#: Version of the states that this package makes.
VERSION = 3
#: Differences from the time of a state that a program may accept.
ACCEPTED = ("objects", "decoder", "options", "schema")
#: The keys of a state at the beginning of its epoch, in addition to the epoch and its first batch.
START_OF_EPOCH: dict[str, Any] = {
    "delivered": 0,
    **{key: kind() for key, kind in POSITION_KEYS.items() if key not in ("epoch", "batch")},
}
#: The keys of a state that it may leave out, with what they are then. The state of a channel with
#: shards leaves out all that say nothing: such a state is small, and the same for all ranks.
_LEFT_OUT: dict[str, Any] = {
    "schema": "",
    "rank": 0,
    "world": 1,
    **{key: value for key, value in START_OF_EPOCH.items() if key != "delivered"},
}


class Tracker:
    """Notes the batches that were delivered to a program, so that its state can be asked for at any
    time."""

    def __init__(
        self,
        channel: str,
        connection: Connection,
        rank: dict[str, int] | None,
        state: dict[str, Any] | None,
        follows_others: bool,
    ) -> None:
        """`follows_others`: the batches before the first one went to other consumers of this
        program."""
        self._channel = channel
        self._settings = connection.welcome.settings
        rank = rank or {"rank": 0, "world": 1}
        self._rank, self._world = rank["rank"], rank["world"]
        #: The state before the first batch: where this program, or the host's run, began.
        self._resumed = connection.welcome.resumed if state is None else state
        if state is not None and state["delivered"] and state["world"] != self._world:
            # The number of ranks has changed, so the host numbers the batches in another way.
            self._resumed = connection.welcome.resumed
        resumed = self._resumed or {"batch": 0, "delivered": 0, "epoch": 0}
        #: The next batch, if all batches are delivered to this program.
        self._next_batch = resumed["batch"] + (resumed["delivered"] > 0) + resumed.get(PASSED, 0)
        #: Set if a batch was missing.
        self._gap: str | None = None
        #: Of the last delivered batch: its header, and the object's name with its identity.
        self._last: tuple[Head, bytes] | None = None
        #: The epoch that comes next, if the last event was the end of an epoch.
        self._epoch = 0
        #: Whether the next batch may have any number. Numbers are those of a run: one that has
        #: ended an epoch early has others.
        self._any_batch = resumed["epoch"] > 0
        self._any_batch |= follows_others and state is None

    def batch(self, batch: Batch, memory: memoryview) -> None:
        """Notes that this batch, of this memory, is delivered to the program."""
        head, layout = batch._head, batch._layout
        number, texts = head[1], layout.texts
        if number == self._next_batch and self._world == 1:
            self._next_batch, self._any_batch = number + 1, False  # as `_passed`
        else:
            self._passed(number)
        self._resumed = None
        if layout.records != layout.padding:
            self._last = head, memory[texts].tobytes() if texts else layout.texts_of(memory)
        else:
            # It fills the last round of its epoch, and is no place to resume at.
            self._last, self._epoch, self._any_batch = None, batch.epoch + 1, self._world == 1
            self._next_batch += -self._next_batch % self._world

    def skipped(self, number: int) -> None:
        """Notes that the batch of this number is skipped, because the program left its epoch."""
        self._passed(number)

    def epoch_end(self, end: EpochEnd) -> None:
        """Notes that the epoch has ended."""
        self._last, self._epoch, self._any_batch = None, end.epoch + 1, True
        self._resumed = None
        # An epoch's first batch belongs to rank 0.
        self._next_batch += -self._next_batch % self._world

    def state(self, fields: tuple[Field, ...]) -> dict[str, Any]:
        """The state: see :meth:`Stream.state_dict`."""
        if self._gap is not None:
            raise StateError(self._gap)
        if self._last is not None and self._settings.get("order") == "any":
            raise StateError(
                f"channel {self._channel!r}: order = \"any\" leaves no place inside of an epoch to go "
                "on at; take the state between two epochs, or set order = \"strict\""
            )
        state: dict[str, Any] = {
            "version": VERSION,
            "channel": self._channel,
            "settings": dict(self._settings),
        }
        if self._resumed is not None:
            state.update((key, self._resumed[key]) for key in STATE_KEYS)
            if self._resumed.get(PASSED):
                state[PASSED] = self._resumed[PASSED]
            # Another rank may have kept it: all are at the same step then.
            state.update(rank=self._rank, world=self._world)
        else:
            state.update(schema=schema_text(fields), rank=self._rank, world=self._world)
            state.update(self._place())
        if _is_of_shards(self._settings):
            # The index has the schema.
            state["schema"] = ""
            for key in [key for key, value in _LEFT_OUT.items() if state[key] == value]:
                del state[key]
        return state

    def _place(self) -> dict[str, Any]:
        """The last delivered batch; at the start of an epoch the next one."""
        if self._last is None:
            return {**START_OF_EPOCH, "epoch": self._epoch, "batch": self._next_batch}
        header, position = header_of(self._last[0]), position_of(*self._last)
        return {"delivered": header.records - header.padding, **position._asdict()}

    def _passed(self, number: int) -> None:
        if self._world > 1:
            # No other program gets batches of this rank.
            self._next_batch = number + 1
            return
        if number != self._next_batch and not self._any_batch and self._gap is None:
            self._gap = (
                f"channel {self._channel!r}: this program was given batch {number} where "
                f"{self._next_batch} was next, so it has no single place to go on at: the batches "
                "between went to another consumer, or to this program before it was started "
                "again. Let one consumer read the channel, or use mode = \"broadcast\""
            )
        self._next_batch, self._any_batch = number + 1, False


def _is_of_shards(settings: Any) -> bool:
    """Whether these are the settings of a channel with shards."""
    return isinstance(settings, Mapping) and "shards" in settings


def schema_text(fields: tuple[Field, ...]) -> str:
    """The fields in the form that decoders get: a line each, with type, shape and name. Empty if a
    name has a line end, which this form can't express."""
    if any("\n" in field.name for field in fields):
        return ""

    def shape(field: Field) -> str:
        return f"[{','.join(map(str, field.shape))}]" if field.shape else ""

    return "".join(f"{field.scalar}{shape(field)} {field.name}\n" for field in fields)


def identity_of_list(identity: str) -> str:
    """The identity of the list of its epoch's objects, from an object's identity: "" if it has
    none."""
    known, separator, _ = identity.partition(";")
    return known + separator if separator and known.startswith("list:") else ""


def check_accept(accept: Sequence[str] | str) -> list[str]:
    """The words of ``accept=``. The host checks them, too."""
    words = [accept] if isinstance(accept, str) else list(accept)
    for word in words:
        if word not in ACCEPTED:
            raise ValueError(f"accept={accept!r}: expected words of {', '.join(ACCEPTED)}")
    return words


def check_state(channel: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a state. The host checks its values.

    Raises `ValueError` if it is the state of another channel, or no state.
    """
    names = {"version", "channel", "settings", *STATE_KEYS}
    if isinstance(state, Mapping) and _is_of_shards(state.get("settings")):
        state = {**_LEFT_OUT, **state}
    if not isinstance(state, Mapping) or set(state) - {PASSED} != names:
        keys = sorted(state) if isinstance(state, Mapping) else type(state).__name__
        raise ValueError(
            f"state= is not what Stream.state_dict() returns: expected the keys {sorted(names)}, "
            f"found {keys}"
        )
    if state["channel"] != channel:
        raise ValueError(
            f"state= is of channel {state['channel']!r}, and this connects to {channel!r}"
        )
    kinds = {**STATE_KEYS, PASSED: int}
    wrong = [key for key, kind in kinds.items() if key in state and type(state[key]) is not kind]
    for key in wrong:
        kind = kinds[key].__name__
        raise ValueError(f"state= has {key} = {state[key]!r}, expected a value of type {kind}")
    return dict(state)
