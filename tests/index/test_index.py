"""An index instead of a source: the same records, with a known length; changed data is refused before a record of it comes."""

import json
import os
import resource
import shutil
import subprocess

import pipemill
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from drift import rows_of
from e2e import PATIENCE, PIPEMILL, run, tfrecord


def made(source, index, *options):
    """The index of a source, and what the command says."""
    finished = run("index", source, "--out", index, "--distance", "4KiB", *options)
    assert finished.returncode == 0, finished.stderr
    return finished.stderr.decode()


def read(source, **more):
    with pipemill.open(source, timeout=PATIENCE, **more) as stream:
        return [row for batch in stream for row in rows_of(batch)]


@pytest.fixture
def data(tmp_path):
    """A folder of three files of different lengths, one of them compressed, and one without a row."""
    folder = tmp_path / "data"
    folder.mkdir()
    for number, count in enumerate((700, 0, 1500, 90)):
        text = "a,b\n" + "".join(f"{number * 10_000 + row},{'x' * (row % 50)}\n" for row in range(count))
        (folder / f"{number}.csv").write_text(text)
    return folder


RECORDS = 2290


def refused(source, *texts, **more):
    with pytest.raises(pipemill.PipemillError) as caught:
        read(source, **more)
    for text in texts:
        assert text in str(caught.value)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"workers": 3},
        {"batch": 100, "shuffle": 7},
        {"batch": 100, "shuffle": {"seed": 3, "window": 500}, "workers": 2},
        {"rank": (1, 2)},
        {"batch": 64, "rank": (0, 3), "shuffle": 5},
    ],
    ids=str,
)
def test_the_records_are_those_of_the_source(data, tmp_path, how):
    index = tmp_path / "train.index"
    assert "2,290 records in 4 objects" in made(data, index)
    assert read(index, **how) == read(data, **how)


def test_the_fields_are_those_of_the_index_and_not_of_the_first_object(data, tmp_path):
    """What was learned is not learned again: the first object that this rank reads has other types."""
    (data / "0.csv").write_text("a,b\n" + "7.5,x\n" * 40)
    (data / "1.csv").write_text("a,b\n" + "7,x\n" * 40)
    index = tmp_path / "train.index"
    made(data, index)
    with pipemill.open(index, rank=(1, 2), timeout=PATIENCE) as stream:
        assert [field.scalar for field in stream.fields] == ["float64", "utf8"]


LENGTHS = [
    (tail, across, batch) for tail in ("keep", "drop", "pad") for across in ("epoch", "object") for batch in (1, 64, 1000)
]


@pytest.mark.parametrize("tail, across, batch", LENGTHS)
def test_the_length_is_that_of_an_epoch(data, tmp_path, tail, across, batch):
    index = tmp_path / "train.index"
    made(data, index)
    with pipemill.open(index, batch=batch, tail=tail, batch_across=across, epochs=2, timeout=PATIENCE) as stream:
        assert stream.records == RECORDS
        for epoch in stream.epochs():
            assert sum(1 for _ in epoch) == stream.batches
    with pipemill.open(data, batch=batch, timeout=PATIENCE) as stream:
        assert stream.records is None and stream.batches is None


@pytest.mark.parametrize("tail", ["keep", "drop", "pad"])
def test_the_length_of_each_part(data, tmp_path, tail):
    index = tmp_path / "train.index"
    made(data, index)
    streams = [pipemill.open(index, batch=50, tail=tail, rank=(rank, 3), timeout=PATIENCE) for rank in range(3)]
    lengths = [stream._connection.welcome.length for stream in streams]
    assert sum(length.records for length in lengths) == RECORDS
    for stream, length in zip(streams, lengths):
        with stream:
            assert stream.batches == length.batches
            assert length.least == min(one.batches for one in lengths)
            if length.records:
                assert sum(1 for _ in stream) == length.batches


def test_an_epoch_of_shuffled_parts_has_no_length_of_all_epochs(data, tmp_path):
    index = tmp_path / "train.index"
    made(data, index)
    with pipemill.open(index, batch=50, shuffle=1, rank=(0, 3), timeout=PATIENCE) as stream:
        assert stream.records is None and stream.batches is None


