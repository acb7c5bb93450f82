"""A job that is killed resumes at the very next record."""

import gzip
import json
import os
import random
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from bucket import bucket  # noqa: F401
from e2e import PIPEMILL, finish, in_background, recordio, tfrecord
from hosts import channel as files
from hosts import start, take, take_all, write_files  # noqa: F401

PYTHON = os.environ.get("PIPEMILL_PYTHON", "python3")

#: Prints each batch, and then saves the state; after `batches` of them it waits to be killed.
TRAIN = """
import json, os, pipemill, sys, time
path, limit = sys.argv[1], int(sys.argv[2])
given = 0
with pipemill.connect("train") as stream:
    for epoch in stream.epochs():
        for batch in epoch:
            rows = [x if isinstance(x, str) else bytes(x).decode() for x in batch.records()]
            print(json.dumps([batch.number, batch.epoch, rows[:batch.valid]]), flush=True)
            with open(path + ".new", "w") as file:
                json.dump(stream.state_dict(), file)
            os.replace(path + ".new", path)
            given += 1
            if given == limit:
                print("wait", flush=True)
                time.sleep(1000)
        with open(path + ".new", "w") as file:
            json.dump(stream.state_dict(), file)
        os.replace(path + ".new", path)
print("end", flush=True)
"""


def run(tmp_path, config, limit, resume):
    """The batches of one run. It is killed after `limit` of them, or ends."""
    (tmp_path / "pipemill.toml").write_text(config)
    (tmp_path / "train.py").write_text(TRAIN)
    state = tmp_path / "state.json"
    words = ["--resume", str(state)] if resume else []
    command = [PIPEMILL, "run", *words, "--config", str(tmp_path / "pipemill.toml"), "--"]
    command += [PYTHON, str(tmp_path / "train.py"), str(state), str(limit)]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, text=True
    )
    batches, last = [], ""
    for line in child.stdout:
        last = line.strip()
        if last in ("wait", "end"):
            break
        batches.append(json.loads(line))
    if last == "wait":
        # The host starts alone, because the command dies with it.
        child.kill()
    log = child.communicate()[1]
    assert last in ("wait", "end"), log
    return batches, last == "end"


def with_kills(tmp_path, config, seed, before=lambda: None):
    """All batches of runs that are killed at random, and resumed."""
    chance = random.Random(seed)
    batches, ended, resume = [], False, False
    while not ended:
        before()
        more, ended = run(tmp_path, config, chance.randrange(1, 6), resume)
        batches += more
        resume = True
    return batches


def words(count):
    return [f"{n:05}" + "x" * (n % 7) for n in range(count)]


def channel(source, decoder="lines", more=""):
    return (
        f'[[channel]]\nname = "train"\nsource = {{ {source} }}\ndecoder = "{decoder}"\nbatch = 7\n'
        f"{more}\n[channel.ring]\nslot_size = \"64KiB\"\n"
    )


def check(tmp_path, config, seeds, before=lambda: None):
    before()
    expected, ended = run(tmp_path, config, 0, False)
    assert ended and len(expected) > 8
    for seed in seeds:
        assert with_kills(tmp_path, config, seed, before) == expected, f"seed {seed}"


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("more", ["", 'tail = "drop"', 'tail = "pad"\nbatch_across = "object"'])
def test_files(tmp_path, compressed, more):
    names = words(60)
    for number, part in enumerate([names[:25], names[25:31], names[31:]]):
        text = "".join(f"{word}\n" for word in part).encode()
        ending = ".gz" if compressed else ""
        path = tmp_path / f"{number}.txt{ending}"
        path.write_bytes(gzip.compress(text) if compressed else text)
    source = f'glob = "{tmp_path}/*.txt*", epochs = 3'
    check(tmp_path, channel(source, more=f"{more}\nshuffle = {{ seed = 3 }}"), range(1))


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    "window, more", [("20", ""), ("1000", 'tail = "drop"'), ('"1MiB"', 'tail = "pad"')]
)
def test_shuffled_records(tmp_path, compressed, window, more):
    names = [word + "y" * 30_000 * ("MiB" in window) for word in words(100)]
    for number, part in enumerate([names[:45], names[45:51], [], names[51:]]):
        text = "".join(f"{word}\n" for word in part).encode()
        ending = ".gz" if compressed else ""
        path = tmp_path / f"{number}.txt{ending}"
        path.write_bytes(gzip.compress(text) if compressed else text)
    source = f'glob = "{tmp_path}/*.txt*", epochs = 3'
    shuffle = f"shuffle = {{ seed = 3, window = {window} }}"
    config = channel(source, more=f"{more}\n{shuffle}")
    check(tmp_path, config, range(1))
    code, log = refusal(tmp_path, config.replace("seed = 3", "seed = 4"))
    assert code == 64 and "`shuffle` was `3` when the state was taken, and is `4` now" in log, log
    code, log = refusal(tmp_path, config.replace(window, "21"))
    assert code == 64 and "`window` was" in log and "and is `21` now" in log, log


