"""Random access: record i of an index by its number is record i of its stream, or the same error."""

import gc
import gzip
import hashlib
import json
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
import threading

import pipemill
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from drift import case, core
from e2e import PATIENCE, patiently, recordio, run, tfrecord
from killing import hosts, kill_hosts

pytest.importorskip("numpy")


@pytest.fixture(autouse=True)
def _no_hosts_before():
    """Errors may keep what an earlier test has made."""
    gc.collect()
    kill_hosts()


def texts(seed, most=1200):
    numbers = random.Random(seed)
    return [f"{seed}-{row} {numbers.randbytes(numbers.randrange(100)).hex()}" for row in range(numbers.randrange(1, most))]


def csv(rows):
    return ("n,a,b\n" + "".join(f"{at},{row.split()[0]},{row}\n" for at, row in enumerate(rows))).encode()


TYPED = {"header": "true", "types": "n:int64,b:bytes"}
FORMATS = {
    "csv": (csv, TYPED),
    "csv.gz": (lambda rows: gzip.compress(csv(rows)), TYPED),
    "lines": (lambda rows: "".join(row + "\n" for row in rows).encode(), {}),
    "jsonl": (
        lambda rows: "".join(json.dumps({"a": row, **({"x": [1.5] * (at % 5)} if at % 3 else {})}) + "\n" for at, row in enumerate(rows)).encode(),
        {"fields": "a=/a:utf8,x=/x:float32[]?"},
    ),
    "tfrecord": (lambda rows: b"".join(tfrecord(row.encode()) for row in rows[:700]), {}),
    "recordio": (lambda rows: b"".join(recordio(row.encode()) for row in rows), {}),
}


def indexed(folder, format="csv", *options, objects=4, distance="4KiB"):
    """The index of a folder of some files."""
    (write, known), name = FORMATS[format], format.split(".")[0]
    data, index = folder / "data", folder / "x.index"
    data.mkdir(exist_ok=True)
    for seed in range(objects):
        (data / f"{seed}.{format}").write_bytes(write(texts(seed)))
    return made(data, index, name, known, *options, "--distance", distance)


def made(source, index, decoder, known, *options):
    named = [] if decoder is None else ["-d", decoder]
    more = [part for name, value in (known or {}).items() for part in ("-o", f"{name}={value}")]
    finished = run("index", source, "--out", index, *named, *more, *options)
    assert finished.returncode == 0, finished.stderr
    return index


def plain(record):
    """A record that can be compared: with its types."""
    return repr({name: (type(value), value.dtype, value.tolist()) if hasattr(value, "dtype") else value for name, value in record.items()})


def stream_of(index, **more):
    return list(map(plain, pipemill.cat(index, **more)))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("cache", ["64KiB", "256MiB"])
def test_record_i_is_record_i_of_the_stream(tmp_path, format, cache):
    index = indexed(tmp_path, format)
    expected, numbers = stream_of(index), random.Random(format)
    with pipemill.Dataset(index, cache=cache) as dataset:
        assert len(dataset) == len(expected) > 300
        every = numbers.sample(range(len(expected)), len(expected))
        assert list(map(plain, dataset[every])) == [expected[number] for number in every]
        for number in numbers.sample(range(-len(expected), len(expected)), 20):
            assert plain(dataset[number]) == expected[number]
        assert list(map(plain, dataset[5:60:7])) == expected[5:60:7]
        assert list(map(plain, dataset[[7, 3, 7]])) == [expected[7], expected[3], expected[7]]
        assert list(map(plain, dataset.__getitems__([1, 0]))) == expected[1::-1]
        assert list(map(plain, dataset)) == expected


