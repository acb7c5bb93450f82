"""The times that a program has waited: percentiles of a histogram in constant memory."""

import random

import pytest
from pipemill.waits import Waits


def of(times):
    waits = Waits()
    for time in times:
        waits._add(time)
    return waits


@pytest.mark.parametrize("seed", range(20))
def test_a_percentile_is_at_most_a_sixteenth_above_the_true_one(seed):
    chance = random.Random(seed)
    times = sorted(int(2 ** chance.uniform(0, 45)) for _ in range(chance.randrange(1, 500)))
    waits = of(chance.sample(times, len(times)))
    assert waits.count == len(times) and waits.total == sum(times) / 1e9 and waits.longest == times[-1] / 1e9
    for percent in (0.5, 50, 90, 95, 99, 100):
        true = times[max(int(-(-len(times) * percent // 100)), 1) - 1] / 1e9
        assert true <= waits.percentile(percent) <= true * 17 / 16
    assert waits.p50 <= waits.p95 <= waits.p99 <= waits.longest


def test_small_times_are_exact_and_none_is_0():
    assert [of([time]).p50 for time in range(32)] == [time / 1e9 for time in range(32)]
    assert (Waits().p99, Waits().longest, Waits().count) == (0, 0, 0)
    assert repr(of([2_000_000])).startswith("<waits for 1 batches: p50 0.002 s, p95 0.002 s")


def test_memory_does_not_grow():
    assert len(of(random.Random(1).randrange(1, 10**9) for _ in range(50_000))._buckets) < 17 * 30


@pytest.mark.parametrize("percent", [-1, 101])
def test_a_percentage_has_its_range(percent):
    with pytest.raises(ValueError, match="expected a number from 0 to 100"):
        Waits().percentile(percent)
