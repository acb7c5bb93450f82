"""Workers: with several, consumers get what one worker gives."""

import pytest
from hosts import channel, start, take, take_all, write_files  # noqa: F401
from test_resume import check


@pytest.mark.parametrize("more", ["", 'batch = 7\ntail = "drop"\n', "batch = 5\nmode = \"broadcast\"\n"])
def test_the_records_of_one_worker_in_its_order(start, tmp_path, more):  # noqa: F811
    write_files(tmp_path, [40, 0, 1, 60, 3, 3, 90, 2])
    given = []
    for workers in ("1", "2", "5", '"auto"'):
        ring = '[channel.ring]\nslots = 4\nslot_size = "64KiB"\n'
        host = start(channel(tmp_path, f"{more}workers = {workers}\n{ring}"))
        with host.connect() as stream:
            batches = take_all(stream)
        host.end()
        if not more:
            # Without a size, the cuts depend on timing.
            batches = [(epoch, row) for epoch, _, rows in batches for row in rows]
        given.append(batches)
    assert given[1:] == given[:1] * 3


def test_a_killed_job_goes_on(tmp_path):
    write_files(tmp_path, [20, 5, 0, 31, 8])
    more = 'batch = 4\nworkers = 3\nshuffle = { seed = 2 }\n[channel.ring]\nslots = 4\n'
    check(tmp_path, channel(tmp_path, more), range(1))


def test_an_epoch_that_ends_early_leaves_the_next_one_whole(start, tmp_path):  # noqa: F811
    write_files(tmp_path, [40] * 9)
    host = start(channel(tmp_path, "batch = 4\nworkers = 4\n[channel.ring]\nslots = 4\n"))
    with host.connect() as stream:
        epochs = stream.epochs()
        epoch = next(epochs)
        first = take(stream)
        epoch.end()
        next(epochs)
        second = take_all(stream)
    host.end()
    assert first[2] == second[0][2]
    assert [row for _, _, rows in second for row in rows] == sorted(
        row for _, _, rows in second for row in rows
    )
    assert sum(len(rows) for _, _, rows in second) == 360


def test_the_first_bad_object_ends_the_channel_and_nothing_after_it_is_given(start, tmp_path):  # noqa: F811
    write_files(tmp_path, [30] * 9)
    (tmp_path / "4.txt").write_bytes(b"good\nbad \xff\nmore\n")
    host = start(channel(tmp_path, "workers = 4\n", epochs=1))
    seen = []
    with pytest.raises(Exception, match="object .*/4.txt, byte offset 5") as failed:
        with host.connect() as stream:
            while (batch := take(stream)) is not None:
                seen += batch[2]
    assert len(seen) == 121 and seen[-1] == "good", failed
    assert host.child.wait() != 0


def test_sections_of_one_long_file(start, tmp_path):  # noqa: F811
    """Quoted line ends, and rows that look like others inside of them: most guesses are wrong."""
    row = '{n},"line one of {n}\n1,2,3\n{pad}",{n}.5\n'
    rows = [row.format(n=n, pad="x,y,z\n" * (n % 50)) for n in range(60_000)]
    (tmp_path / "a.csv").write_text("a,b,c\n" + "".join(rows))
    assert (tmp_path / "a.csv").stat().st_size > 2 * (4 << 20)
    given = []
    for workers in (1, 3):
        source = f'source = {{ file = "{tmp_path}/a.csv" }}\ndecoder = "csv"\nworkers = {workers}\n'
        options = 'options = { header = true, types = "a:int64,c:float64" }\nbatch = 1000\n'
        host = start(f'[[channel]]\nname = "train"\n{source}{options}')
        with host.connect() as stream:
            given.append([(batch.number, bytes(batch["a"]), list(batch["b"]), bytes(batch["c"])) for batch in stream])
        host.end()
    assert given[0] == given[1]
    assert sum(len(texts) for _, _, texts, _ in given[0]) == 60_000
