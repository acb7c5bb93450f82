"""Workers: with several, consumers receive the same as with one."""

import io
import os
import tarfile

import pipemill
import pytest
from e2e import tfrecord
from hosts import channel, rows, start, take, take_all, write_files  # noqa: F401
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


@pytest.mark.parametrize("workers", [2, 3, 7])
@pytest.mark.parametrize("slots", [4, 6])
def test_small_rings_and_a_consumer_that_keeps_all_it_may(start, tmp_path, workers, slots):  # noqa: F811
    """Whatever batches workers have ready, the next batch finds a slot."""
    sizes = [40, 3000, 0, 1, 9000, 3, 700, 90, 20_000, 5]
    write_files(tmp_path, sizes)
    given = []
    for count in (1, workers):
        ring = f'[channel.ring]\nslots = {slots}\nslot_size = "64KiB"\n'
        host = start(channel(tmp_path, f"workers = {count}\n{ring}", epochs=2))
        rows, kept = [], []
        with host.connect(credits=slots - 1) as stream:
            while (batch := next(stream, None)) is not None:
                rows += [str(row) for row in batch["line"]]
                kept.append(batch)
                del batch
                if len(kept) == slots - 1:
                    kept.clear()
            kept.clear()
        host.end()
        given.append(rows)
    assert given[0] == given[1]
    assert len(given[0]) == 2 * sum(sizes)


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


def of_one_and_three(start, path, decoder, take):
    """The result of `take` for each batch of a long file: with one worker, and with three."""
    assert path.stat().st_size > 2 * (4 << 20)
    given = []
    for workers in (1, 3):
        host = start(f'[[channel]]\nname = "train"\nsource = {{ file = "{path}" }}\nworkers = {workers}\n{decoder}')
        with host.connect() as stream:
            given.append([take(batch) for batch in stream])
        host.end()
    return given


def test_sections_of_one_long_file(start, tmp_path):  # noqa: F811
    """Quoted line ends, and rows that look like others inside them: most guesses are wrong."""
    row = '{n},"line one of {n}\n1,2,3\n{pad}",{n}.5\n'
    rows = [row.format(n=n, pad="x,y,z\n" * (n % 50)) for n in range(60_000)]
    (tmp_path / "a.csv").write_text("a,b,c\n" + "".join(rows))
    decoder = 'decoder = "csv"\noptions = { header = true, types = "a:int64,c:float64" }\nbatch = 1000\n'
    given = of_one_and_three(
        start, tmp_path / "a.csv", decoder, lambda batch: (batch.number, bytes(batch["a"]), list(batch["b"]), bytes(batch["c"]))
    )
    assert given[0] == given[1]
    assert sum(len(texts) for _, _, texts, _ in given[0]) == 60_000


SIZES = [40, 0, 1, 60, 3, 3, 90, 2]


def any_order(folder, more=""):
    return channel(folder, f'workers = 3\norder = "any"\n{more}[channel.ring]\nslots = 4\n')


@pytest.mark.parametrize("more", ["", 'batch = 7\ntail = "keep"\n', 'mode = "broadcast"\n'])
def test_in_any_order_each_row_comes_once(start, tmp_path, more):  # noqa: F811
    write_files(tmp_path, SIZES)
    host = start(any_order(tmp_path, more))
    with host.connect() as stream:
        given = take_all(stream)
    host.end()
    for epoch in range(2):
        seen = [row for of, _, batch in given if of == epoch for row in batch]
        assert sorted(seen) == rows(sum(SIZES))
        at = 0
        for size in SIZES:
            own = rows(sum(SIZES))[at : at + size]
            assert [row for row in seen if row in own] == own, "the rows of a file keep their order"
            at += size


def test_in_any_order_a_file_that_waits_holds_up_no_other(start, tmp_path):  # noqa: F811
    write_files(tmp_path, SIZES)
    os.mkfifo(tmp_path / "slow")
    files = [str(tmp_path / "slow"), *(str(tmp_path / f"{n}.txt") for n in range(len(SIZES)))]
    source = f"source = {{ files = {files!r} }}\ndecoder = \"lines\"\n"
    host = start(f'[[channel]]\nname = "train"\n{source}workers = 2\norder = "any"\n')
    with host.connect() as stream:
        seen = []
        while len(seen) < sum(SIZES):
            seen += take(stream)[2]
        # It writes only now, so all others have come before.
        with open(tmp_path / "slow", "w") as slow:
            slow.write("at last\n")
        assert take(stream)[2] == ["at last"]
        assert take(stream) is None
    host.end()
    assert sorted(seen) == rows(sum(SIZES))