def test_records_of_an_index_in_s3(bucket, tmp_path):  # noqa: F811
    data = tmp_path / "buckets/data/train"
    for path in data.iterdir():
        path.unlink()
    for seed in range(3):
        (data / f"{seed}.csv").write_bytes(csv(texts(seed)))
    (data / "3.csv.gz").write_bytes(gzip.compress(csv(texts(3, 9000))))
    index = made(bucket, tmp_path / "x.index", "csv", TYPED, "--distance", "8KiB")
    expected, numbers = stream_of(index), random.Random(1)
    every = numbers.sample(range(len(expected)), len(expected))
    with pipemill.Dataset(index) as dataset:
        assert list(map(plain, dataset[every])) == [expected[number] for number in every]
    (data / "1.csv").write_bytes(csv(texts(77)))
    with pipemill.Dataset(index) as dataset:
        assert plain(dataset[0]) == expected[0]
        with pytest.raises(pipemill.PipemillError, match="1.csv"):
            list(dataset)


@pytest.mark.parametrize("seed", range(24))
def test_drifting_sources(seed, tmp_path):
    one = case(seed)
    data, index = tmp_path / "data", tmp_path / "x.index"
    data.mkdir()
    named = ["-d", one.decoder] if one.decoder else []
    options = [part for name, value in (one.options or {}).items() for part in ("-o", f"{name}={value}")]
    finished = run("index", one.written(data), "--out", index, "--distance", "4KiB", *named, *options)
    if finished.returncode != 0:
        return
    expected, numbers = stream_of(index), random.Random(seed)
    with pipemill.Dataset(index) as dataset:
        assert len(dataset) == len(expected)
        every = numbers.sample(range(len(expected)), len(expected))
        assert list(map(plain, dataset[every])) == [expected[number] for number in every]
        with pipemill.open(index) as stream:
            assert dataset.fields == stream.fields


def test_numbers(tmp_path):
    import numpy

    dataset = pipemill.Dataset(indexed(tmp_path, objects=1))
    last = len(dataset) - 1
    assert plain(dataset[numpy.int64(last)]) == plain(dataset[-1]) == plain(dataset[last])
    assert list(map(plain, dataset[numpy.array([0, -1])])) == [plain(dataset[0]), plain(dataset[last])]
    assert dataset[[]] == dataset[last + 1 :] == []
    for beyond in (last + 1, -last - 2, [0, last + 1], 1 << 70):
        with pytest.raises(IndexError, match=f"a dataset with {last + 1} records"):
            dataset[beyond]
    for wrong in ("n", 1.5, None, [1.5], {"n": 1}):
        with pytest.raises(TypeError):
            dataset[wrong]
    with pytest.raises(TypeError, match="give it to the DataLoader"):
        pipemill.Dataset(tmp_path / "x.index", sampler=7)


