"""Long compressed objects are inflated in a thread of their own, if there is a core for it: the
records stay the same.
"""

import gzip
import itertools
import os
import random

import pipemill
import pytest
from e2e import feed, in_background
from hosts import start, take, take_all

__all__ = ["start"]

BATCH = 1000


def lines(count):
    chance = random.Random(count)
    return [f"{n:08}" + "x" * chance.randrange(200) for n in range(count)]


def text_of(rows):
    return "".join(f"{row}\n" for row in rows).encode()


def channel(source, more=""):
    return f'[[channel]]\nname = "train"\nsource = {{ {source} }}\ndecoder = "lines"\nbatch = {BATCH}\n{more}\n'


def given(batches):
    return list(itertools.chain.from_iterable(rows for _, _, rows in batches))


@pytest.mark.parametrize("more", ["", "shuffle = { seed = 1, window = 5000 }", "workers = 2"])
def test_records_are_those_of_the_file_as_it_is(start, tmp_path, more):
    rows = lines(40_000)
    (tmp_path / "a.txt").write_bytes(text_of(rows))
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text_of(rows), 1))
    got = []
    for name in ("a.txt", "a.txt.gz"):
        host = start(channel(f'files = ["{tmp_path}/{name}"], epochs = 2', more))
        with host.connect() as stream:
            got.append(take_all(stream))
        host.end()
    assert got[0] == got[1]
    assert sorted(given(got[1])) == sorted(rows * 2)


def test_a_file_that_was_cut_short_fails_after_the_records_before(start, tmp_path):
    rows = lines(40_000)
    whole = gzip.compress(text_of(rows), 1)
    (tmp_path / "a.txt.gz").write_bytes(whole[: len(whole) * 3 // 4])
    host = start(channel(f'file = "{tmp_path}/a.txt.gz"'))
    got = []
    with host.connect() as stream, pytest.raises(pipemill.SourceError, match="its gzip data ends early"):
        while True:
            got.append(take(stream))
    found = given(got)
    assert len(found) > len(rows) // 2
    assert found == rows[: len(found)]


def test_a_job_goes_on_in_the_middle(start, tmp_path):
    rows = lines(40_000)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text_of(rows), 1))
    config = channel(f'file = "{tmp_path}/a.txt.gz"')
    host = start(config)
    with host.connect() as stream:
        got = [take(stream) for _ in range(25)]
        state = stream.state_dict()
    host.kill()
    with start(config).connect(state=state) as stream:
        got += take_all(stream)
    assert given(got) == rows


def test_an_epoch_of_a_fifo_that_is_left_is_followed_by_a_whole_one(start, tmp_path):
    rows = lines(30_000)
    data = gzip.compress(text_of(rows), 1)
    for epoch in range(2):
        os.mkfifo(tmp_path / f"train_{epoch}")
        in_background(feed, tmp_path / f"train_{epoch}", data)
    host = start(channel(f'fifo = "{tmp_path}", epochs = 2, compression = "gzip"'))
    with host.connect() as stream:
        epochs = stream.epochs()
        first = next(epochs)
        for _ in range(20):
            next(first)
        first.end()
        assert sum(batch.valid for batch in next(epochs)) == len(rows)
    host.end()