def test_in_any_order_a_state_is_between_two_epochs(start, tmp_path):  # noqa: F811
    write_files(tmp_path, SIZES)
    host = start(any_order(tmp_path, "batch = 5\n"))
    with host.connect() as stream:
        epochs = stream.epochs()
        first = next(epochs)
        batch = next(first)
        with pytest.raises(pipemill.StateError, match="order = \"any\" leaves no place inside"):
            stream.state_dict()
        del batch
        for batch in first:
            del batch
        state = stream.state_dict()
    host.kill()
    host = start(any_order(tmp_path, "batch = 5\n"))
    with host.connect(state=state) as stream:
        given = take_all(stream)
    host.end()
    assert {epoch for epoch, _, _ in given} == {1}
    assert sorted(row for _, _, batch in given for row in batch) == rows(sum(SIZES))
    inside = {**state, "delivered": 3, "batch": state["batch"] - 1, "epoch": 0}
    host = start(any_order(tmp_path, "batch = 5\n"))
    with pytest.raises(pipemill.Refused, match="no place inside of an epoch says what came"):
        host.connect(state=inside)


def test_a_consumer_can_not_ask_for_batches_of_objects_in_any_order(start, tmp_path):  # noqa: F811
    write_files(tmp_path, SIZES)
    host = start(any_order(tmp_path))
    with pytest.raises(pipemill.Refused, match="order = \"any\", which mixes the records"):
        host.connect(batch=4, batch_across="object")


def test_records_inside_of_records_of_one_long_tfrecord(start, tmp_path):  # noqa: F811
    """Records that contain whole TFRecord files: guesses inside one only cost time."""
    inner = b"".join(tfrecord(bytes([n % 251]) * (n % 70)) for n in range(2_200))
    with open(tmp_path / "a.tfrecord", "wb") as file:
        for n in range(100):
            file.write(tfrecord(inner + bytes([n])))
    read = lambda batch: [bytes(record) for record in batch["data"]]  # noqa: E731
    given = [sum(batches, []) for batches in of_one_and_three(start, tmp_path / "a.tfrecord", 'decoder = "tfrecord"\n', read)]
    assert given[0] == [inner + bytes([n]) for n in range(100)]
    assert given[1] == given[0]


def tar(samples):
    """An archive of samples: dicts of members by their names after the dot."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for number, sample in enumerate(samples):
            for name, data in sample.items():
                info = tarfile.TarInfo(f"{'long/' * (number % 40)}{number:06}.{name}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_archives_inside_of_one_long_archive(start, tmp_path):  # noqa: F811
    """The members of an archive that is itself a member look like samples too."""
    inner = tar({"bin": bytes([n]) * (37 * n), "cls": b"1"} for n in range(200))
    samples = [{"bin": inner if n % 3 == 0 else bytes(n % 700), "txt": b"text %d" % n} for n in range(60)]
    (tmp_path / "a.tar").write_bytes(tar(samples))
    decoder = 'decoder = "webdataset"\noptions = { fields = "bin,txt" }\n'
    read = lambda batch: [(bytes(b), bytes(t)) for b, t in zip(batch["bin"], batch["txt"])]  # noqa: E731
    given = [sum(batches, []) for batches in of_one_and_three(start, tmp_path / "a.tar", decoder, read)]
    assert given[0] == [(sample["bin"], sample["txt"]) for sample in samples]
    assert given[1] == given[0]


def test_sections_of_rows_without_a_header(start, tmp_path):  # noqa: F811
    """A section does not see the first row, which says how many numbers a row has."""
    count = 300_000
    (tmp_path / "a.csv").write_text("".join(f"{n},{n % 7}.25,{n % 3}e2,1,2,3,4,5,6,7,8,9\n" for n in range(count)))
    decoder = 'decoder = "csv"\noptions = { emit = "dense", label = "0" }\nbatch = 1000\n'
    given = of_one_and_three(start, tmp_path / "a.csv", decoder, lambda batch: (batch.number, bytes(batch["x"]), bytes(batch["y"])))
    assert given[0] == given[1]
    assert sum(len(y) // 4 for _, _, y in given[0]) == count
