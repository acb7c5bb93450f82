"""The records of an index by their numbers, in any order."""

from __future__ import annotations

import array
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from operator import index as whole
from types import TracebackType
from typing import TYPE_CHECKING, Any, Union, overload

from .arguments import answering
from .copied import copied_records
from .opening import ADDED_FIELDS, plan
from .ranks import local_cores
from .schema import Field
from .skip_lists import Skip, absolute_skip, add_skip, numbers_without
from .sources import is_address
from .split import check_split, hashes_of, part_of_each
from .toml_text import literal, toml

if TYPE_CHECKING:
    from .access_host import AccessHost
    from .batch import Batch

    #: Numbers of records, as `Dataset.subset` takes them.
    Numbers = Union[slice, range, Iterable[Union[int, range]]]

#: Records of a request for copies. More would only take memory.
_AT_ONCE = 4096
#: Records that an iteration asks for together.
_ITERATED = 64

_ORDER = "a Dataset has no order: give a sampler or shuffle=True to the DataLoader"
#: Arguments that a Dataset does not have.
_OTHERS = {
    "shuffle": _ORDER,
    "seed": _ORDER,
    "window": _ORDER,
    "sampler": "give it to the DataLoader",
    "batch_sampler": "give it to the DataLoader",
    "batch_size": "give it to the DataLoader, or take a list of records: dataset[[7, 3]]",
    "batch": "give batch_size= to the DataLoader, or take a list of records: dataset[[7, 3]]",
    "num_workers": "give it to the DataLoader; workers= is how many threads of a host decode",
    "rank": "give a sampler to the DataLoader, such as DistributedSampler, or take a subset()",
    "decoder": "the index says that",
    "options": "the index says that",
}


