"""Values of one size that follow each other."""

from __future__ import annotations

from typing import NamedTuple


class Even(NamedTuple):
    """Where the values of a field lie in the payload, if all records have it with one size."""

    #: The offset of the first value.
    first: int
    #: Bytes of each value.
    size: int
    #: Number of records.
    records: int

    def offsets(self) -> range:
        """The offset of each value."""
        return range(self.first, self.end, self.size)

    @property
    def end(self) -> int:
        """The offset after the last value."""
        return self.first + self.size * self.records
