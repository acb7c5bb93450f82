"""Another number of ranks in the middle of an epoch: the sequence of all batches stays the same."""

import json
import random

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
    """The ranks, each with its state."""
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


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "more", ["", "workers = 3", "batch = 4\ntail = 'pad'\nshuffle = { seed = 5, window = 15 }"], ids=["", "workers", "window"]
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
        if not is_over and chance.random() < 0.5:
            # What is taken after the state comes again.
            take(chance.choice(streams))
        for stream in streams:
            stream.close()
        host.kill()
        host = start(channel(tmp_path, more))
    # Batches of copies fill the last round of an epoch.
    assert [(epoch, records) for epoch, records in seen if records] == expected, worlds


def begun(start, tmp_path, more, world, steps, tail="drop"):
    """A host whose ranks have taken so many batches each, and their streams."""
    host = start(channel(tmp_path, more))
    streams = connect(host, world, [None] * world, tail)
    taken, _ = rounds(streams, steps)
    return host, streams, taken


#: A ring that holds less than an epoch, so the host is not at its end.
SMALL = "[channel.ring]\nslots = 20\nslot_size = '64KiB'"


def test_the_last_round_that_is_not_full_is_dropped_as_with_as_many_ranks_from_there(start, tmp_path):
    write_files(tmp_path, [4 * 23])
    expected = whole(start, tmp_path, SMALL, "drop")
    host, streams, taken = begun(start, tmp_path, SMALL, 3, 2)
    state = streams[1].state_dict()
    host.kill()
    host = start(channel(tmp_path, SMALL))
    rest, is_over = rounds(connect(host, 4, [state] * 4, "drop"), 20)
    assert is_over and taken == expected[:6]
    # 17 batches are left of the first epoch: 4 rounds, and one batch that is dropped.
    assert rest == expected[6:22] + expected[23:43]


def test_a_host_that_lives_divides_its_batches_anew(start, tmp_path):
    write_files(tmp_path, [4 * 60])
    host, streams, taken = begun(start, tmp_path, SMALL, 4, 3)
    states = [stream.state_dict() for stream in streams]
    with pytest.raises(pipemill.Refused, match="4 of the channel's consumers are connected; end them first"):
        host.connect(rank=(0, 2), state=states[0], batch=BATCH, tail="drop")
    for stream in streams:
        stream.close()
    streams = connect(host, 2, states[:2], "drop")
    rest, _ = rounds(streams, 3)
    host.kill()
    assert taken + rest == whole(start, tmp_path, SMALL, "drop")[:18]


def test_states_of_different_steps_are_refused_and_those_of_one_step_go_on(start, tmp_path):
    write_files(tmp_path, [4 * 60])
    host, streams, _ = begun(start, tmp_path, SMALL, 2, 3)
    before = [stream.state_dict() for stream in streams]
    rounds(streams, 1)
    after = [stream.state_dict() for stream in streams]
    host.kill()
    host = start(channel(tmp_path, SMALL))
    wishes = {"batch": BATCH, "tail": "drop"}
    first = host.connect(rank=(0, 3), state=before[0], **wishes)
    with pytest.raises(pipemill.Refused) as info:
        host.connect(rank=(1, 3), state=after[1], **wishes)
    for words in (
        "one state was taken before batch 6 of epoch 0 by one of 2 ranks, and one before batch 8",
        "pass all of them the state of one rank",
    ):
        assert words in str(info.value)
    others = [host.connect(rank=(rank, 3), state=before[1], **wishes) for rank in (1, 2)]
    rest, _ = rounds([first, *others], 2)
    host.kill()
    assert rest == whole(start, tmp_path, SMALL, "drop")[6:12]


@pytest.mark.parametrize("which", ["one", "all", "different steps"])
def test_run_resume_takes_the_state_of_one_rank_or_of_all(start, tmp_path, which):
    write_files(tmp_path, [4 * 60])
    host, streams, taken = begun(start, tmp_path, SMALL, 3, 2)
    states = [stream.state_dict() for stream in streams]
    if which == "different steps":
        take(streams[2])
        states[2] = streams[2].state_dict()
    host.kill()
    (tmp_path / "states.json").write_text(json.dumps(states[:1] if which == "one" else states))
    more = f"batch = {BATCH}\ntail = 'drop'\n{SMALL}"
    host = start(channel(tmp_path, more), "--resume", str(tmp_path / "states.json"))
    wishes = {"batch": BATCH, "tail": "drop"}
    if which == "different steps":
        with pytest.raises(pipemill.Refused, match="one state was taken before batch 6 .* and one before batch 9"):
            host.connect(rank=(0, 2), **wishes)
        return
    streams = [host.connect(rank=(rank, 2), **wishes) for rank in range(2)]
    rest, _ = rounds(streams, 3)
    host.kill()
    assert taken + rest == whole(start, tmp_path, more, "drop")[:12]


def test_a_checkpoint_of_ranks_that_took_nothing_yet_repeats_nothing(start, tmp_path):
    write_files(tmp_path, [4 * 60])
    host, streams, taken = begun(start, tmp_path, SMALL, 6, 2)
    state = streams[0].state_dict()
    host.kill()
    path = tmp_path / "kept.json"
    cut = f"batch = {BATCH}\ntail = 'drop'\n"
    host = start(channel(tmp_path, f"{cut}checkpoint = {{ path = '{path}', every = '1s' }}\n{SMALL}"))
    streams = connect(host, 2, [state] * 2, "drop")
    rest, _ = rounds(streams, 1)
    # The first rank has one more, whose ACK is in the checkpoint that is written at the end.
    last = take(streams[0])
    del streams
    host.child.terminate()
    assert host.child.wait(60) in (0, 143)
    kept = json.loads(path.read_text())
    assert sorted(one["rank"] for one in kept) == [0, 1]
    host = start(channel(tmp_path, cut + SMALL), "--resume", str(path))
    one = host.connect(rank=(1, 2), batch=BATCH, tail="drop")
    other = host.connect(rank=(0, 2), batch=BATCH, tail="drop")
    again = [take(one)]
    pairs, _ = rounds([other, one], 2)
    seen = [(epoch, records) for epoch, _, records in [last, *again]] + pairs
    host.kill()
    assert taken + rest + seen == whole(start, tmp_path, SMALL, "drop")[: 12 + 2 + 2 + 4]