def test_shuffled_records_of_a_header_and_types(tmp_path):
    rows = "".join(f"{n},{word},{n % 5}\n" for n, word in enumerate(words(90)))
    for number in range(2):
        (tmp_path / f"{number}.csv").write_text("id,word,x\n" + rows)
    config = channel(
        f'glob = "{tmp_path}/*.csv", epochs = 2', "csv",
        'options = { header = true, types = "id:int64,word:utf8", columns = "word" }\n'
        "shuffle = { seed = 9, window = 40 }",
    )  # fmt: skip
    check(tmp_path, config, range(1))


@pytest.mark.parametrize("more", ["", "shuffle = { seed = 3, window = 15 }"])
@pytest.mark.parametrize("decoder, write", [("tfrecord", tfrecord), ("recordio", recordio)])
def test_a_fifo_is_read_over(tmp_path, decoder, write, more):
    data = b"".join(write(word.encode()) for word in words(40))
    fifos = tmp_path / "fifos"
    fifos.mkdir()

    def before():
        """The platform writes each epoch again from its start."""
        for epoch in range(2):
            path = fifos / f"train_{epoch}"
            path.unlink(missing_ok=True)
            os.mkfifo(path)
            in_background(feed, path, data)

    check(tmp_path, channel(f'fifo = "{fifos}", epochs = 2', decoder, more), range(1), before)


def feed(path, data):
    try:
        with open(path, "wb", buffering=0) as pipe:
            for at in range(0, len(data), 100):
                pipe.write(data[at : at + 100])
    except (BrokenPipeError, FileNotFoundError):
        pass


def test_the_log_says_how_much_of_a_compressed_object_is_thrown_away(start, tmp_path):  # noqa: F811
    rows = "".join(f"{word}{'y' * 10_000}\n" for word in words(200))
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(rows.encode()))
    config = channel(f'file = "{tmp_path}/a.txt.gz"')
    run(tmp_path, config, 20, False)
    host = start(config, "--resume", str(tmp_path / "state.json"))
    with host.connect() as stream:
        assert take(stream)[1] == 20
    host.kill()
    log = (tmp_path / "host.log").read_text()
    assert re.search(r"a\.txt\.gz: begins at byte \d+; \d+ bytes before it were read and thrown away", log)


def test_a_header_is_read_again(tmp_path):
    rows = "".join(f"{n},{word}\n" for n, word in enumerate(words(50)))
    (tmp_path / "a.csv").write_text("id,word\n" + rows)
    config = channel(
        f'file = "{tmp_path}/a.csv", epochs = 2', "csv",
        'options = { header = true, types = "id:int64,word:utf8", columns = "word" }',
    )  # fmt: skip
    check(tmp_path, config, range(1))


def refusal(tmp_path, config):
    """Exit code and log of a run that resumes where the last one was killed."""
    (tmp_path / "pipemill.toml").write_text(config)
    # Otherwise the host might end before it has looked at the object.
    reads = "import pipemill\ntry:\n    next(pipemill.connect('train'))\nexcept pipemill.PipemillError:\n    pass"
    child = subprocess.run(
        [PIPEMILL, "run", "--resume", "state.json", "--config", "pipemill.toml", "--", PYTHON, "-c", reads],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    return child.returncode, child.stderr


def test_a_state_that_does_not_fit_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(words(50)))
    config = channel(f'file = "{tmp_path}/a.txt"')
    run(tmp_path, config, 3, False)

    lines = 'decoder = "lines"'
    for before, after, setting, was, now in [
        ("batch = 7", "batch = 8", "batch", "7", "8"),
        ("batch = 7", 'batch = 7\ntail = "pad"', "tail", "keep", "pad"),
        ("batch = 7", 'batch = 7\nbatch_across = "object"', "batch_across", "epoch", "object"),
        ("batch = 7\n", "", "batch", "7", "none"),
        (lines, 'decoder = "length-prefixed"', "decoder", "lines 1", "length-prefixed 1"),
        (lines, f"{lines}\noptions = {{ skip_blank = true }}", "options", "{}", '{"skip_blank":"true"}'),
        (".txt\"", '.txt", compression = "gzip"', "compression", "auto", "gzip"),
    ]:
        assert before in config
        code, log = refusal(tmp_path, config.replace(before, after))
        expected = f"`{setting}` was `{was}` when the state was taken, and is `{now}` now"
        assert code == 64 and expected in log, log
    code, log = refusal(tmp_path, config.replace('"train"', '"test"'))
    assert code == 64 and "has a state of `train`; the channels are `test`" in log, log
    os.utime(tmp_path / "a.txt", (1, 1))
    code, log = refusal(tmp_path, config)
    assert code == 0, log  # It was touched.
    text = (tmp_path / "a.txt").read_text()
    (tmp_path / "a.txt").write_text(text.swapcase())
    code, log = refusal(tmp_path, config)
    assert code == 64 and "whose identity was size:" in log, log
    assert "begin without the state" in log
    (tmp_path / "a.txt").rename(tmp_path / "b.txt")
    code, log = refusal(tmp_path, config.replace("a.txt", "b.txt"))
    assert code == 64 and "`objects` differ: the list has 1 objects" in log, log
    (tmp_path / "state.json").write_text("[1]")
    code, log = refusal(tmp_path, config)
    assert code == 64 and "is no state of a channel" in log, log


