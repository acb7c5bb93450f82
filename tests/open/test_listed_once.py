"""A prefix is listed once: for all epochs, and for all ranks that share a host."""

import pipemill
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from counting import counted  # noqa: F401 (a fixture)

WHOLE = [f"{name}{number}" for name in "abcd" for number in (1, 2)]


def lines(source, **wishes):
    with pipemill.open(source, "lines", **wishes) as stream:
        return [line for batch in stream for line in batch.records()]


def test_epochs_and_what_is_learned_take_one_list(counted):  # noqa: F811
    for wishes, share in [({}, WHOLE), ({"shuffle": 3}, WHOLE), ({"rank": (1, 2)}, ["b1", "b2", "d1", "d2"])]:
        before = counted.lists
        assert sorted(lines(f"{counted.bucket}/", epochs=4, **wishes)) == sorted(4 * share)
        assert counted.lists - before == 1, wishes
        again = {"s3": f"{counted.bucket}/", "list": "epoch"}
        before = counted.lists
        assert sorted(lines(again, epochs=4, **wishes)) == sorted(4 * share)
        assert counted.lists - before >= 4, wishes


@pytest.mark.parametrize("world", [1, 2, 4])
def test_the_ranks_of_a_host_take_one_list(counted, world):  # noqa: F811
    source = {"s3": f"{counted.bucket}/", "epochs": 3}
    channel = {"name": "train", "source": source, "decoder": "lines", "batch": 1, "tail": "drop"}
    ranks = {"mode": "rank", "consumers": world, "ring": {"slots": 24}}
    with pipemill.host({"channel": [{**channel, **ranks}]}) as host:
        streams = [host.connect("train", rank=(rank, world)) for rank in range(world)]
        taken = []
        for _ in range(3 * len(WHOLE) // world):
            for stream in streams:
                batch = next(stream)
                taken += batch.records()
                batch.ack()  # an epoch ends when all of its batches are ACKed
    assert taken == 3 * WHOLE
    assert counted.lists == 1


def test_a_config_says_when_it_lists(counted):  # noqa: F811
    with pytest.raises(pipemill.RefusedError, match="list: expected .*once.*epoch"):
        lines({"s3": f"{counted.bucket}/", "list": "twice"})
    with pytest.raises(pipemill.RefusedError, match="list.*does not go with"):
        lines({"s3_object": f"{counted.bucket}/a.txt", "list": "epoch"})