def grow(data):
    with open(data / "2.csv", "a") as file:
        file.write("1,x\n")


def rewrite(data):
    text = (data / "2.csv").read_text()
    (data / "2.csv").write_text(text.replace("20001,", "20009,"))


def remove(data):
    (data / "2.csv").unlink()


def swap(data):
    os.rename(data / "2.csv", data / "x")
    os.rename(data / "0.csv", data / "2.csv")
    os.rename(data / "x", data / "0.csv")


@pytest.mark.parametrize("change", [grow, rewrite, remove, swap])
def test_an_object_that_has_changed_is_refused_before_its_first_record(data, tmp_path, change):
    index = tmp_path / "train.index"
    made(data, index)
    before = read(index)
    change(data)
    refused(index, "0.csv" if change is swap else "2.csv")
    records = []
    with pytest.raises(pipemill.PipemillError):
        with pipemill.open(index, timeout=PATIENCE) as stream:
            for batch in stream:
                records += rows_of(batch)
    assert records == ([] if change is swap else before[:700])
    checked = run("index", "check", index)
    assert checked.returncode == 65
    assert b"2.csv: " in checked.stdout


def test_a_copy_a_touched_and_a_moved_folder_are_the_same(data, tmp_path):
    index = tmp_path / "train.index"
    made(data, index)
    expected = read(index)
    os.utime(data / "0.csv", (1, 1))
    assert read(index) == expected
    assert run("index", "check", index).returncode == 0
    shutil.copytree(data, tmp_path / "copy")
    shutil.rmtree(data)
    refused(index, "0.csv", "can't open it")
    assert read({"index": str(index), "root": str(tmp_path / "copy")}) == expected
    assert run("index", "check", index, "--root", tmp_path / "copy").returncode == 0


def test_a_new_object_is_not_read_and_the_check_names_it(data, tmp_path):
    index = tmp_path / "train.index"
    made(data, index)
    expected = read(index)
    (data / "9.csv").write_text("a,b\n1,x\n")
    assert read(index) == expected
    checked = run("index", "check", index)
    assert (checked.returncode, checked.stdout) == (65, f"{data}/9.csv: is new\n".encode())


def test_another_decoder_and_other_options_are_refused(data, tmp_path):
    index = tmp_path / "train.index"
    made(data, index, "-d", "csv", "-o", "header=true")
    refused(index, "the index", "was made with the decoder csv", decoder="lines")
    refused(index, "`options`", "the index", decoder="csv", options={"header": "false"})
    made(data, index, "--skip-errors")
    refused(index, "`max_record`", "64MiB", on_error="skip", max_record="1MiB")


def test_a_state_fits_an_index_of_the_same_data_and_no_other(data, tmp_path):
    one, other = tmp_path / "one.index", tmp_path / "other.index"
    made(data, one)
    expected = read(one)
    with pipemill.open(one, batch=100, timeout=PATIENCE) as stream:
        for _ in range(9):
            next(stream)
        state = json.loads(json.dumps(stream.state_dict()))
    made(data, other, "--workers", "2")
    rest = read(other, batch=100, state=state)
    assert rest == expected[900:]
    (data / "0.csv").write_text("a,b\n1,x\n")
    made(data, other)
    refused(other, "objects", batch=100, state=state)


def test_errors_that_are_skipped_are_counted_and_the_length_is_right(data, tmp_path):
    lines = (data / "2.csv").read_text().splitlines()
    for row in (20, 700, 701):
        lines[row] = "no number,x"
    (data / "2.csv").write_text("\n".join(lines) + "\n")
    index = tmp_path / "train.index"
    failed = run("index", data, "--out", index)
    assert failed.returncode == 65 and b"2.csv" in failed.stderr and not index.exists()
    made(data, index, "--skip-errors")
    with pipemill.open(index, on_error="skip", timeout=PATIENCE) as stream:
        assert sum(len(batch) for batch in stream) == stream.records == RECORDS - 3
    shown = run("index", "show", index).stdout.decode()
    assert "errors   3 skipped" in shown and "records  2,287" in shown


