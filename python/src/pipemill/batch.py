"""A batch of records in shared memory, and the ways to look at them."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

from . import protocol
from .column import MISSING, Column
from .connection import Lease
from .errors import ClosedError
from .memory import view
from .protocol import Field
from .record import Record


class Batch:
    """Records of one object (a file, an S3 key) and one epoch, where the host decoded them.

    ::

        batch["x"]                   # a field of all records
        for record in batch: ...     # record by record
        len(batch)                   # number of records

    The memory is the host's. It stays as it is for as long as this object or anything made from it
    (an array, a memoryview, a :class:`Record`) lives, and goes back to the host right after. So
    keeping a view is safe, and keeping many makes the stream stop: copy what you want to keep
    (``batch["x"].copy()``, ``bytes(record)``), or ask :func:`pipemill.connect` for more credits.
    """

    __slots__ = (
        "fields", "_lease", "_memory", "_payload", "_header", "_columns", "__weakref__",
    )  # fmt: skip

    #: The fields of each record, in order.
    fields: tuple[Field, ...]

    def __init__(self, lease: Lease, window: Any, fields: tuple[Field, ...]) -> None:
        memory = view(window)
        self._header = protocol.parse_header(memory, lease.grant, len(fields))
        self.fields = fields
        self._lease = lease
        self._memory: memoryview | None = memory
        self._payload: memoryview | None = None
        self._columns: dict[int, Column] = {}

    # --- what it is

    def __len__(self) -> int:
        """Number of records."""
        return self._header.records

    @property
    def number(self) -> int:
        """Number of the batch in the channel, from 0."""
        return self._lease.grant.batch

    @property
    def epoch(self) -> int:
        """Number of the epoch, from 0."""
        return self._header.epoch

    @property
    def object(self) -> str:
        """Name of the object that the records are from."""
        at, size = self._header.object_at, self._header.object_bytes
        return str(self._open()[at : at + size], "utf-8", "replace")

    @property
    def first_record(self) -> int:
        """Number of the first record in its object, from 0."""
        return self._header.first_record

    @property
    def object_offset(self) -> int:
        """A byte offset in the (inflated) object at or before the first record."""
        return self._header.object_offset

    # --- columns

    def __getitem__(self, name: str) -> Any:
        """The field `name` of all records; the same as :meth:`column` without ``absent``."""
        return self._column(self._place(name)).all(MISSING)

    def column(self, name: str, absent: Any = MISSING) -> Any:
        """The field `name` of all records:

        ==========================================  ===============================================
        numbers, all of one shape                   numpy array ``(n,)`` or ``(n, *shape)``
        numbers with a 0 in the shape               the same where all are equally long, otherwise a
                                                    list of n numpy arrays
        ``utf8``                                    list of ``str``
        ``bytes``                                   list of ``memoryview``
        ==========================================  ===============================================

        An array can be gone through like that list, row by row; :meth:`dense` never gives a list.
        Arrays are read-only. They look into the shared memory where the rows are evenly spaced,
        and are one copy where they are not. Without numpy they are memoryviews with that shape.

        Where a record does not have the field, a list has ``None``, and an array of numbers of one
        shape can't be made. Give `absent` to say what to put there; an array is a copy then::

            batch.column("age", absent=float("nan"))

        Raises :class:`KeyError` where there is no such field, and :class:`AbsentError`.
        """
        return self._column(self._place(name)).all(absent)

    def dense(self, name: str) -> Any:
        """The field `name` of all records as one array, where they happen to be equally long.

        For numbers with a 0 in the shape, and for ``bytes`` and ``utf8``, which become an array of
        ``uint8``: ``batch.dense("image")`` has the shape ``(n, bytes)``.

        Raises :class:`ValueError` where the lengths differ or a record does not have the field.
        """
        return self._column(self._place(name)).dense()

    def offsets(self, name: str) -> Any:
        """Where each record's field `name` starts in :attr:`payload`: n ``uint32``, without a copy.

        0xFFFFFFFF where it is absent.
        """
        return self._column(self._place(name)).offsets

    def lengths(self, name: str) -> Any:
        """How many bytes each record's field `name` has: n ``uint32``, without a copy."""
        return self._column(self._place(name)).lengths

    @property
    def payload(self) -> memoryview:
        """All bytes of the batch: the fields, and whatever stood between them in the input."""
        if self._payload is None:
            at = self._header.payload_at
            self._payload = self._open()[at : at + self._header.payload_bytes]
        return self._payload

    # --- records

    def __iter__(self) -> Iterator[Any]:
        """The records, one at a time: the value itself where the schema has one field, otherwise a
        :class:`Record`. A value is a ``memoryview`` (bytes), a ``str``, a number or an array."""
        if len(self.fields) == 1:
            return self._column(0).values()
        self._open()
        return (Record(self, row) for row in range(len(self)))

    def records(self) -> list[Any]:
        """The records, as a list; see :meth:`__iter__`."""
        return list(self)

    # --- giving it back

    def ack(self) -> None:
        """Tells the host that this batch is done with: no other consumer will be given it.

        Asking for the next batch does the same. Call it yourself for the last batch before you
        leave the loop, or where the work is done long before the next batch is asked for.
        """
        connection = self._lease.connection
        if self._memory is not None:
            connection.check()
            connection.done(self._lease)

    def release(self) -> None:
        """ACKs the batch and lets go of it; its memory goes back when no view is left.

        The batch can't be used after that, views made from it can. ``with batch:`` does this at
        its end, unless the end is an exception: then the batch stays as it was, un-ACKed.
        """
        if self._memory is not None:
            connection = self._lease.connection
            connection.check()
            self._drop()
            connection.done(self._lease)

    def __enter__(self) -> Batch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.release()

    def _drop(self) -> None:
        self._memory = self._payload = None
        self._columns = {}

    # --- inside

    def _open(self) -> memoryview:
        if self._memory is None:
            raise ClosedError(
                f"{self._where()} was given back, by release(), the end of `with batch:` or the "
                "closing of its stream; use it before that, or keep a view or a copy of its data"
            )
        return self._memory

    def _where(self) -> str:
        return f"batch {self.number} of epoch {self.epoch}"

    def _place(self, name: str) -> int:
        for place, field in enumerate(self.fields):
            if field.name == name:
                return place
        known = ", ".join(repr(field.name) for field in self.fields)
        raise KeyError(f"no field {name!r}; the records of this channel have {known}")

    def _column(self, place: int) -> Column:
        column = self._columns.get(place)
        if column is None:
            column = self._columns[place] = self._make_column(place)
        return column

    def _make_column(self, place: int) -> Column:
        memory, header = self._open(), self._header
        size, step = 4 * header.records, protocol.stride(header.records)
        at = header.index_at + 2 * place * step
        index = (memory[at : at + size], memory[at + step : at + step + size])
        gaps = bool(header.flags & protocol.SOME_ABSENT)
        return Column(self.fields[place], self.payload, index, gaps)

    def __repr__(self) -> str:
        fields = ", ".join(field.name for field in self.fields)
        closed = ", given back" if self._memory is None else ""
        return f"<pipemill {self._where()}: {len(self)} records ({fields}){closed}>"
