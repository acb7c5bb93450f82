"""Records of an index that are left out: the argument `skip`."""

from __future__ import annotations

import array
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import index as whole
from typing import Any, Union

from .sources import is_address
from .toml_text import literal

#: A list of numbers, ranges of them and texts such as "10-20"; or the file of such a list.
Skip = Union[str, "os.PathLike[str]", range, Iterable[Union[int, range, str]]]


def add_skip(table: dict[str, Any], skip: Skip | None) -> None:
    """Adds the argument to the table `source` of a configuration."""
    if skip is None:
        return
    if "skip" in table:
        raise ValueError("source= has 'skip', and skip= says it again; leave one of them out")
    if not any(key in table for key in ("index", "indexed")):
        raise ValueError(
            "skip= is for records of an index; make one: pipemill index SOURCE --out FILE"
        )
    if isinstance(skip, (str, os.PathLike)):
        table["skip"] = literal(os.fspath(skip))
    else:
        table["skip"] = skip_list(skip)


def absolute_skip(table: dict[str, Any]) -> None:
    """Makes the path of a skip list absolute: the program may change its folder before another host
    starts."""
    skip = table.get("skip")
    if isinstance(skip, (str, os.PathLike)):
        name = os.fspath(skip)
        table["skip"] = name if is_address(name) else os.path.abspath(name)


def skip_list(skip: Iterable[Any]) -> list[int | str]:
    """The list as a configuration has it, in order and with ranges instead of numbers that follow
    each other."""
    if isinstance(skip, (bytes, Mapping)) or not isinstance(skip, Iterable):
        raise TypeError(
            f"skip={skip!r}: expected a list of record numbers and ranges, or the path of a file "
            "of them"
        )
    texts, ranges = [], []
    for one in [skip] if isinstance(skip, range) else skip:
        if isinstance(one, str):
            texts.append(literal(one))
        elif isinstance(one, range) and one.step == 1:
            ranges.append((_number(one.start), one.stop) if one else (0, 0))
        elif isinstance(one, range):
            ranges += ((_number(number), number + 1) for number in one)
        else:
            number = _number(one)
            ranges.append((number, number + 1))
    return [*texts, *map(_text, _joined(ranges))]


def numbers_without(records: int, skipped: Sequence[Sequence[int]]) -> Sequence[int]:
    """The numbers below `records` that are in none of these ranges, which are in order."""
    if not skipped:
        return range(records)
    ends = [0, *(end for _, end in skipped)]
    starts = [*(start for start, _ in skipped), records]
    return array.array("Q", chain.from_iterable(map(range, ends, starts)))


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        elif start < end:
            joined.append((start, end))
    return joined


def _text(one: tuple[int, int]) -> int | str:
    start, end = one
    return start if end == start + 1 else f"{start}-{end - 1}"


def _number(value: Any) -> int:
    try:
        number = whole(value)
    except TypeError:
        raise TypeError(
            f"skip= has {value!r}: expected a record number, a range, or a text such as '10-20'"
        ) from None
    if number < 0:
        raise ValueError(f"skip= has {number}: records are numbered from 0")
    return number