def test_objects_in_s3_are_pinned_to_what_was_indexed(bucket, tmp_path):  # noqa: F811
    index = tmp_path / "train.index"
    made(bucket, index, "-d", "lines")
    expected = read(bucket, decoder="lines")
    assert read(index) == expected and len(expected) == 8
    assert read(index, workers=2, shuffle=3, rank=(0, 2)) == read(bucket, decoder="lines", workers=2, shuffle=3, rank=(0, 2))
    assert run("index", "check", index).returncode == 0
    (tmp_path / "buckets/data/train/c.txt").write_text("C1\nC2\n")
    refused(index, "c.txt")
    checked = run("index", "check", index)
    assert checked.returncode == 65 and b"c.txt: was etag" in checked.stdout


def test_a_failed_index_leaves_the_older_one(data, tmp_path):
    index = tmp_path / "train.index"
    made(data, index)
    before = index.read_bytes()
    (data / "2.csv").write_text("a,b\n1,x\n2,x,y\n")
    assert run("index", data, "--out", index).returncode == 65
    assert index.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["data", "train.index"]


def test_standard_input_and_pipes_have_no_index(tmp_path):
    finished = run("index", "-", "-d", "lines", "--out", tmp_path / "x.index", stdin=b"a\nb\n")
    assert finished.returncode == 65
    assert b"can be read only once" in finished.stderr


def test_an_update_reads_only_what_has_changed(data, tmp_path):
    index, again = tmp_path / "train.index", tmp_path / "again.index"
    large = data / "8.csv"
    large.write_text("a,b\n" + "".join(f"{row},{'y' * 50}\n" for row in range(100_000, 108_000)))
    made(data, index)
    rewrite(data)
    (data / "3.csv").unlink()
    (data / "9.csv").write_text("a,b\n7,x\n")
    # Of a large file, some blocks are compared. It is damaged between them, and nobody sees it who does not decode it.
    before, text = os.stat(large), large.read_text()
    large.write_text(text[:10_000] + "\n,,,,\n" + text[10_006:])
    assert large.stat().st_size == before.st_size
    os.utime(large, ns=(before.st_atime_ns, before.st_mtime_ns))
    finished = run("index", "--update", index, "--out", again)
    assert b"10,201 records in 5 objects" in finished.stderr, finished.stderr
    assert run("index", data, "--out", tmp_path / "fresh.index").returncode != 0
    large.write_text(text)
    assert read(again) == read(data)
    made(data, tmp_path / "fresh.index")
    shown = [run("index", "show", tmp_path / name).stdout.splitlines() for name in ("again.index", "fresh.index")]
    assert shown[0][-1] == shown[1][-1] and shown[0][-1].startswith(b"digest")
    # In place, with nothing to read.
    assert run("index", "--update", again).returncode == 0
    assert read(again) == read(data)


def test_an_update_keeps_decoder_options_and_fields(data, tmp_path):
    index = tmp_path / "train.index"
    made(data, index, "-d", "csv", "-o", "header=true", "-o", "types=a:int64,b:utf8")
    (data / "9.csv").write_text("a,b\nno number,x\n")
    failed = run("index", "--update", index)
    assert failed.returncode == 65 and b"9.csv" in failed.stderr
    (data / "9.csv").write_text("a,b\n5,x\n")
    assert run("index", "--update", index).returncode == 0
    with pipemill.open(index, timeout=PATIENCE) as stream:
        assert stream.records == RECORDS + 1
    assert run("index", "--update", index, "-d", "csv").returncode == 64
    assert run("index", "--update", tmp_path / "none.index").returncode == 66


