"""A batch of records in shared memory, with its columns and records."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import protocol
from .checked import Checked, Layout
from .connection import Lease
from .errors import ClosedError
from .position import Position, position_of
from .protocol import HEAD, Head, Header
from .record import Record
from .schema import MISSING, Field

if TYPE_CHECKING:
    from .column import Column
    from .even import Even


class Batch:
    """Decoded records of one epoch. They also belong to one object (a file, an S3 key), unless the
    channel has a fixed number of records of each batch.

    ::

        batch["x"]                   # a field of all records
        for record in batch: ...     # record by record
        len(batch)                   # number of records

    The memory belongs to the host. It does not change while this object or anything made from it
    (an array, a memoryview, a :class:`Record`) lives, and goes back to the host right after. So a
    view is safe to keep. But keeping many views stops the stream: copy the values that you want to
    keep (``batch["x"].copy()``, ``bytes(record)``), or ask :func:`pipemill.connect` for more
    credits.
    """

    __slots__ = (
        "fields", "_lease", "_memory", "_payload", "_head", "_layout", "_checked", "_metadata",
        "_columns", "_raw", "__weakref__",
    )  # fmt: skip

    #: The fields of each record, in order.
    fields: tuple[Field, ...]

    def __init__(self, lease: Lease, window: Any, checked: Checked) -> None:
        memory = memoryview(window).cast("B").toreadonly()
        head: Head = HEAD.unpack_from(memory)
        layout, grant = checked.layout, lease.grant
        if (
            layout is None
            or head[::2] != layout.key
            or head[1] != grant[2]
            or head[2] != grant[5]
            or grant[3] != layout.bytes
            or memory[layout.table].tobytes() != layout.entries
        ):
            layout = checked.layout = Layout(head, grant, len(checked.fields), memory)
        self._head, self._layout, self._checked = head, layout, checked
        self.fields = checked.fields
        self._lease = lease
        self._memory: memoryview | None = memory
        self._payload: memoryview | None = None
        self._metadata: dict[str, str] | None = None
        self._columns: dict[int, Column] | None = None
        #: The memory as an array. The first array of the batch makes it.
        self._raw: Any = None

    # --- number and origin

    def __len__(self) -> int:
        """Number of records."""
        return self._layout.records

    @property
    def number(self) -> int:
        """Number of the batch in the channel, from 0."""
        return self._lease.grant.batch

    @property
    def epoch(self) -> int:
        """Number of the epoch, from 0."""
        return self._head[2]

    @property
    def object(self) -> str:
        """Name of the object that the first record comes from."""
        return str(self._open_memory()[self._layout.object()], "utf-8", "replace")

    @property
    def first_record(self) -> int:
        """Number of the first record in its object, from 0."""
        return self._header.first_record

    @property
    def valid(self) -> int:
        """Number of real records. Those after them are copies of the last real one, which fill the
        batch if its channel has ``tail = "pad"``. In all other channels, all records are real.
        """
        return self._layout.records - self._layout.padding

    @property
    def position(self) -> Position:
        """The position of the batch's first record, from which it can be found again."""
        return position_of(self._head, self._layout.texts_of(self._open_memory()))

    @property
    def object_offset(self) -> int:
        """A byte offset in the (inflated) object at or before the first record."""
        return self._header.object_offset

    @property
    def metadata(self) -> dict[str, str]:
        """Facts about the object from its decoder, such as the writer's schema. Empty if there are
        none. All batches of an object have the same facts.

        Each call returns a new dict. Raises :class:`ProtocolError` if the host's bytes are not
        a JSON object of text.
        """
        memory = self._open_memory()
        if self._metadata is None:
            data = bytes(memory[self._layout.metadata()])
            self._metadata = protocol.parse_metadata(self._name(), data) if data else {}
        return dict(self._metadata)

    # --- columns

    def __getitem__(self, name: str) -> Any:
        """The field `name` of all records, as :meth:`column` without ``absent``."""
        view = self._checked.whole.get(name)
        if view is not None:
            array = view.array(self)
            if array is not None:
                return array
        return self.column(name)

    def column(self, name: str, absent: Any = MISSING) -> Any:
        """The field `name` of all records:

        ==========================================  ===============================================
        numbers, all of one shape                   numpy array ``(n,)`` or ``(n, *shape)``
        numbers with a 0 in the shape               list of n numpy arrays; :meth:`dense` is one
                                                    array
        numbers with categories                     list of ``str``: the category of each record
        ``utf8``                                    list of ``str``
        ``bytes``                                   list of ``memoryview``
        ``utf8`` or ``bytes`` with a dimension      list of n lists of ``str`` or ``memoryview``
        ==========================================  ===============================================

        The kind depends only on the field's type, not on the lengths in this batch. :meth:`dense`
        never returns a list. Arrays are read-only. They are views of the shared memory if the rows
        are evenly spaced, and otherwise one copy. Without numpy they are memoryviews of the same
        shape. A list is a new one at each call.

        The type of an array is that of the field, with two exceptions. An array of bfloat16 has the
        type that the package ``ml_dtypes`` adds to numpy. If that is not installed, it has the 16
        bits of each number as ``uint16``. An array of float16 without numpy is a copy as float32. A
        single number in a record is a ``float`` for both.

        If a record does not have the field, a list has ``None`` there, and an array of numbers of
        one shape can't be made. Pass the value to put there as `absent`; then an array is a copy::

            batch.column("age", absent=float("nan"))

        Raises :class:`KeyError` if there is no such field, :class:`AbsentError` if an array would
        need a value that a record does not have, :class:`ValueError` or :class:`TypeError` if the
        array's type can't hold the value `absent`, :class:`UnicodeDecodeError` if text is not
        UTF-8, and :class:`ProtocolError` if the host's offsets or codes are wrong.
        """
        number = self._field_index(name)
        column = self._column(number)
        found = column.all(absent)
        if column.spans.recipe is not None:
            _note(self, number, column)
        return found

    def dense(self, name: str, absent: Any = MISSING) -> Any:
        """The field `name` of all records as one array, if it is equally long in all of them.

        This is for numbers with a 0 in the shape, for numbers with categories, which become an
        array of their codes, and for ``bytes`` and ``utf8``. These two become an array of
        ``uint8``: ``batch.dense("image")`` has the shape ``(n, bytes)``. A code is an index into
        ``categories`` of the field.

        :param absent: the value of records that do not have the field, as for :meth:`column`, for
            numbers of one shape; for those with categories, a category or a code.

        Raises :class:`ValueError` if the lengths differ, or the values are lists of text or
        bytes, and :class:`AbsentError` if a record does not have the field.
        """
        view = self._checked.dense.get(name)
        if view is not None:
            array = view.array(self)
            if array is not None:
                return array
        number = self._field_index(name)
        column = self._column(number)
        array = column.filled(absent)
        if column.spans.recipe is not None:
            _note(self, number, column)
        return array

    def dlpack(self, name: str) -> Any:
        """As :meth:`dense`, for libraries that take arrays by DLPack, of any version: a numpy array
        that may be written to. ::

            x = jax.numpy.from_dlpack(batch.dlpack("x"))

        Changes stay in this program, and end with the batch. The batch is held as long as the
        array, or anything made of it, lives. DLPack does not know bfloat16 of numpy.
        """
        from .dlpack import writable

        return writable(self, self._column(self._field_index(name)))

    def offsets(self, name: str) -> Any:
        """The start of each record's field `name` in :attr:`payload`, in bytes: n ``uint32``.
        0xFFFFFFFF if the field is absent. It is a view of the batch, or made if the values follow
        each other, each of one size.
        """
        return self._column(self._field_index(name)).offsets

    def lengths(self, name: str) -> Any:
        """The length of each record's field `name`, in bytes: n ``uint32``, as :meth:`offsets`."""
        return self._column(self._field_index(name)).lengths

    @property
    def payload(self) -> memoryview:
        """All bytes of the batch: the fields, and the bytes between them in the input."""
        if self._payload is None:
            layout = self._layout
            self._payload = self._open_memory()[layout.payload_at : layout.payload_end]
        return self._payload

    # --- records

    def __iter__(self) -> Iterator[Any]:
        """The records, one at a time. If the schema has one field, a record is its value; otherwise
        it is a :class:`Record`. A value is a ``memoryview`` (bytes), a ``str`` (text, or a
        category), a number, an array, or a list of ``str`` or ``memoryview``."""
        if len(self.fields) == 1:
            return self._column(0).values()
        self._open_memory()
        return (Record(self, row) for row in range(len(self)))

    def records(self) -> list[Any]:
        """The records as a list; see :meth:`__iter__`."""
        return list(self)

    # --- Arrow

    def to_arrow(self) -> Any:
        """The batch as a ``pyarrow.RecordBatch``. polars, DuckDB and others take the batch itself.

        The values stay in the shared memory if Arrow can refer to them there, and the batch is held
        as long as the arrays live. docs/libraries.md has the types, and the values that are copied.

        Raises :class:`ImportError` without pyarrow, :class:`UnicodeDecodeError` if text is not
        UTF-8, :class:`ProtocolError` if the host's offsets or codes are wrong, and
        :class:`ValueError` if Arrow can't hold a value.
        """
        from .arrow import import_pyarrow

        import_pyarrow("to_arrow()")
        from .arrow.columns import record_batch

        self._open_memory()
        return record_batch(self)

    def __arrow_c_schema__(self) -> Any:
        """The Arrow type of a batch, for libraries that read Arrow. Needs pyarrow."""
        from .arrow import import_pyarrow

        import_pyarrow("a batch as Arrow")
        from .arrow.types import types_of

        return types_of(self.fields).schema.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """The batch, for libraries that read Arrow. Raises as :meth:`to_arrow`."""
        capsules: tuple[Any, Any] = self.to_arrow().__arrow_c_array__(requested_schema)
        return capsules

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The batch, for libraries that read only streams of Arrow. Raises as :meth:`to_arrow`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    # --- giving it back

    def ack(self) -> None:
        """Tells the host that this program has processed the batch: no other consumer gets it.

        Asking for the next batch does the same. Call this for the last batch before you leave the
        loop early, or if the work is done long before you ask for the next batch.
        """
        connection = self._lease.connection
        if self._memory is not None:
            connection.check()
            connection.ack(self._lease)

    def release(self) -> None:
        """ACKs the batch and gives it back; its memory goes back when no view is left.

        The batch can't be used after that; views made from it can. ``with batch:`` does this at its
        end. If it ends with an exception, it does nothing: the batch is not ACKed.
        """
        if self._memory is not None:
            connection = self._lease.connection
            connection.check()
            self._close()
            connection.ack(self._lease)

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

    def _close(self) -> None:
        self._memory = self._payload = self._metadata = self._columns = self._raw = None

    # --- helpers

    @property
    def _header(self) -> Header:
        return protocol.header_of(self._head)

    def _writable_payload(self) -> memoryview | None:
        """The payload for writing. Pages that this program writes to become its own. It holds the
        batch as any view does. None if the machine's pages are too large for that."""
        self._open_memory()
        window = self._lease.connection.writable_window(self._lease)
        if window is None:
            return None
        return memoryview(window).cast("B")[self._layout.payload_at : self._layout.payload_end]

    def _open_memory(self) -> memoryview:
        if self._memory is None:
            raise ClosedError(
                f"{self._name()} was given back, by release(), the end of `with batch:` or the "
                "closing of its stream; use it before that, or keep a view or a copy of its data"
            )
        return self._memory

    def _name(self) -> str:
        return f"batch {self.number} of epoch {self.epoch}"

    def _field_index(self, name: str) -> int:
        number = self._checked.numbers.get(name)
        if number is not None:
            return number
        known = ", ".join(repr(field.name) for field in self.fields)
        raise KeyError(f"no field {name!r}; the records of this channel have {known}")

    def _column(self, field: int) -> Column:
        if self._columns is None:
            self._columns = {}
        column = self._columns.get(field)
        if column is None:
            column = self._columns[field] = _column_of(self, field)
        return column

    def _place(self, number: int) -> tuple[memoryview, memoryview] | Even:
        """Where the values of a field lie: the bytes of their offsets and lengths, or even values.
        The values are not checked."""
        memory, layout = self._open_memory(), self._layout
        even = layout.even(number)
        return even or (memory[layout.list(number, 0)], memory[layout.list(number, 1)])

    def __repr__(self) -> str:
        fields = ", ".join(field.name for field in self.fields)
        closed = ", given back" if self._memory is None else ""
        return f"<pipemill {self._name()}: {len(self)} records ({fields}){closed}>"


def _column_of(batch: Batch, number: int) -> Column:
    """As `columns.column_of`. That function replaces this one at the first column, because its
    module imports numpy."""
    global _column_of
    from .columns import column_of as _column_of

    return _column_of(batch, number)


def _note(batch: Batch, number: int, column: Column) -> None:
    """As `dense_view.note`. That function replaces this one at the first array."""
    global _note
    from .dense_view import note as _note

    _note(batch, number, column)