def test_an_object_in_s3_that_has_changed_is_refused(bucket, tmp_path):  # noqa: F811
    config = channel(f's3 = "{bucket}/"')
    batches, ended = run(tmp_path, config, 1, False)
    assert [rows for _, _, rows in batches] == [["a1", "a2", "b1", "b2", "c1", "c2", "d1"]]
    assert not ended
    # It is as long as before.
    (tmp_path / "buckets/data/train/a.txt").write_text("a1\na3\n")
    code, log = refusal(tmp_path, config)
    assert code == 64 and "`objects` differ: the list has 4 objects" in log, log


def test_a_state_from_before_the_first_batch_of_a_resumed_run_is_the_one_that_it_resumed(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(words(50)))
    config = channel(f'file = "{tmp_path}/a.txt"')
    run(tmp_path, config, 3, False)
    kept = json.loads((tmp_path / "state.json").read_text())
    # A list of states is a file too.
    (tmp_path / "states.json").write_text(json.dumps([kept]))
    script = "import json, pipemill\nwith pipemill.connect('train') as stream:\n"
    script += "    print(json.dumps(stream.state_dict()))\n"
    script += "    print(next(stream).number)\n"
    child = subprocess.run(
        [PIPEMILL, "run", "--resume", "states.json", "--config", "pipemill.toml", "--", PYTHON, "-c", script],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    before, number = child.stdout.splitlines()
    assert (json.loads(before), number) == (kept, "3"), child.stderr


def test_consumers_that_share_a_channel_have_no_state(host, tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(words(50)))
    script = """
import pipemill
with pipemill.connect("train", credits=1) as one, pipemill.connect("train", credits=1) as other:
    first, second = next(one), next(other)
    assert one.state_dict()["batch"] == first.number == 0
    try:
        other.state_dict()
    except pipemill.StateError as error:
        print(error)
"""
    code, out, log = finish(host(channel(f'file = "{tmp_path}/a.txt"'), script))
    assert code == 0 and "was given batch 1 where 0 was next" in out, log


def test_a_consumer_goes_back_into_an_epoch_that_it_ended_early(start, tmp_path):  # noqa: F811
    write_files(tmp_path, [40, 3, 40])
    host = start(files(tmp_path, "batch = 4\n", epochs=2))
    with host.connect() as stream:
        epoch = next(stream.epochs())
        take(stream)
        state = stream.state_dict()
        epoch.end()
    with host.connect(state=state) as stream:
        given = take_all(stream)
    host.end()
    rows = [row for _, _, rows in given for row in rows]
    assert len(rows) == 79 + 83
    assert [number for _, number, _ in given] == list(range(1, 42))


def test_a_consumer_goes_back_into_an_epoch_that_it_ended_early_before_another_one(start, tmp_path):  # noqa: F811
    write_files(tmp_path, [40, 3, 40])
    host = start(files(tmp_path, "batch = 4\n", epochs=3))
    with host.connect(credits=1) as stream:
        epochs = stream.epochs()
        epoch = next(epochs)
        batch = next(epoch)
        state = stream.state_dict()
        # While it holds its only credit, no further batch is granted, and so none is skipped.
        epoch.end()
        batch.release()
        next(epochs).end()
    with host.connect(state=state) as stream:
        numbers = [[batch.number for batch in epoch] for epoch in stream.epochs()]
    host.end()
    assert numbers == [[*range(1, 21)], [*range(21, 42)], [*range(42, 63)]]


def test_a_consumer_goes_on_where_an_epoch_begins_after_one_that_it_ended_early(start, tmp_path):  # noqa: F811
    write_files(tmp_path, [400])
    host = start(files(tmp_path, "batch = 4\n", epochs=2))
    with host.connect(credits=1) as stream:
        epochs = stream.epochs()
        epoch = next(epochs)
        next(epoch)
        epoch.end()
        assert list(epoch) == [] and epoch.ended_early
        state = stream.state_dict()
    assert (state["epoch"], state["delivered"]) == (1, 0)
    with host.connect(state=state) as stream:
        given, later = [], None
        for batch in stream:
            given.append((batch.epoch, batch.first_record))
            later = stream.state_dict()
    host.end()
    assert given == [(1, first) for first in range(0, 400, 4)]
    assert later["first_record"] == 396


def test_a_state_from_after_an_epoch_that_was_ended_early_is_taken_by_a_host_that_is_far_ahead(start, tmp_path):  # noqa: F811
    write_files(tmp_path, [400])
    config = files(tmp_path, "batch = 4\n[channel.ring]\nslots = 40\n", epochs=2)
    host = start(config)
    with host.connect(credits=1) as stream:
        epochs = stream.epochs()
        epoch = next(epochs)
        batch = next(epoch)
        epoch.end()
        batch.release()
        first = next(next(epochs))
        assert (first.epoch, first.first_record) == (1, 0)
        state = stream.state_dict()
        del first
    host.kill()
    # Another run, in which epoch 0 is whole: its batches have the numbers that epoch 1 had.
    host = start(config)
    with host.connect(credits=38) as stream:
        held = [next(stream) for _ in range(38)]
        assert held[-1].number == 37 and state["batch"] < 42
        del held
    with host.connect(state=state) as stream:
        given = [(batch.epoch, batch.first_record) for batch in stream]
    host.end()
    assert given == [(1, first) for first in range(4, 400, 4)]


@pytest.mark.parametrize("is_acked", [True, False])
def test_a_consumer_goes_back_while_views_of_its_batches_live(start, tmp_path, is_acked):  # noqa: F811
    write_files(tmp_path, [40])
    host = start(files(tmp_path, "batch = 4\n", epochs=1))
    with host.connect() as stream:
        batch = next(stream)
        state, views = stream.state_dict(), [batch.payload]
        if is_acked:
            views.append(next(stream).payload)
        del batch
    kept = list(map(bytes, views))
    with host.connect(state=state) as stream:
        # The slots of the views were filled again.
        assert [number for _, number, _ in take_all(stream)] == list(range(1, 10))
    assert list(map(bytes, views)) == kept
    host.end()


def with_ends(epoch, epochs):
    """The numbers of the batches that are left, and `end of N` after those of epoch N."""
    events = []
    while epoch is not None:
        for batch in epoch:
            batch.ack()
            events.append(batch.number)
        events.append(f"end of {epoch.number}")
        epoch = next(epochs, None)
    return events


def side_by_side(function, *arguments):
    with ThreadPoolExecutor() as threads:
        return list(threads.map(function, *arguments))


def test_consumers_that_go_back_before_the_end_of_an_epoch_all_get_that_end(start, tmp_path):  # noqa: F811
    write_files(tmp_path, [8])
    host = start(files(tmp_path, 'batch = 4\nmode = "broadcast"\nconsumers = 2\n', epochs=2))
    with host.connect() as one, host.connect() as other:
        epochs = [one.epochs(), other.epochs()]
        now = [next(each) for each in epochs]
        assert [[next(epoch).number for epoch in now] for _ in range(2)] == [[0, 0], [1, 1]]
        state = one.state_dict()
        # Both are sent the end of the epoch. Their programs are killed before they save another
        # state.
        assert side_by_side(lambda epoch: next(epoch, None), now) == [None, None]
    with host.connect(state=state) as one, host.connect(state=state) as other:
        epochs = [one.epochs(), other.epochs()]
        given = side_by_side(lambda each: with_ends(next(each), each), epochs)
    host.end()
    assert given == [["end of 0", 2, 3, "end of 1"]] * 2


#: Prints the epochs, each without a batch, and the states around them.
EMPTY = """
import json, pipemill
with pipemill.connect("train") as stream:
    print(json.dumps([None, stream.state_dict()]))
    for epoch in stream.epochs():
        assert not list(epoch)
        print(json.dumps([epoch.number, stream.state_dict()]))
"""


def test_a_machine_without_objects_has_epochs_and_states(tmp_path):
    write_files(tmp_path, [8, 8])
    part = "epochs = 3, part = { index = 2, count = 3 }"
    config = files(tmp_path, "batch = 4\n", epochs=3).replace("epochs = 3", part)
    (tmp_path / "pipemill.toml").write_text(config)

    def epochs(*words):
        command = [PIPEMILL, "run", *words, "--config", "pipemill.toml", "--", PYTHON, "-c", EMPTY]
        child = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert child.returncode == 0, child.stderr
        lines = [json.loads(line) for line in child.stdout.splitlines()]
        return [number for number, _ in lines[1:]], [state for _, state in lines]

    given, states = epochs()
    assert given == [0, 1, 2] and len(states) == 4
    for number, state in enumerate(states):
        (tmp_path / "state.json").write_text(json.dumps(state))
        assert epochs("--resume", "state.json")[0] == given[number:]