def test_parts_are_merged_to_the_index_of_the_whole(data, tmp_path):
    """Each part learns from the first objects of all: a part alone would learn other types."""
    (data / "0.csv").write_text("a,b\n" + "7.5,x\n" * 40)
    (data / "9.csv").write_text("a,b\n7,x\n")
    whole, merged = tmp_path / "whole.index", tmp_path / "merged.index"
    made(data, whole)
    parts = [tmp_path / f"{number}.index" for number in range(3)]
    for number, part in enumerate(parts):
        made(data, part, "--part", f"{number}/3")
    for order in (parts, parts[::-1]):
        finished = run("index", "merge", *order, "--out", merged)
        assert finished.returncode == 0, finished.stderr
        assert read(merged) == read(data)
        shown = [run("index", "show", one).stdout.splitlines() for one in (merged, whole)]
        assert shown[0][-1] == shown[1][-1] and shown[0][-1].startswith(b"digest")
    for wrong, why in [
        (parts[:2], b"part 2 of 3 is missing"),
        ([*parts, parts[0]], b"part 0 of 3 is there twice"),
        ([whole], b"not of a part"),
    ]:
        finished = run("index", "merge", *wrong, "--out", merged)
        assert finished.returncode == 65 and why in finished.stderr
    (data / "91.csv").write_text("a,b\n7,x\n")
    (data / "92.csv").write_text("a,b\n7,x\n")
    made(data, parts[2], "--part", "2/3")
    finished = run("index", "merge", *parts, "--out", merged)
    assert finished.returncode == 65 and b"listed at different times" in finished.stderr


def lengths(index):
    """What is known of the values of the field `a`."""
    shown = run("index", "show", index).stdout.decode().splitlines()
    [line] = [line for line in shown if line.startswith("field    a ")]
    return line.removeprefix("field    a  utf8  ")


def test_lengths_of_parts_and_objects_without_a_value(tmp_path):
    """A part, or an older index, in which no record has the field does not make its shortest value empty."""
    data, known = tmp_path / "data", ["-d", "jsonl", "-o", "fields=/a:utf8?"]
    data.mkdir()
    without, values, empty = '{"b": 1}\n' * 3, '{"a": "seven b"}\n{"a": "five5"}\n', '{"a": ""}\n'
    (data / "0.jsonl").write_text(without)
    (data / "1.jsonl").write_text(values)
    whole, merged, old = tmp_path / "whole.index", tmp_path / "merged.index", tmp_path / "old.index"
    parts = [tmp_path / f"{part}.index" for part in range(2)]
    for part, index in enumerate(parts):
        made(data, index, *known, "--part", f"{part}/2")
    assert [lengths(index) for index in parts] == ["0 bytes, null in 3", "5 to 7 bytes"]
    for order in (parts, parts[::-1]):
        assert run("index", "merge", *order, "--out", merged).returncode == 0
        made(data, whole, *known)
        assert lengths(merged) == lengths(whole) == "5 to 7 bytes, null in 3"
    # An update, of an index without a value, with new objects that have some.
    (data / "1.jsonl").unlink()
    made(data, old, *known)
    for added, shown in ((values, "5 to 7 bytes, null in 3"), (empty, "0 to 7 bytes, null in 3"), (without, "0 to 7 bytes, null in 6")):
        (data / f"{len(list(data.iterdir()))}.jsonl").write_text(added)
        assert run("index", "--update", old).returncode == 0
        assert lengths(old) == shown
    # Empty values are values.
    for path in data.iterdir():
        path.unlink()
    (data / "0.jsonl").write_text(empty)
    (data / "1.jsonl").write_text(values)
    for part, index in enumerate(parts):
        made(data, index, *known, "--part", f"{part}/2")
    assert run("index", "merge", *parts, "--out", merged).returncode == 0
    assert lengths(merged) == "0 to 7 bytes"


@pytest.mark.parametrize("how", [{"workers": 2}, {"shuffle": {"seed": 7, "blocks": "1MiB", "shards": 4}}])
def test_slots_fit_batches_of_an_index(tmp_path, how):
    """The index knows the lengths of all values, so no record is decoded before the slots are made."""
    (tmp_path / "data").mkdir()
    for number in range(3):
        records = [bytes([number]) * 100_000 for _ in range(100)]
        (tmp_path / f"data/{number}.tfrecord").write_bytes(b"".join(map(tfrecord, records)))
    index = tmp_path / "x.index"
    assert run("index", tmp_path / "data", "--out", index, "--distance", "1MiB").returncode == 0
    with pipemill.open(index, batch=128, timeout=PATIENCE, **how) as stream:
        assert 128 * 100_000 < stream._connection.welcome.slot_bytes < 2 * 128 * 100_000
        assert sum(len(batch) for batch in stream) == 300


