"""The task of a reader's process."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any, Callable

#: Seconds of a round before its clock runs. Then as much is read ahead as at its end.
WARM_UP = 0.2


@dataclasses.dataclass(frozen=True)
class Task:
    #: A module of `readers` and a function of it: "records.tf_data".
    reader: str
    #: How long a round measures.
    seconds: float
    #: The files to read, and small ones of the same kind to compare the readers on.
    files: list[str]
    small: list[str]
    #: Records of an epoch of both.
    records: int
    small_records: int
    #: Bytes of a record, where all have the same.
    record: int
    #: Further arguments of the reader, by name.
    options: dict[str, Any]

    @property
    def rows(self) -> int:
        """Records of a batch: 512, or fewer where they are large. A slot of the ring has 4 MiB by default."""
        return max(1, min(512, (3 << 20) // max(1, self.record)))

    def with_files(self, files: list[str], records: int) -> Task:
        return dataclasses.replace(self, files=files, records=records)

    def text(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Task:
        return cls(**json.loads(text))


#: Yields (records, sum) of what it has read, without an end.
Reader = Callable[[Task], "Iterator[tuple[int, int]]"]


def whole(reader: Reader) -> Reader:
    """Marks a reader that reads an epoch at a time, and keeps nothing for the next one."""
    reader.whole = True  # type: ignore[attr-defined]
    return reader


def is_whole(reader: Reader) -> bool:
    return getattr(reader, "whole", False)
