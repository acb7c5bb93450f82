"""Each cell of the tables in docs/delivery.md."""

import concurrent.futures
import pathlib

import pipemill
import pytest
from hosts import channel, rows, start, take, take_all, write_files

__all__ = ["start"]

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "delivery.md"
MODES = ["share", "rank", "broadcast"]
EVENTS = ["a consumer dies", "the host dies", "the job dies", "an epoch ends early"]
COUNT, SIZE = 46, 4
#: The batches of an epoch, in two ranks of 6 with the last one full of copies.
BATCHES = [rows(COUNT)[at : at + SIZE] for at in range(0, COUNT, SIZE)]


def test_the_page_has_these_cells():
    _, tables = PAGE.read_text().split("## Without a state")
    lines = [line for line in tables.splitlines() if line.startswith("|")]
    lines = [line.split("|")[1].strip() for line in lines]
    assert lines == 2 * ["", "---", *EVENTS]


class Channel:
    """A channel in one mode, and its hosts in succession."""

    def __init__(self, start, folder, mode):
        write_files(folder, [20, 26])
        more = {
            "share": "",
            "rank": 'mode = "rank"\nconsumers = 2\n',
            "broadcast": 'mode = "broadcast"\nconsumers = 2\n',
        }[mode]
        self.config = channel(folder, f'{more}batch = {SIZE}\ntail = "pad"')
        self.mode, self.start, self.host = mode, start, start(self.config)
        # In mode share, other consumers would take the batches that a test of one consumer waits
        # for.
        self.count = 1 if mode == "share" else 2

    def new_host(self):
        self.host.kill()
        self.host = self.start(self.config)

    def connect(self, number, **wishes):
        if self.mode == "rank":
            wishes["rank"] = (number, 2)
        return self.host.connect(**wishes)

    def connect_all(self, states=None):
        states = states or [None] * self.count
        return [self.connect(number, state=states[number]) for number in range(self.count)]

    def whole(self, number, epochs=(0, 1)):
        """The output of a consumer for these epochs, as rows."""
        if self.mode == "rank":
            return [batch for _ in epochs for batch in BATCHES[number::2]]
        return [batch for _ in epochs for batch in BATCHES]


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.fixture
def one(start, tmp_path, mode):
    return Channel(start, tmp_path, mode)


def data(batch):
    return batch[2]


def together(read, sources):
    """The result of `read` for each of them. Each has a thread: where an epoch ends, consumers wait
    for each other."""
    with concurrent.futures.ThreadPoolExecutor(len(sources)) as threads:
        return list(threads.map(read, sources))


def read_all(streams):
    """The rest of each stream."""
    return together(lambda stream: [data(batch) for batch in take_all(stream)], streams)


def close(streams):
    for stream in streams:
        stream.close()


def test_without_a_state_a_consumer_dies(one, mode):
    streams = one.connect_all()
    if mode == "share":
        streams.append(one.connect(1))
    acked = [data(take(stream)) for stream in streams]
    dies, lives = streams
    lost = dies.__next__()
    lost_rows, number = list(lost.records()), lost.number
    del lost
    dies.close()
    if mode == "share":
        # The one that lives gets it, and everything after it.
        rest = [data(batch) for batch in take_all(lives)]
        assert sorted(acked + rest) == sorted(BATCHES + BATCHES)
        assert rest.count(lost_rows) == 2
    elif mode == "rank":
        assert [data(take(lives)) for _ in range(3)] == one.whole(1)[1:4]
        back = one.connect(0)
        first = take(back)
        assert (first[1], data(first)) == (number, lost_rows)
        assert [data(take(back)) for _ in range(3)] == one.whole(0)[2:5]
    else:
        assert [data(batch) for batch in take_all(lives)] == one.whole(1)[1:]


def test_without_a_state_the_host_dies(one):
    streams = one.connect_all()
    held = [next(stream) for stream in streams]
    shown = [list(batch.records()) for batch in held]
    one.host.kill()
    assert [list(batch.records()) for batch in held] == shown
    for stream in streams:
        with pytest.raises(pipemill.HostDied):
            while True:
                next(stream)


