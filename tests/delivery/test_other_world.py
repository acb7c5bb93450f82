"""Another number of ranks in the middle of an epoch: the sequence of all batches stays the same."""

import json
import os
import random
import signal
import subprocess

import pipemill
import pytest
from hosts import channel, rows, start, take, write_files

__all__ = ["start"]

BATCH = 4
SIZES = [17, 40, 6, 30]
EPOCHS = 2


def whole(start, tmp_path, more, tail):
    """The batches of a run with one rank that is never stopped, as (epoch, records)."""
    host = start(channel(tmp_path, more))
    stream = host.connect(rank=(0, 1), batch=BATCH, tail=tail)
    batches = []
    while (one := take(stream)) is not None:
        epoch, _, records = one
        batches.append((epoch, records))
    host.kill()
    return batches


def connect(host, world, states, tail):
    """The ranks, each with its state. One rank need not say that it is one."""
    wishes = {"batch": BATCH, "tail": tail}
    return [
        host.connect(rank=(rank, world), state=state, **wishes)
        for rank, state in zip(range(world), states, strict=True)
    ]


def rounds(streams, count):
    """Takes so many rounds of batches, in the order of the ranks. None after the last one."""
    taken = []
    for _ in range(count):
        ones = [take(stream) for stream in streams]
        if ones[0] is None:
            assert not any(ones)
            return taken, True
        taken += [(epoch, records) for epoch, _, records in ones]
    return taken, False


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "more", ["", "workers = 3", "shuffle = { seed = 5, window = 15 }"], ids=["", "workers", "window"]
)
def test_any_chain_of_worlds_gives_the_batches_of_one_rank(start, tmp_path, seed, more):
    write_files(tmp_path, SIZES)
    more += "\n[channel.ring]\nslots = 40"
    expected = whole(start, tmp_path, more, "pad")
    chance, seen, states, is_over = random.Random(seed), [], [None] * 6, False
    host, worlds = start(channel(tmp_path, more)), []
    while not is_over:
        world = chance.randrange(1, 7)
        worlds.append(world)
        # All ranks have the state of one of them; or each has its own, as far as there are any.
        of_one = chance.choice(states)
        own = len(states) >= world and chance.random() < 0.5
        given = states[:world] if own else [of_one] * world
        streams = connect(host, world, given, "pad")
        taken, is_over = rounds(streams, chance.randrange(4))
        seen += taken
        states = [stream.state_dict() for stream in streams]
        for stream in streams:
            # What is taken after the state comes again. A host that has sent its end can't go back.
            if not is_over and len(seen) < 20 and chance.random() < 0.5:
                assert take(stream) is not None
            stream.close()
        if chance.random() < 0.5:
            host.kill()
            host = start(channel(tmp_path, more))
    # Batches of copies fill the last round of an epoch.
    assert [(epoch, records) for epoch, records in seen if records] == expected, worlds