class Dataset:
    """The records of an index by their numbers, in any order: a map-style dataset. ::

        train = pipemill.Dataset("train.index")
        len(train)                   # number of records
        train[7], train[-1]          # one record
        train[[7, 3, 7]]             # some records, in this order
        train[100:200]               # records that follow each other, as a list

    Record i is record i of ``pipemill.open("train.index")`` without a shuffle. A record is a dict
    of copies, as :func:`cat` has it: numbers, ``str``, ``bytes``, numpy arrays, and None for a field
    that is absent. :meth:`batch` returns records without a copy.

    A host of its own, a child of this process, decodes the blocks of the objects that have the
    records, and keeps the blocks that were used last. It starts again in each process that uses the
    dataset: a dataset can be pickled, and be used after a fork, so it is one for the
    ``DataLoader`` of PyTorch, with any sampler and any number of workers. Several threads may use
    it at once.

    :param index: the path of an index, its address in S3, or the table ``source`` of a
        configuration with an index: ``{"index": "s3://data/train.index", "region": "eu-west-1"}``.
    :param root: the folder that the files lie in, if they were moved.
    :param skip: records that are left out, by their numbers in the index: as for :func:`open`. The
        others are counted without them: the dataset is that of :meth:`without`.
    :param fields: the names of the fields that records have, in this order. By default all.
    :param add_fields: fields that each record gets after those: ``"__index__"``, its number in the
        index, ``"__object__"``, the name of its object, and ``"date=utf8"``, the value of the
        folder ``date=…`` in its path. By default those that the index names.
    :param cache: memory for decoded blocks, with its unit. It is that of each process that uses the
        dataset.
    :param workers: how many threads decode blocks and copy large answers, 1 to 256; by default as
        many as the process has cores.
    :param on_error: "fail" (the default), or "skip", which an index needs that was made with
        ``--skip-errors``.
    :param max_record: the largest record, such as "256MiB"; "64MiB" by default.
    :param limits: limits of the decoder: ``{"memory": "1GiB", "call_timeout": "30s", "output":
        "1GiB"}``.

    Raises :class:`RefusedError` if the index can't be read or its decoder can't be used,
    :class:`HostError` if the host fails, and :class:`BinaryNotFound` if there is no host. An access
    raises :class:`IndexError` for a number beyond the records, :class:`RefusedError` for an object
    that has changed since the index was made, other errors as a stream does, and :class:`HostDied`
    if the host was killed; the next access starts another one.
    """

    @answering(_OTHERS)
    def __init__(
        self,
        index: str | os.PathLike[str] | Mapping[str, Any],
        *,
        root: str | os.PathLike[str] | None = None,
        skip: Skip | None = None,
        fields: str | Sequence[str] | None = None,
        add_fields: str | Sequence[str] | None = None,
        cache: str = "256MiB",
        workers: int | None = None,
        on_error: str | None = None,
        max_record: str | None = None,
        limits: Mapping[str, str] | None = None,
    ) -> None:
        table = dict(index) if isinstance(index, Mapping) else {"index": os.fspath(index)}
        if root is not None:
            table["root"] = os.fspath(root)
        add_skip(table, skip)
        absolute_skip(table)
        for key in ("index", "root"):
            if key in table:
                name = os.fspath(table[key])
                # The program may change its folder before another host starts.
                table[key] = literal(name if is_address(name) else os.path.abspath(name))
        _, channel, _ = plan(
            table, None, credits=4, epochs=1, rank=(0, 1), add_fields=add_fields,
            workers="auto" if workers is None else workers, on_error=on_error, max_record=max_record,
            limits=limits,
        )  # fmt: skip
        names = fields.split(",") if isinstance(fields, str) else fields
        if names is not None and (not names or len(set(names)) < len(names)):
            raise ValueError(f"fields={fields!r}: expected different names, at least one")
        if names:
            added = [word.partition("=")[0] for word in channel["add_fields"] or ()]
            names = [*names, *(name for name in added if name not in names)]
        words = [f"--cache={cache}", *(f"--field={name}" for name in names or ())]
        self._reading = _Reading(channel, words)
        #: The numbers of its records in the index.
        self._numbers = numbers_without(self._reading.records, self._reading.skipped)

    # --- what it has

    def __len__(self) -> int:
        """Number of records."""
        return len(self._numbers)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of each record."""
        return self._reading.fields

    # --- records

    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice | Iterable[int]) -> list[dict[str, Any]]: ...
    def __getitem__(self, key: Any) -> Any:
        """A record, or a list of records."""
        if isinstance(key, slice):
            return self._records(self._numbers[key])
        # Arrays and tensors of several numbers have it, too.
        if hasattr(key, "__index__") and not getattr(key, "ndim", 0):
            return self._records([self._number(key)])[0]
        return self._records(self._several(key))

    def __getitems__(self, keys: Iterable[int]) -> list[dict[str, Any]]:
        """These records, all of which the host gets at once. A ``DataLoader`` calls it."""
        return self._records(self._several(keys))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for start in range(0, len(self), _ITERATED):
            yield from self._records(self._numbers[start : start + _ITERATED])

    def batch(self, keys: slice | Iterable[int]) -> Batch:
        """These records as one :class:`Batch`, whose columns are views of shared memory.
        There are 1 to 65,536 records, whose values take 1 GiB at most.

        Raises :class:`LimitError` if they take more.
        """
        from .access_host import MAX_RECORDS
        from .errors import LimitError

        numbers = self._numbers[keys] if isinstance(keys, slice) else self._several(keys)
        if not 0 < len(numbers) <= MAX_RECORDS:
            raise ValueError(f"a batch of {len(numbers)} records: expected 1 to {MAX_RECORDS}")
        batch = self._reading.host().batch(numbers)
        if len(batch) < len(numbers):
            raise LimitError(
                f"{len(numbers)} records in one batch: the first {len(batch)} of them fill the "
                "memory that one may have; ask for fewer records"
            )
        return batch

    # --- parts

    def subset(self, keys: Numbers) -> Dataset:
        """The dataset of these records alone, in this order: a list of numbers and ranges of
        numbers, or one range or slice. ::

            train = pipemill.Dataset("train.index")
            first, rest = train.subset(range(1000)), train.subset(slice(1000, None))

        It shares host and cache with this one.
        """
        if isinstance(keys, slice):
            return self._of(self._numbers[keys])
        if isinstance(keys, range):
            if 0 <= keys.start and keys.stop <= len(self) and keys.step > 0:
                return self._of(self._numbers[keys.start : keys.stop : keys.step])
            keys = [keys]
        numbers = array.array("Q")
        for one in keys:
            if isinstance(one, range):
                numbers.extend(map(self._number, one))
            else:
                numbers.append(self._number(one))
        return self._of(numbers)

    def without(self, keys: Numbers) -> Dataset:
        """The dataset without these records, in its order: a list of numbers and ranges of
        numbers, or one range or slice. ::

            good = pipemill.Dataset("train.index").without([35, range(10, 21)])

        It shares host and cache with this one.
        """
        left = bytearray(b"\x01") * len(self)
        for one in [keys] if isinstance(keys, (range, slice)) else keys:
            if isinstance(one, slice):
                one = range(*one.indices(len(self)))
            for key in one if isinstance(one, range) else [one]:
                left[self._position(key)] = 0
        return self._of(array.array("Q", compress(self._numbers, left)))

    def split(
        self, shares: Sequence[float], seed: int = 0, *, by: str | None = None
    ) -> tuple[Dataset, ...]:
        """Parts that together have each record once, each in the order of this dataset. ::

            train, test = pipemill.Dataset("all.index").split([0.9, 0.1], seed=7)

        A hash of the record's number in the index and of the seed decides which part a record is
        in: so a part has about its share of the records, and the same records in each process and
        in each version of this package. docs/the-index.md has the hash.

        :param by: the name of a field. Then the hash is that of its value instead, so all records
            with one value are in one part, such as those of one user; with ``"__object__"``, those
            of one object. A part has about its share of the values. All records are decoded once
            for it, by a host that ends afterwards.
        """
        shares, seed = check_split(shares, whole(seed)), whole(seed)
        hashes = None if by is None else _hashes(self._reading, self._numbers, by)
        parts = part_of_each(self._numbers, shares, seed, hashes)
        return tuple(self._of(numbers) for numbers in parts)

    # --- the host

    def close(self) -> None:
        """Ends the host of this process. The next access starts another one. Batches stay
        readable."""
        self._reading.close()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        fields = ", ".join(field.name for field in self.fields)
        return f"<pipemill dataset: {len(self)} records ({fields})>"

    # --- helpers

    def _of(self, numbers: Sequence[int]) -> Dataset:
        other = object.__new__(Dataset)
        other._reading, other._numbers = self._reading, numbers
        return other

    def _position(self, key: Any) -> int:
        """The number of a record here, from 0."""
        number = whole(key)
        if not -len(self) <= number < len(self):
            raise IndexError(f"record {key} of a dataset with {len(self)} records")
        return number % len(self)

    def _number(self, key: Any) -> int:
        """The number in the index of the record with this number here."""
        return self._numbers[self._position(key)]

    def _several(self, keys: Iterable[int]) -> list[int]:
        if isinstance(keys, (str, bytes, Mapping)) or not isinstance(keys, Iterable):
            raise TypeError(f"dataset[{keys!r}]: expected a number, a slice, or numbers")
        return list(map(self._number, keys))

    def _records(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        while len(records) < len(numbers):
            at = len(records)
            batch = self._reading.host().batch(numbers[at : at + _AT_ONCE])
            records += copied_records(batch)
        return records


class _Reading:
    """How the records of an index are read, and the host of this process that does so."""

    def __init__(self, channel: Mapping[str, Any], words: list[str]) -> None:
        #: The host's channel, and the options of its command.
        self._channel, self._words = channel, words
        self._host: AccessHost | None = None
        host = self.host()
        self.records, self.fields, self._index = host.records, host.fields, host.index
        self.skipped = host.skipped
        # The host counts all records, so the next one need not read a skip list again.
        source = {key: value for key, value in channel["source"].items() if key != "skip"}
        self._channel = {**channel, "source": source}

    def host(self) -> AccessHost:
        """The host of this process, which is started if there is none."""
        host = self._host
        if host is not None and host.is_usable():
            return host
        with _starting:
            if self._host is None or not self._host.is_usable():
                self._host = self._start()
            return self._host

    def _start(self) -> AccessHost:
        from .access_host import AccessHost

        host = AccessHost(toml({"cores": local_cores(), "channel": [self._channel]}), self._words)
        if hasattr(self, "_index") and host.index != self._index:
            host.close()
            from .errors import StateError

            raise StateError(
                "the index was replaced by another one after this dataset was made; make the "
                "dataset again"
            )
        return host

    def of_field(self, name: str) -> _Reading:
        """The same records, with this field alone, and a host of its own."""
        other = object.__new__(_Reading)
        other.__dict__.update(self.__getstate__())
        added = [word for word in self._channel["add_fields"] or () if word.startswith(f"{name}=")]
        own = [name] if name in ADDED_FIELDS else added or None
        other._channel = {**self._channel, "add_fields": own}
        others = [word for word in self._words if not word.startswith("--field=")]
        other._words = [*others, f"--field={name}"]
        return other

    def close(self) -> None:
        """Ends the host of this process."""
        host, self._host = self._host, None
        if host is not None and host.is_usable():
            host.close()

    def __getstate__(self) -> dict[str, Any]:
        # Another process starts a host of its own.
        return {**self.__dict__, "_host": None}


def _hashes(reading: _Reading, numbers: Sequence[int], name: str) -> array.array[int]:
    """A hash of the field's value for each of these records. The records are read in the order of
    the index, so that each block is decoded once."""
    hashes = array.array("Q", bytes(8 * len(numbers)))
    in_order = numbers if isinstance(numbers, range) and numbers.step > 0 else None
    rows = range(len(numbers)) if in_order else sorted(range(len(numbers)), key=numbers.__getitem__)
    of_field, at = reading.of_field(name), 0
    try:
        while at < len(rows):
            some = rows[at : at + _AT_ONCE]
            with of_field.host().batch([numbers[row] for row in some]) as batch:
                for row, value in zip(some, hashes_of(batch)):
                    hashes[row] = value
                at += len(batch)
    finally:
        of_field.close()
    return hashes


#: Held while a host is started. A forked child gets a new one: the thread that held it is not there.
_starting = threading.Lock()


def _renew() -> None:
    global _starting
    _starting = threading.Lock()


os.register_at_fork(after_in_child=_renew)
