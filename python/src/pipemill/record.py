"""A record of several fields: like a tuple, a mapping and an object, without a copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from .batch import Batch


class Record:
    """A record with several fields, each read when it is asked for.

    ::

        record["label"]              # by name
        record.label                 # the same, where the name is an identifier
        record[0]                    # by position
        image, label = record        # all fields
        dict(record)                 # all fields by name

    A field that is absent is ``None``. A record keeps its batch, and so one credit, until it is
    dropped.
    """

    __slots__ = ("_batch", "_row")

    def __init__(self, batch: Batch, row: int) -> None:
        self._batch = batch
        self._row = row

    def keys(self) -> list[str]:
        """The names of the fields, in order."""
        return [field.name for field in self._batch.fields]

    @overload
    def __getitem__(self, key: slice) -> tuple[Any, ...]: ...
    @overload
    def __getitem__(self, key: str | int) -> Any: ...
    def __getitem__(self, key: str | int | slice) -> Any:
        batch = self._batch
        if isinstance(key, str):
            return batch._column(batch._field_index(key)).value(self._row)
        if isinstance(key, slice):
            return tuple(batch._column(i).value(self._row) for i in range(len(self))[key])
        try:
            field = range(len(batch.fields))[key]
        except IndexError:
            raise IndexError(f"field {key} of a record with {len(self)} fields") from None
        return batch._column(field).value(self._row)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __iter__(self) -> Iterator[Any]:
        batch, row = self._batch, self._row
        return (batch._column(field).value(row) for field in range(len(batch.fields)))

    def __len__(self) -> int:
        return len(self._batch.fields)

    def __repr__(self) -> str:
        batch = self._batch
        return (
            f"<pipemill record {batch.first_record + self._row} of {batch._name()}: {self.keys()}>"
        )