@pytest.fixture
def written(tmp_path):
    """An index of 2,000 files in a folder of its own, and the words that make it again, with other data."""
    data, index = tmp_path / "data", tmp_path / "out/x.index"
    data.mkdir()
    index.parent.mkdir()
    for number in range(2000):
        (data / f"{number}.txt").write_text(f"{number}\n")
    words = ["index", data, "--out", index, "-d", "lines"]
    assert run(*words).returncode == 0
    assert index.stat().st_size > 8192 and index.stat().st_mode & 0o777 == 0o666 & ~umask()
    (data / "0.txt").write_text("more\nrows\n")
    return index, words


def test_a_full_disk_leaves_the_older_index_and_nothing_else(written):
    index, words = written
    before = index.read_bytes()
    limit = (resource.RLIMIT_FSIZE, (4096, 4096))
    full = run(*words, preexec_fn=lambda: resource.setrlimit(*limit))
    assert full.returncode != 0 and b"x.index: can't be written" in full.stderr and b"File too large" in full.stderr
    assert list(index.parent.iterdir()) == [index] and index.read_bytes() == before
    assert run(*words).returncode == 0 and index.read_bytes() != before


def test_a_command_that_is_killed_leaves_an_index_and_nothing_else(written):
    """It is killed once it has opened a file in the folder of the index, or has ended before that was seen."""
    index, words = written
    for _ in range(5):
        child = subprocess.Popen([PIPEMILL, *map(str, words)], stderr=subprocess.DEVNULL)
        while child.poll() is None and not writes_in(index.parent, child.pid):
            pass
        child.kill()
        child.wait()
        assert list(index.parent.iterdir()) == [index]
        assert run("index", "show", index).returncode == 0


def writes_in(folder, pid):
    try:
        files = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")]
    except OSError:
        return False
    return any(file.startswith(f"{folder}/") for file in files)


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_an_index_is_made_from_python(tmp_path):
    (tmp_path / "data").mkdir()
    for number in range(3):
        (tmp_path / f"data/{number}.csv").write_text(f"a,b\n{number},x\n")
    index, parts = tmp_path / "x.index", [tmp_path / f"{part}.index" for part in range(2)]
    how = {"options": {"header": True, "types": "auto"}}
    pipemill.index(tmp_path / "data", index, "csv", **how, workers=1, distance="1MiB")
    assert [row["a"] for row in pipemill.cat(index)] == [0, 1, 2]
    (tmp_path / "data/3.csv").write_text("a,b\n3,y\n4\n")
    with pytest.raises(pipemill.DecodeError, match="3.csv"):
        pipemill.index(update=index)
    pipemill.index([tmp_path / "data"], index, "csv", **how, on_error="skip", max_errors=1)
    (tmp_path / "data/3.csv").write_text("a,b\n3,y\n4,z\n")
    pipemill.index(update=index)
    assert [row["a"] for row in pipemill.cat(index, on_error="skip")] == [0, 1, 2, 3, 4]
    for part, out in enumerate(parts):
        pipemill.index(tmp_path / "data", out, "csv", **how, part=(part, 2))
    assert run("index", "merge", *parts, "--out", tmp_path / "all.index").returncode == 0
    assert [row["a"] for row in pipemill.cat(tmp_path / "all.index")] == [0, 1, 2, 3, 4]
    with pytest.raises(pipemill.SourceError, match="nothing.csv"):
        pipemill.index(tmp_path / "nothing.csv", index)
    with pytest.raises(pipemill.HostError, match="distance"):
        pipemill.index(tmp_path / "data", index, distance="many")
    with pytest.raises(ValueError, match="on_error="):
        pipemill.index(tmp_path / "data", index, on_error="ignore")
