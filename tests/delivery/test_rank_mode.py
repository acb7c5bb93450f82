"""Batches that are dealt to ranks; consumers that say where they go on, and how batches are cut."""

import concurrent.futures
import json
import os
import random
import signal
import subprocess
import sys

import pipemill
import pytest
from e2e import PATIENCE, feed, in_background, patiently, tfrecord
from hosts import channel, rows, start, take, take_all, write_files

__all__ = ["start"]

BATCH = 4


def in_step(streams):
    """All batches of each rank, with the ranks taking turns."""
    taken, live = [[] for _ in streams], set(range(len(streams)))
    while live:
        for rank in sorted(live):
            one = take(streams[rank])
            if one is None:
                live.discard(rank)
            else:
                taken[rank].append(one)
    return taken


def expected(count, world, tail, epochs=2):
    """The batches of each rank."""
    ranks, number = [[] for _ in range(world)], 0
    names = rows(count)
    for epoch in range(epochs):
        batches = [names[at : at + BATCH] for at in range(0, count, BATCH)]
        if tail == "drop":
            batches = [batch for batch in batches if len(batch) == BATCH]
            batches = batches[: len(batches) // world * world]
        batches += [[]] * (-len(batches) % world)
        for batch in batches:
            ranks[number % world].append((epoch, number, batch))
            number += 1
    return ranks


@pytest.mark.parametrize(
    "tail, count, world",
    [("drop", 46, 3), ("drop", 46, 1), ("drop", 48, 4), ("drop", 40, 10)]
    + [("pad", 46, 3), ("pad", 46, 1), ("pad", 48, 4), ("pad", 3, 2), ("pad", 40, 10)],
)
def test_each_rank_gets_its_batches_and_all_get_equally_many(start, tmp_path, tail, count, world):
    write_files(tmp_path, [count // 3, count - count // 3])
    host = start(
        channel(tmp_path, f'mode = "rank"\nconsumers = {world}\nbatch = {BATCH}\ntail = "{tail}"\n'
        "[channel.ring]\nslots = 40")
    )  # fmt: skip
    streams = [host.connect(rank=(rank, world)) for rank in range(world)]
    assert {stream.mode for stream in streams} == {"rank"}
    assert in_step(streams) == expected(count, world, tail)
    for stream in streams:
        stream.close()
    host.end()


def test_consumers_may_ask_for_ranks_and_batches_that_the_file_does_not_name(start, tmp_path):
    write_files(tmp_path, [20, 26])
    host = start(channel(tmp_path))
    wishes = {"batch": BATCH, "tail": "pad"}
    streams = [host.connect(rank=(rank, 3), **wishes) for rank in range(3)]
    assert in_step(streams) == expected(46, 3, "pad")
    for stream in streams:
        stream.close()
    host.end()


def test_a_consumer_may_ask_for_batches_of_a_size_alone(start, tmp_path):
    write_files(tmp_path, [20, 26])
    host = start(channel(tmp_path))
    with host.connect(batch=BATCH) as stream:
        expect = [(epoch, number, batch) for epoch, number, batch in expected(46, 1, "keep")[0]]
        assert take_all(stream) == expect
    host.end()


def test_a_rank_that_dies_and_comes_back_gets_its_own_batches(start, tmp_path):
    write_files(tmp_path, [46])
    more = f'mode = "rank"\nconsumers = 2\nbatch = {BATCH}\ntail = "pad"'
    host = start(channel(tmp_path, more))
    first = host.connect(rank=(0, 2))
    # It receives a batch, and is killed before it ACKs it.
    script = (
        "import pipemill, sys, time\n"
        f"stream = pipemill.connect('train', {host.socket!r}, rank=(1, 2))\n"
        "print(next(stream).number, flush=True)\ntime.sleep(1000)\n"
    )
    other = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "1\n"
    other.kill()
    other.wait()
    # Its place is free at once, whenever the host sees its death.
    second = host.connect(rank=(1, 2))
    assert in_step([first, second]) == expected(46, 2, "pad")


@pytest.mark.parametrize("tail", ["drop", "pad"])
@pytest.mark.parametrize("configured", [True, False])
@pytest.mark.parametrize("kept", ["all", "rank 0"])
def test_killed_ranks_go_on_at_their_next_batches(start, tmp_path, tail, configured, kept):
    write_files(tmp_path, [20, 7, 26])
    world, chance = 3, random.Random(f"{tail} {configured} {kept}")
    more = f'mode = "rank"\nconsumers = {world}\nbatch = {BATCH}\ntail = "{tail}"'
    wishes = {} if configured else {"batch": BATCH, "tail": tail}
    seen, states = [[] for _ in range(world)], [None] * world
    for life in range(40):
        host = start(channel(tmp_path, more if configured else ""))
        streams = [
            host.connect(rank=(rank, world), state=states[rank], **wishes) for rank in range(world)
        ]
        # Each rank resumes at its own batches, whichever rank's state it received.
        own = [{**(states[rank] or {}), "rank": rank} for rank in range(world)]
        assert [stream.state_dict() for stream in streams] == own or life == 0
        left = chance.randrange(1, 8)
        done = False
        while left and not done:
            # A rank that is ahead would wait for the others where an epoch ends.
            fewest = min(map(len, seen))
            behind = [rank for rank in range(world) if len(seen[rank]) == fewest]
            if kept == "all":
                chance.shuffle(behind)
                behind = behind[: chance.randrange(1, world + 1)]
            for rank in behind:
                one = take(streams[rank])
                done |= one is None
                if one is not None:
                    seen[rank].append(one)
            left -= 1
        states = [stream.state_dict() for stream in streams]
        # They travel as text.
        states = json.loads(json.dumps(states))
        if kept == "rank 0":
            states = [states[0]] * world
        host.kill()
        for stream in streams:
            stream.close()
        if done:
            break
    assert done
    ends = [taken[-1][0] for taken in seen]
    assert ends == [1] * world
    assert seen == expected(53, world, tail)


@pytest.mark.parametrize("mode", ['mode = "rank"\nconsumers = 2\n', ""])
def test_the_host_resumes_the_states_of_all_ranks_and_of_one(start, tmp_path, mode):
    write_files(tmp_path, [20, 26])
    more = f'{mode}batch = {BATCH}\ntail = "pad"'
    host = start(channel(tmp_path, more))
    streams = [host.connect(rank=(rank, 2)) for rank in range(2)]
    seen = [[take(stream) for _ in range(2)] for stream in streams]
    in_one_step = streams[0].state_dict()
    seen[1].append(take(streams[1]))
    states = [stream.state_dict() for stream in streams]
    host.kill()
    whole = expected(46, 2, "pad")

    def rest(states):
        (tmp_path / "states.json").write_text(json.dumps(states))
        host = start(channel(tmp_path, more), "--resume", "states.json")
        streams = [host.connect(rank=(rank, 2)) for rank in range(2)]
        try:
            return in_step(streams)
        finally:
            host.kill()

    assert [seen[rank] + more for rank, more in enumerate(rest(states))] == whole
    assert [seen[rank][:2] + more for rank, more in enumerate(rest(in_one_step))] == whole


def test_the_number_of_ranks_changes_where_an_epoch_begins(start, tmp_path):
    write_files(tmp_path, [46])
    host = start(channel(tmp_path))
    wishes = {"batch": BATCH, "tail": "pad"}
    streams = [host.connect(rank=(rank, 2), **wishes) for rank in range(2)]
    first = [[take(stream) for _ in range(6)] for stream in streams]
    events = [next(stream.epochs()) for stream in streams]
    assert [epoch.number for epoch in events] == [1, 1]
    between = [stream.state_dict() for stream in streams]
    host.kill()
    assert first == [part[:6] for part in expected(46, 2, "pad")]

    host = start(channel(tmp_path))
    streams = [host.connect(rank=(rank, 3), state=between[0], **wishes) for rank in range(3)]
    rest = in_step(streams)
    assert [[batch for _, _, batch in part] for part in rest] == [
        [batch for epoch, _, batch in part if epoch == 1] for part in expected(46, 3, "pad")
    ]


@pytest.mark.parametrize("more", [f"batch = {BATCH}", ""])
def test_a_killed_program_goes_on_in_a_host_that_lives_and_in_a_new_one(start, tmp_path, more):
    write_files(tmp_path, [30, 26])
    config = channel(tmp_path, more + '\n[channel.ring]\nslot_size = "64KiB"')
    chance, seen, state = random.Random(more), [], None
    taken, total = 0, 2 * 56
    host = start(config)
    while taken < total:
        stream = host.connect(state=state)
        for _ in range(chance.randrange(1, 4)):
            if taken < total:
                seen.append(take(stream))
                taken += len(seen[-1][2])
                state = stream.state_dict()
        # The program ACKs more than its last state says, and dies. But not all batches: a host
        # whose channel was read to its end can't go back.
        ahead = taken
        for _ in range(chance.randrange(3)):
            if ahead + 2 * 30 <= total:
                ahead += len(take(stream)[2])
        stream.close()
        if taken < total and chance.random() < 0.5:
            host.kill()
            host = start(config)
    host.end()
    whole = expected(56, 1, "keep")[0]
    if more:
        assert seen == whole
    rows_of = [(epoch, row) for epoch, _, batch in seen for row in batch]
    assert rows_of == [(epoch, row) for epoch, _, batch in whole for row in batch]


def test_what_does_not_fit_is_refused_with_its_reason(start, tmp_path):
    write_files(tmp_path, [46])
    plain = channel(tmp_path).replace("train", "plain")
    host = start(channel(tmp_path, f"batch = {BATCH}") + plain)

    def refusal(channel="train", **wishes):
        with pytest.raises(pipemill.Refused) as info:
            host.connect(channel, **wishes)
        return str(info.value)

    assert "so say what happens to the last ones" in refusal(rank=(0, 2))
    assert "say how many records they have" in refusal("plain", rank=(0, 2))
    assert "the configuration says 4 records" in refusal(batch=5)
    assert "need 42 slots, and this channel has 16: set `slots = 42`" in refusal(
        "plain", rank=(0, 20), batch=4, tail="pad", credits=2
    )
    with host.connect() as stream:
        take(stream)
        state = stream.state_dict()
        other = {**state, "settings": {**state["settings"], "batch": "9"}}
        assert "`batch` was `9` when the state was taken" in refusal(state=other)
        assert "end them first" in refusal(batch=BATCH, state={**state, "batch": 99})
    with pytest.raises(ValueError, match="a rank from 0 to 1"):
        host.connect(rank=(2, 2))
    with pytest.raises(ValueError, match="is of channel 'train', and this connects to 'plain'"):
        host.connect("plain", state=state)
    with pytest.raises(ValueError, match="tail= and batch_across= are about batch="):
        host.connect(tail="pad")
    ranks = [host.connect("plain", rank=(rank, 2), batch=4, tail="pad") for rank in range(2)]
    assert "another consumer is connected as rank 1 of 2" in refusal("plain", rank=(1, 2))
    assert "connect with rank=(rank, 2)" in refusal("plain")
    take(ranks[0])
    other = refusal("plain", rank=(0, 3), batch=4, tail="pad")
    assert "consumers are connected; end them first" in other


def test_a_fifo_is_read_over_and_cannot_go_back(start, tmp_path):
    os.mkfifo(tmp_path / "train_0")
    config = (
        f'[[channel]]\nname = "train"\nsource = {{ fifo = "{tmp_path}", epochs = 1 }}\n'
        f'decoder = "tfrecord"\nbatch = {BATCH}\n'
    )
    names = [row.encode() for row in rows(46)]

    def feed(host):
        # It fits into the pipe, so the writer need not wait for readers.
        with open(tmp_path / "train_0", "wb", buffering=0) as pipe:
            pipe.write(b"".join(map(tfrecord, names)))
        return host

    host = feed(start(config))
    with host.connect() as stream:
        seen = [take(stream) for _ in range(3)]
        state = stream.state_dict()
    host.kill()
    host = feed(start(config))
    with host.connect(state=state) as stream:
        seen += [take(stream) for _ in range(2)]
    with host.connect() as stream:
        seen.append(take(stream))
    with pytest.raises(pipemill.Refused, match="its input can't be read again"):
        host.connect(state=state)
    got = [row for _, _, batch in seen for row in batch]
    assert got == names[: 6 * BATCH]


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("more", ["", "shuffle = { seed = 3, window = 15 }"])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_fifo_is_read_over_after_epochs_that_were_ended_early(start, tmp_path, world, more, checkpoint):
    names = [row.encode() for row in rows(46)]
    whole = b"".join(map(tfrecord, names))
    kept = f'checkpoint = {{ path = "{tmp_path}/kept.json", every = "1s" }}\n' if checkpoint else ""
    mode = f'mode = "rank"\nconsumers = {world}\n' if world > 1 else ""
    config = (
        f'[[channel]]\nname = "train"\nsource = {{ fifo = "{tmp_path}", epochs = 4 }}\n{mode}'
        f'decoder = "tfrecord"\nbatch = {BATCH}\ntail = "pad"\n{more}\n{kept}[channel.ring]\nslots = 9\n'
    )

    def host(*resume):
        # It fits into the pipe, so the writer need not wait for readers.
        for epoch in range(4):
            fifo = tmp_path / f"train_{epoch}"
            fifo.unlink(missing_ok=True)
            os.mkfifo(fifo)
            in_background(feed, fifo, whole)
        return start(config, *resume)

    def connect(host, states):
        ranks = [(rank, world) for rank in range(world)] if world > 1 else [None]
        return [host.connect(rank=rank, state=state) for rank, state in zip(ranks, states)]

    def rounds(streams, count):
        return [take(stream) for _ in range(count) for stream in streams]

    expected = host()
    streams = connect(expected, [None] * world)
    epochs = {}
    for batch in iter(lambda: rounds(streams, 1), [None] * world):
        for epoch, _, batch_rows in batch:
            epochs.setdefault(epoch, []).append(batch_rows)
    for stream in streams:
        stream.close()
    expected.end()

    first = host()
    streams = connect(first, [None] * world)
    # Each waits for the other.
    with concurrent.futures.ThreadPoolExecutor(world) as pool:
        list(pool.map(lambda stream: stream.set_epoch(2), streams))
    got = rounds(streams, 2)
    states = [stream.state_dict() for stream in streams]
    first.kill()
    second = host()
    streams = connect(second, states)
    got += rounds(streams, 1)
    states = [stream.state_dict() for stream in streams]
    if checkpoint:
        # It writes the batches that were ACKed again.
        second.child.terminate()
        second.child.wait(PATIENCE)
    else:
        second.kill()
    third = host("--resume", str(tmp_path / "kept.json")) if checkpoint else host()
    streams = connect(third, [None] * world if checkpoint else states)
    left = []
    for batch in iter(lambda: rounds(streams, 1), [None] * world):
        left += batch
    assert [batch[2] for batch in got + left] == epochs[2] + epochs[3]
    assert [batch[0] for batch in got + left] == [2] * len(epochs[2]) + [3] * len(epochs[3])


def test_a_consumer_sets_the_epoch(start, tmp_path):
    write_files(tmp_path, [20])
    host = start(channel(tmp_path, f"batch = {BATCH}", epochs=6))
    whole = [row for row in rows(20)]
    with host.connect() as stream:
        seen = []
        for number in [0, 2, 3, 5]:
            stream.set_epoch(number)
            stream.set_epoch(number)
            epoch = next(stream.epochs())
            read = [row for batch in epoch for row in batch.records()]
            seen.append((epoch.number, read))
        assert seen == [(number, whole) for number in [0, 2, 3, 5]]
        with pytest.raises(ValueError, match="'train' has ended"):
            stream.set_epoch(6)
    host.end()
    host = start(channel(tmp_path, f"batch = {BATCH}", epochs=6))
    with host.connect() as stream:
        stream.set_epoch(1)
        # Its number depends on how far the host had read the epoch before.
        assert take(stream)[0] == 1
        with pytest.raises(ValueError, match="is in epoch 1; to go back, connect with a state="):
            stream.set_epoch(0)


def read_checkpoint(folder):
    try:
        return json.loads((folder / "kept.json").read_text())
    except FileNotFoundError:
        return None


@pytest.mark.parametrize("mode", ["share", "rank", "broadcast"])
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_the_host_writes_what_was_acked_and_goes_on_after_it(start, tmp_path, mode, end):
    # One epoch in mode share: at its end, one consumer would wait for the batch that the other one
    # holds.
    counts, epochs = ([40, 54], 1) if mode == "share" else ([20, 26], 2)
    write_files(tmp_path, counts)
    more = f'batch = {BATCH}\ntail = "pad"\ncheckpoint = {{ path = "kept.json", every = "1s" }}\n'
    if mode != "share":
        more += f'mode = "{mode}"\nconsumers = 2\n'
    config = channel(tmp_path, more, epochs)
    chance, words, delivered = random.Random(mode), [], []
    for life in range(6):
        host = start(config, *words)
        ranks = [{"rank": (rank, 2)} for rank in range(2)] if mode == "rank" else [{}, {}]
        streams = [host.connect(**wishes) for wishes in ranks]
        acked = []
        for _ in range(3):
            for stream in streams if mode != "share" or life else chance.sample(streams, 2):
                # In mode share, the batch that the other one holds is ACKed out of turn.
                acked.append(take(stream))
        # The first of them dies with a batch that it has not ACKed.
        next(streams[0])
        numbers = {number for _, number, _ in acked}
        wanted = set(delivered) | numbers

        def is_written():
            kept = read_checkpoint(tmp_path)
            return kept and done_by(kept, mode) >= wanted

        if end == signal.SIGKILL:
            patiently(is_written)
            host.kill()
        else:
            host.child.send_signal(end)
            host.child.wait()
            assert is_written()
        for stream in streams:
            stream.close()
        assert not numbers & set(delivered), "delivered twice"
        delivered += numbers
        words = ["--resume", "kept.json"]
        if len(delivered) >= 18:
            break
    host = start(config, *words)
    streams = [host.connect(**wishes) for wishes in ranks]
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        rest = [number for part in threads.map(take_all, streams) for _, number, _ in part]
    every = [*delivered, *(sorted(set(rest)) if mode == "broadcast" else rest)]
    assert sorted(every) == list(range(24))


def done_by(kept, mode):
    """The numbers of the batches that are done."""
    done = set()
    for state in kept:
        last = state["batch"] + (state["delivered"] > 0)
        own = range(24) if mode != "rank" else range(state["rank"], 24, 2)
        done |= {number for number in own if number < last} | set(state["done"])
    return done
