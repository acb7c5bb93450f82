"""Counts in constant memory how long a program has waited for its batches."""

from __future__ import annotations

#: Bits of a time, after its highest one, that determine its bucket: an octave has 16 of them.
_BITS = 4
#: Upper limit of times that are not counted yet.
_MOST_NEW = 256


class Waits:
    """How long a program has waited for each batch: :attr:`Stream.waits`. ::

        with pipemill.open("train.csv") as stream:
            for batch in stream:
                pass
            print(stream.waits)

    A time runs from the program's request for a batch to the batch's arrival, even across the end
    of an epoch. If the batch has come before the request, the time is a few microseconds. The first
    time includes the time in which the host opens the source. Times are in seconds. A percentile
    may be up to 1/16 above the true one, and never above `longest`.
    """

    def __init__(self) -> None:
        self._count = self._nanoseconds = self._longest = 0
        #: The times that are not counted yet, in nanoseconds.
        self._new: list[int] = []
        #: How many times fall into each bucket.
        self._buckets: dict[int, int] = {}

    @property
    def count(self) -> int:
        """Number of batches."""
        return self._count + len(self._new)

    @property
    def total(self) -> float:
        """The sum of all times."""
        self._count_new()
        return self._nanoseconds / 1e9

    @property
    def longest(self) -> float:
        """The longest time; 0 before the first batch."""
        self._count_new()
        return self._longest / 1e9

    @property
    def p50(self) -> float:
        """Half of the batches have not taken longer."""
        return self.percentile(50)

    @property
    def p95(self) -> float:
        """95 % of the batches have not taken longer."""
        return self.percentile(95)

    @property
    def p99(self) -> float:
        """99 % of the batches have not taken longer."""
        return self.percentile(99)

    def percentile(self, percent: float) -> float:
        """The time that this percentage of the batches has not exceeded; 0 before the first batch.

        Raises :class:`ValueError` if it is not from 0 to 100.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"percentile({percent!r}): expected a number from 0 to 100")
        self._count_new()
        left = percent / 100 * self._count
        for bucket, count in sorted(self._buckets.items()):
            left -= count
            if left <= 0:
                return min(_end_of(bucket), self._longest) / 1e9
        return self.longest

    def __repr__(self) -> str:
        return (
            f"<waits for {self.count} batches: p50 {self.p50:.3g} s, p95 {self.p95:.3g} s, "
            f"p99 {self.p99:.3g} s, longest {self.longest:.3g} s, together {self.total:.3g} s>"
        )

    def _add(self, nanoseconds: int) -> None:
        """Counts the time of a batch."""
        self._new.append(nanoseconds)
        if len(self._new) == _MOST_NEW:
            self._count_new()

    def _count_new(self) -> None:
        """Counts the last times, which are first kept as they are: to count many at once takes a
        third of the time."""
        new, self._new = self._new, []
        self._count += len(new)
        self._nanoseconds += sum(new)
        self._longest = max(self._longest, max(new, default=0))
        buckets = self._buckets
        for nanoseconds in new:
            shift = nanoseconds.bit_length() - 1 - _BITS
            bucket = nanoseconds if shift <= 0 else (shift << _BITS) + (nanoseconds >> shift)
            buckets[bucket] = buckets.get(bucket, 0) + 1


def _end_of(bucket: int) -> int:
    """The longest time that falls into a bucket."""
    shift = max((bucket >> _BITS) - 1, 0)
    return ((bucket - (shift << _BITS) + 1) << shift) - 1