def test_no_records_and_no_index(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/0.csv").write_text("a,b\n")
    empty = pipemill.Dataset(made(tmp_path / "data", tmp_path / "x.index", "csv", {"header": "true"}))
    assert len(empty) == 0 and list(empty) == [] and empty.fields == ()
    with pytest.raises(pipemill.RefusedError, match="only an index knows where records are"):
        pipemill.Dataset({"file": str(tmp_path / "data/0.csv")})
    for path in (tmp_path / "data/0.csv", tmp_path / "none.index"):
        with pytest.raises(pipemill.RefusedError, match=path.name):
            pipemill.Dataset(path)
    with pytest.raises(pipemill.RefusedError, match='`cache`: expected a size such as "4MiB"'):
        pipemill.Dataset(tmp_path / "x.index", cache="256")
    assert hosts() != [] and empty.close() is None and hosts() == []


def test_an_object_that_changed_is_refused_before_its_first_record(tmp_path):
    index = indexed(tmp_path)
    expected = stream_of(index)
    changed = tmp_path / "data/2.csv"
    first = sum(len(texts(seed)) for seed in range(2))
    time = changed.stat().st_mtime_ns
    changed.write_bytes(changed.read_bytes().replace(b"1", b"2"))
    os.utime(changed, ns=(time, time + 1))
    with pytest.raises(pipemill.PipemillError) as of_stream:
        stream_of(index)
    with pipemill.Dataset(index) as dataset:
        for _ in range(2):
            assert plain(dataset[first - 1]) == expected[first - 1]
            with pytest.raises(pipemill.RefusedError, match="has changed since the index") as found:
                dataset[[0, first]]
            assert core(found.value) == core(of_stream.value) and found.value.object == str(changed)


def test_an_error_is_that_of_the_stream(tmp_path):
    index, data = indexed(tmp_path, objects=2), tmp_path / "data"
    lines = (data / "1.csv").read_bytes().split(b"\n")
    for at in range(50, len(lines), 97):
        lines[at] = b"only one"
    (data / "1.csv").write_bytes(b"\n".join(lines))
    made(data, index, "csv", TYPED, "--distance", "4KiB", "--skip-errors")
    expected = stream_of(index, on_error="skip")
    with pipemill.Dataset(index, on_error="skip") as dataset:
        assert list(map(plain, dataset)) == expected
    with pytest.raises(pipemill.DecodeError) as of_stream:
        stream_of(index)
    with pipemill.Dataset(index) as dataset:
        with pytest.raises(pipemill.DecodeError) as found:
            list(dataset)
        assert core(found.value) == core(of_stream.value) and found.value.offset == of_stream.value.offset
        assert plain(dataset[0]) == expected[0]


def test_a_record_larger_than_the_cache(tmp_path):
    (tmp_path / "data").mkdir()
    large = [bytes([at]) * (1 << 20) for at in range(5)]
    (tmp_path / "data/0.tfrecord").write_bytes(b"".join(map(tfrecord, large)))
    index = made(tmp_path / "data", tmp_path / "x.index", "tfrecord", {}, "--distance", "4KiB")
    for distance in ("4KiB", "1GiB"):
        made(tmp_path / "data", index, "tfrecord", {}, "--distance", distance)
        with pipemill.Dataset(index, cache="64KiB") as dataset:
            for order in ([3], [4, 0, 4, 2], [0, 1, 2, 3, 4]):
                assert [list(record.values()) for record in dataset[order]] == [[large[number]] for number in order]


@pytest.mark.parametrize("distance, cache", [("1GiB", "1MiB"), ("1GiB", "16MiB"), ("256KiB", "1MiB"), ("256KiB", "16MiB")])
def test_the_memory_of_the_host_has_a_limit(tmp_path, distance, cache):
    (tmp_path / "data").mkdir()
    for number in range(20):
        values = (bytes([number, row % 251]) * 4000 for row in range(1000))
        (tmp_path / f"data/{number:02}.recordio").write_bytes(b"".join(map(recordio, values)))
    index = made(tmp_path / "data", tmp_path / "x.index", "recordio", {}, "--distance", distance)
    dataset, numbers = pipemill.Dataset(index, cache=cache, workers=1), random.Random(1)
    for _ in range(4):
        some = numbers.sample(range(20_000), 100)
        found = [next(iter(record.values())) for record in dataset[some]]
        expected = [bytes([number // 1000, number % 1000 % 251]) * 4000 for number in some]
        # Without a comparison of megabytes in the report.
        assert [at for at in range(100) if found[at] != expected[at]] == []
    status = pathlib.Path(f"/proc/{dataset._reading.host().pid}/status").read_text()
    [most] = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
    # The objects have 160 MB, of which each pass decodes nearly all.
    assert most < 110 << 10


def test_a_batch_is_a_view_that_stays(tmp_path):
    import numpy

    dataset = pipemill.Dataset(indexed(tmp_path))
    batch = dataset.batch([7, 3, 7])
    numbers, values = batch["n"], batch["b"]
    assert [record["n"] for record in dataset[[7, 3, 7]]] == numbers.tolist() == [7, 3, 7]
    assert not numbers.flags.writeable and [bytes(value) for value in values] == [record["b"] for record in dataset[[7, 3, 7]]]
    writable = numpy.from_dlpack(batch.dlpack("n"))
    assert writable.tolist() == [7, 3, 7]
    kill_hosts()
    assert numbers.tolist() == [7, 3, 7]
    dataset.close()
    batch.release()
    assert numbers.tolist() == [7, 3, 7]
    for wrong in ([], range(70_000)):
        with pytest.raises((ValueError, IndexError)):
            dataset.batch(wrong)


def test_no_view_shows_another_answer(tmp_path):
    dataset = pipemill.Dataset(indexed(tmp_path), fields=["n"])
    every, kept, numbers = [record["n"] for record in dataset], [], random.Random(5)
    for turn in range(200):
        some = numbers.sample(range(len(every)), 40)
        expected, values = [every[number] for number in some], dataset.batch(some)["n"]
        kept.append((expected[1:], values[1:]) if turn % 3 == 0 else (expected, values))
        if len(kept) > 5:
            kept.pop(numbers.randrange(5))
        if turn % 50 == 49 and os.fork() == 0:
            os._exit(len([expected for expected, values in kept if values.tolist() != expected]))
        del values
        assert [expected for expected, values in kept if values.tolist() != expected] == []
    for _ in range(4):
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
    maps = pathlib.Path(f"/proc/{dataset._reading.host().pid}/maps").read_text()
    assert maps.count("pipemill:access") <= 6


def test_a_forked_child_keeps_the_answers_of_its_parent(tmp_path):
    dataset = pipemill.Dataset(indexed(tmp_path), fields=["n"])
    values = dataset.batch([7, 3])["n"]
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(values.tolist() != [7, 3])
    os.read(ready[0], 1)
    del values
    for number in range(20):
        assert dataset.batch([number, 5])["n"].tolist() == [number, 5]
    os.write(go[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_killed_host_is_said_and_the_next_access_starts_another(tmp_path):
    dataset = pipemill.Dataset(indexed(tmp_path))
    expected = plain(dataset[5])
    assert kill_hosts() == 1
    with pytest.raises(pipemill.HostDied, match="SIGKILL"):
        dataset[5]
    assert plain(dataset[5]) == expected
    dataset.close()
    assert plain(dataset[5]) == expected and len(hosts()) == 1


def test_another_index_is_not_taken_for_the_first(tmp_path):
    index = indexed(tmp_path)
    dataset = pipemill.Dataset(index)
    dataset.close()
    indexed(tmp_path, objects=5)
    assert len(pipemill.Dataset(index)) > len(dataset)
    with pytest.raises(pipemill.StateError, match="replaced by another one"):
        dataset[0]


PROGRAM = """
import os, sys, pipemill
dataset = pipemill.Dataset(sys.argv[1])
dataset[0]
pid = os.fork() if sys.argv[2] == "fork" else 0
if pid == 0:
    dataset[1]
    print(dataset._reading.host().pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["alone", "fork"])
def test_nothing_is_left_of_a_program_that_is_killed(tmp_path, how):
    index = indexed(tmp_path)
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, index, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    host = int(program.stdout.readline())
    assert "--owner" in pathlib.Path(f"/proc/{host}/cmdline").read_text()
    if how == "alone":
        program.kill()
    else:
        os.killpg(program.pid, signal.SIGKILL)
    patiently(lambda: not pathlib.Path(f"/proc/{host}/exe").exists())
    assert program.wait(PATIENCE) == -signal.SIGKILL
    program.stdin.close()
    program.stdout.close()


def taken(dataset, numbers, sender):
    sender.send((list(map(plain, dataset[numbers])), len(dataset), hosts()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_have_hosts_of_their_own(tmp_path, method):
    import multiprocessing

    index = indexed(tmp_path)
    expected, context = stream_of(index), multiprocessing.get_context(method)
    dataset = pipemill.Dataset(index, cache="1MiB").subset(range(10, 300))
    own = hosts()
    assert len(own) == 1
    receiver, sender = context.Pipe(False)
    children = [context.Process(target=taken, args=(dataset, [child, 20, 5], sender)) for child in range(3)]
    for child in children:
        child.start()
    numbers, seen = random.Random(3), set()
    for _ in children:
        number = numbers.randrange(len(dataset))
        assert plain(dataset[number]) == expected[10 + number]
        records, length, started = receiver.recv()
        assert length == 290 and records[1:] == [expected[30], expected[15]] and records[0] in expected[10:13]
        seen.update(started)
    for child in children:
        child.join(PATIENCE)
        assert child.exitcode == 0
    assert hosts() == own and len(seen - set(own)) == 3
    for host in seen - set(own):
        patiently(lambda: not pathlib.Path(f"/proc/{host}/exe").exists())  # noqa: B023
    again = pickle.loads(pickle.dumps(dataset))
    assert list(map(plain, again[:5])) == expected[10:15]


def test_threads_use_one_dataset_at_once(tmp_path):
    index = indexed(tmp_path)
    expected, dataset, wrong = stream_of(index), pipemill.Dataset(index, cache="64KiB"), []
    dataset.close()

    def take(seed):
        numbers = random.Random(seed)
        for _ in range(20):
            some = numbers.sample(range(len(expected)), 30)
            if list(map(plain, dataset[some])) != [expected[number] for number in some]:
                wrong.append(some)

    threads = [threading.Thread(target=take, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert wrong == [] and len(hosts()) == 1


def test_subsets(tmp_path):
    index = indexed(tmp_path)
    expected, dataset = stream_of(index), pipemill.Dataset(index)
    count = len(expected)
    for keys, chosen in (
        (range(5, 50, 3), range(5, 50, 3)),
        (range(9, -1, -1), range(9, -1, -1)),
        (slice(-20, None), range(count - 20, count)),
        ([3, 1, 3], [3, 1, 3]),
        ([range(3), 7, range(20, 25)], [0, 1, 2, 7, 20, 21, 22, 23, 24]),
    ):
        subset = dataset.subset(keys)
        assert len(subset) == len(chosen)
        assert list(map(plain, subset)) == [expected[number] for number in chosen]
        assert plain(subset[-1]) == expected[chosen[-1]]
        twice = subset.subset([1, 0])
        assert list(map(plain, twice)) == [expected[chosen[1]], expected[chosen[0]]]
    assert len(hosts()) == 1
    with pytest.raises(IndexError):
        dataset.subset([count])
    with pytest.raises(IndexError):
        dataset.subset(range(count - 1, count + 1))


def test_splits(tmp_path):
    dataset = pipemill.Dataset(indexed(tmp_path))
    train, test = dataset.split([0.8, 0.2], seed=7)
    numbers = [list(part._numbers) for part in (train, test)]
    assert sorted(numbers[0] + numbers[1]) == list(range(len(dataset)))
    assert all(part == sorted(part) for part in numbers)
    assert 0.6 < len(train) / len(dataset) < 0.95
    assert numbers[1][:5] == FIRST_OF_SPLIT
    again = dataset.split([0.8, 0.2], seed=7)[1]
    assert list(again._numbers) == numbers[1] != list(dataset.split([0.8, 0.2], seed=8)[1]._numbers)
    of_part = dataset.subset(range(100)).split([0.8, 0.2], seed=7)[1]
    assert list(of_part._numbers) == [number for number in numbers[1] if number < 100]
    assert plain(test[0]) == plain(dataset[numbers[1][0]])
    assert [len(part) for part in dataset.split([0.0, 1.0])] == [0, len(dataset)]
    for wrong in ([], [0.5], [1.5, -0.5], [float("nan"), 1]):
        with pytest.raises(ValueError, match="whose sum is 1"):
            dataset.split(wrong)
    for wrong in (-1, 1 << 64):
        with pytest.raises(ValueError, match="seed="):
            dataset.split([1.0], seed=wrong)


#: A split never changes: the first records of the second part of 0.8 and 0.2 with seed 7.
FIRST_OF_SPLIT = [6, 11, 13, 14, 26]


def test_fields(tmp_path):
    dataset = pipemill.Dataset(indexed(tmp_path), fields=["b", "n"])
    assert [field.name for field in dataset.fields] == ["b", "n"]
    whole = pipemill.Dataset(tmp_path / "x.index")[3]
    assert list(dataset[3].items()) == [("b", whole["b"]), ("n", whole["n"])]
    assert list(pipemill.Dataset(tmp_path / "x.index", fields="n")[3]) == ["n"]
    assert [field.name for field in dataset.batch([0]).fields] == ["b", "n"]
    with pytest.raises(pipemill.RefusedError, match="no field `z`; they have `n`, `a`, `b`"):
        pipemill.Dataset(tmp_path / "x.index", fields="z")
    for wrong in ([], ["n", "n"]):
        with pytest.raises(ValueError, match="expected different names"):
            pipemill.Dataset(tmp_path / "x.index", fields=wrong)


def test_files_that_were_moved(tmp_path, monkeypatch):
    index = indexed(tmp_path)
    expected = stream_of(index)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data").rename(tmp_path / "elsewhere/data")
    monkeypatch.chdir(tmp_path)
    dataset = pipemill.Dataset("x.index", root="elsewhere/data")
    monkeypatch.chdir("/")
    dataset.close()
    assert list(map(plain, dataset[:10])) == expected[:10]


@pytest.mark.parametrize("cache", ["4KiB", "1MiB"])
def test_an_answer_has_the_records_that_fit(tmp_path, cache):
    index = indexed(tmp_path)
    expected, dataset = stream_of(index), pipemill.Dataset(index, cache=cache)
    dataset.close()
    dataset._reading._words.append("--answer=3KiB")
    numbers = random.Random(2).sample(range(len(expected)), 500)
    assert list(map(plain, dataset[numbers])) == [expected[number] for number in numbers]
    with pytest.raises(pipemill.LimitError, match="500 records in one batch: the first [0-9]+ of them fill the memory"):
        dataset.batch(numbers)
    dataset.close()
    dataset._reading._words[-1] = "--answer=1B"
    assert list(map(plain, dataset[numbers[:9]])) == [expected[number] for number in numbers[:9]]


def test_an_access_that_is_interrupted_leaves_no_answer_for_the_next(tmp_path, monkeypatch):
    from pipemill.access_host import AccessHost

    def interrupted(self):
        raise KeyboardInterrupt

    dataset = pipemill.Dataset(indexed(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(AccessHost, "_receive_head", interrupted)
        with pytest.raises(KeyboardInterrupt):
            dataset[1]
    assert [record["n"] for record in dataset[[7, 3]]] == [7, 3] and len(hosts()) == 1


def test_what_a_client_asks_is_checked(tmp_path):
    dataset = pipemill.Dataset(indexed(tmp_path))
    host = dataset._reading.host()
    with pytest.raises(pipemill.RefusedError, match=f"record {len(dataset)} was asked for, and there are {len(dataset)}"):
        host.batch([0, len(dataset)])
    with pytest.raises(pipemill.RefusedError, match="was asked for"):
        host.batch([(1 << 64) - 1])
    assert len(host.batch([0])) == 1
    host._dead.extend([0, 0, 77, (1 << 64) - 1] * 200)
    assert [host.batch([number])["n"].tolist() for number in range(9)] == [[number] for number in range(9)]
    for records, given_back in ((0, 0), (0, 1), ((1 << 16) + 1, 0), (1, 1025), ((1 << 32) - 1, (1 << 32) - 1)):
        host = dataset._reading.host()
        host._sock.sendall(records.to_bytes(4, "little") + given_back.to_bytes(4, "little"))
        with pytest.raises(pipemill.HostDied, match="exit status"):
            host.batch([0])
    assert plain(dataset[0]) == plain(dataset[-len(dataset)])


def users(folder, format):
    """An index of records of 60 users, and the user of each record."""
    data, numbers = folder / "data", random.Random(3)
    data.mkdir()
    rows = [(numbers.choice(["", *(f"user {user}" for user in range(60))]), at) for at in range(3000)]
    for part in range(3):
        some = rows[part * 1000 : part * 1000 + 1000]
        if format == "csv":
            text = "user,at,v\n" + "".join(f"{user},{at},{user}\n" for user, at in some)
        else:
            text = "".join(json.dumps({"at": at, "v": [len(user), 7], **({"user": user} if user else {})}) + "\n" for user, at in some)
        (data / f"{part}.{format}").write_text(text)
    known = {"csv": {"header": "true", "types": "at:int64"}, "jsonl": {"fields": "user=/user:utf8?,at=/at:int32,v=/v:int64[2]"}}[format]
    return made(data, folder / "x.index", format, known, "--distance", "4KiB"), [user for user, _ in rows]


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_a_split_by_a_field_keeps_the_records_of_one_value_together(tmp_path, format):
    index, user = users(tmp_path, format)
    dataset = pipemill.Dataset(index)
    train, test = dataset.split([0.7, 0.3], seed=7, by="user")
    numbers = [list(part._numbers) for part in (train, test)]
    assert sorted(numbers[0] + numbers[1]) == list(range(3000)) and all(part == sorted(part) for part in numbers)
    sides = [{user[number] for number in part} for part in numbers]
    assert not sides[0] & sides[1] and len(sides[0] | sides[1]) == 61
    # An absent value is as an empty one; a split by text is the same for each format, and never changes.
    assert sides[1] == {user for user in sides[0] | sides[1] if mixed(mixed(7) ^ hash_of(user)) >= round(0.7 * 2**64)}
    assert sorted(sides[1])[:4] == FIRST_OF_SIDE
    again = pipemill.Dataset(index, fields="at", workers=1, cache="64KiB").split([0.7, 0.3], seed=7, by="user")
    assert [list(part._numbers) for part in again] == numbers
    assert [record["at"] for record in again[1][:20]] == numbers[1][:20]
    assert list(dataset.split([0.7, 0.3], seed=8, by="user")[1]._numbers) != numbers[1]
    some = random.Random(1).sample(range(3000), 500)
    of_part = dataset.subset(some).split([0.7, 0.3], seed=7, by="user")
    assert [list(part._numbers) for part in of_part] == [[number for number in some if number in set(part)] for part in numbers]
    for by in ("at", "v", "__index__"):
        parts = dataset.split([0.5, 0.5], by=by)
        assert len(parts[0]) + len(parts[1]) == 3000 and 0 < len(parts[0])
    assert len(dataset.split([1.0], by="user")[0]) == 3000 and len(hosts()) == 2


def test_a_split_by_objects(tmp_path):
    index, _ = users(tmp_path, "csv")
    dataset = pipemill.Dataset(index)
    for seed in range(5):
        parts = dataset.split([0.5, 0.5], seed=seed, by="__object__")
        assert [len(part) % 1000 for part in parts] == [0, 0]
        assert {number // 1000 for number in parts[0]._numbers}.isdisjoint(number // 1000 for number in parts[1]._numbers)
    assert list(dataset[0]) == ["user", "at", "v"]
    with pytest.raises(pipemill.RefusedError, match="no field `z`; they have `user`, `at`, `v`"):
        dataset.split([0.5, 0.5], by="z")
    with pytest.raises(ValueError, match="whose sum is 1"):
        dataset.split([0.5], by="user")
    (tmp_path / "data/0.csv").write_text("user,at,v\n1,2,3\n")
    with pytest.raises(pipemill.RefusedError, match="has changed since the index"):
        dataset.split([0.5, 0.5], by="user")
    made(tmp_path / "data", index, "csv", {"header": "true"})
    with pytest.raises(pipemill.StateError, match="replaced by another one"):
        dataset.split([0.5, 0.5], by="user")


def hash_of(text):
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def mixed(value):
    """SplitMix64, as its page has it."""
    z = (value + 0x9E3779B97F4A7C15) % 2**64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return z ^ (z >> 31)


#: A split never changes: the first users of the second part of 0.7 and 0.3 with seed 7.
FIRST_OF_SIDE = ["user 10", "user 14", "user 2", "user 20"]