def test_without_a_state_the_job_dies(one):
    streams = one.connect_all()
    for stream in streams:
        take(stream)
    one.new_host()
    close(streams)
    streams = one.connect_all()
    assert read_all(streams) == [one.whole(number) for number in range(one.count)]
    close(streams)


def test_without_a_state_an_epoch_ends_early(one, mode):
    streams = one.connect_all()
    epochs = [stream.epochs() for stream in streams]
    first = [next(each) for each in epochs]
    for epoch in first:
        next(epoch).ack()
    first[0].end()
    rest = together(read_epoch, first)
    if mode == "broadcast":
        # The other one continues.
        assert (rest[0], rest[1]) == ([], BATCHES[1:])
        assert not first[1].ended_early
    else:
        assert all(epoch.ended_early and epoch.batches < len(BATCHES) for epoch in first)
    seen = read_all(streams)
    assert seen == [one.whole(number, epochs=[1]) for number in range(one.count)]


def read_epoch(epoch):
    """The rest of the epoch."""
    return [list(batch.records())[: batch.valid] for batch in epoch]


def test_with_a_state_a_consumer_dies(one, mode):
    streams = one.connect_all()
    seen = [data(take(stream)) for stream in streams]
    state = streams[0].state_dict()
    if mode == "share":
        # It has ACKed more than its state says.
        take(streams[0])
        other = one.host.connect()
        close(streams)
        with pytest.raises(pipemill.Refused, match="end them first"):
            one.connect(0, state=state)
        other.close()
        back = one.connect(0, state=state)
        assert seen + [data(batch) for batch in take_all(back)] == one.whole(0)
        return
    streams[0].close()
    if mode == "broadcast":
        with pytest.raises(pipemill.Refused, match="end them first"):
            one.connect(0, state=state)
        return
    back = one.connect(0, state=state)
    streams[0] = back
    more = data(take(back))
    assert [seen[0], more] == one.whole(0)[:2]
    back.close()
    with pytest.raises(pipemill.Refused, match="end them first"):
        one.connect(0, state=state)


def take_some(source):
    stream, count = source
    return [data(take(stream)) for _ in range(count)]


@pytest.mark.parametrize("dies", ["host", "job"])
def test_with_a_state_the_host_or_the_job_dies(one, mode, dies):
    seen, states = [[] for _ in range(one.count)], None
    # Ranks need not be at the same step. The third life continues across the end of an epoch.
    for steps in [(1, 1), (3, 2 if mode == "rank" else 3), (4, 4)]:
        streams = one.connect_all(states)
        parts = together(take_some, list(zip(streams, steps)))
        seen = [before + more for before, more in zip(seen, parts)]
        states = [stream.state_dict() for stream in streams]
        # Batches that a program received after its state are delivered again.
        take(streams[0])
        if dies == "job":
            close(streams)
        one.new_host()
        close(streams)
    streams = one.connect_all(states)
    rest = read_all(streams)
    whole = [one.whole(number) for number in range(one.count)]
    assert [before + after for before, after in zip(seen, rest)] == whole


def test_with_a_state_an_epoch_ends_early(one):
    streams = one.connect_all()
    epochs = [stream.epochs() for stream in streams]
    first = [next(each) for each in epochs]
    for epoch in first:
        next(epoch).ack()
    inside = [stream.state_dict() for stream in streams]
    for epoch in first:
        epoch.end()
    together(read_epoch, first)
    assert all(epoch.ended_early for epoch in first)
    after = [stream.state_dict() for stream in streams]
    one.new_host()
    close(streams)
    streams = one.connect_all(inside)
    assert read_all(streams) == [one.whole(number)[1:] for number in range(one.count)]
    one.new_host()
    close(streams)
    streams = one.connect_all(after)
    assert read_all(streams) == [one.whole(number, epochs=[1]) for number in range(one.count)]
