"""Pipe-mode FIFOs: writers that dribble, die, say nothing or never come; epochs; early ends."""

import os
import signal
import subprocess
import time

import pytest
from e2e import PATIENCE, PIPEMILL, finish, in_background, patiently, recordio, tfrecord

COUNT = """
def text(record):
    return record if isinstance(record, str) else bytes(record).decode()

with pipemill.connect(channel="train") as stream:
    for epoch in stream.epochs():
        print(epoch.number, [text(record) for batch in epoch for record in batch], flush=True)
"""


def channel(fifos, more="", decoder="tfrecord"):
    source = f'{{ fifo = "{fifos}"{more} }}'
    return f'[[channel]]\nname = "train"\nsource = {source}\ndecoder = "{decoder}"\n'


def write_slowly(path, data, step=1):
    with open(path, "wb", buffering=0) as pipe:
        for at in range(0, len(data), step):
            pipe.write(data[at : at + step])
            if at % 7 == 0:
                time.sleep(0.002)


@pytest.mark.parametrize("decoder, write", [("tfrecord", tfrecord), ("recordio", recordio)])
def test_single_bytes_and_pauses_make_no_difference(host, fifos, decoder, write):
    words = ["", "one", "two", "x" * 300]
    data = b"".join(write(word.encode()) for word in words)
    os.mkfifo(fifos / "train_0")
    in_background(write_slowly, fifos / "train_0", data)
    code, out, log = finish(host(channel(fifos, ", epochs = 1", decoder), COUNT))
    assert (code, out) == (0, f"0 {words}\n"), log


def test_a_row_is_delivered_while_its_writer_pauses(host, fifos):
    """Nothing waits for a full slot: what was written before a pause is read during it."""
    script = """
with pipemill.connect(channel="train") as stream:
    for batch in stream:
        for record in batch:
            print(record, flush=True)
"""
    os.mkfifo(fifos / "train_0")
    child = host(channel(fifos, ", epochs = 1", "lines"), script)
    with open(fifos / "train_0", "wb", buffering=0) as pipe:
        for word in [b"one", b"two", b"three"]:
            pipe.write(word + b"\n")
            assert child.stdout.readline() == word + b"\n"
    assert finish(child)[0] == 0


def test_the_reader_may_come_before_the_fifo_and_the_fifo_before_the_writer(host, fifos):
    child = host(channel(fifos, ", epochs = 2"), COUNT)

    def write():
        for epoch in range(2):
            time.sleep(0.3)
            os.mkfifo(fifos / f"train_{epoch}")
            time.sleep(0.3)
            write_slowly(fifos / f"train_{epoch}", tfrecord(b"%d" % epoch), 100)

    in_background(write)
    code, out, log = finish(child)
    assert (code, out) == (0, "0 ['0']\n1 ['1']\n"), log


def test_an_empty_epoch_is_an_epoch(host, fifos):
    for epoch in range(3):
        os.mkfifo(fifos / f"train_{epoch}")

    def write():
        for epoch, data in enumerate([tfrecord(b"a"), b"", tfrecord(b"b")]):
            write_slowly(fifos / f"train_{epoch}", data, 100)

    in_background(write)
    code, out, log = finish(host(channel(fifos, ", epochs = 3"), COUNT))
    assert (code, out) == (0, "0 ['a']\n1 []\n2 ['b']\n"), log


def test_a_writer_that_dies_inside_a_record_is_an_error_with_its_place(host, fifos):
    os.mkfifo(fifos / "train_0")
    data = tfrecord(b"one") + tfrecord(b"two")[:9]
    in_background(write_slowly, fifos / "train_0", data, 5)
    script = """
with pipemill.connect(channel="train") as stream:
    try:
        for batch in stream:
            print([bytes(record).decode() for record in batch], flush=True)
    except pipemill.DecodeError as error:
        print(error.kind, error.channel, error.epoch, error.offset, error.record)
        sys.exit(3)
"""
    code, out, log = finish(host(channel(fifos, ", epochs = 1"), script))
    assert (code, out) == (3, "['one']\ndecode train 0 19 1\n"), log
    assert "ends inside a record" in log and "train_0" in log and "byte offset 19" in log


def test_a_fifo_that_does_not_appear_is_named_with_what_is_there(host, fifos):
    (fifos / "other_0").write_bytes(b"")
    code, _, log = finish(host(channel(fifos, ', open_timeout = "300ms"'), COUNT))
    assert code != 0
    for words in ["train_0", "did not appear within 300ms", "other_0", "raise `open_timeout`"]:
        assert words in log


def test_a_silent_writer_is_an_error_after_idle(host, fifos):
    os.mkfifo(fifos / "train_0")
    # Opened for both, so that the reader sees a writer that says nothing.
    held = os.open(fifos / "train_0", os.O_RDWR)
    code, _, log = finish(host(channel(fifos, ', epochs = 1, idle_timeout = "300ms"'), COUNT))
    os.close(held)
    assert code != 0 and "no byte came for 300ms" in log and "raise `idle_timeout`" in log


def feed(fifos, source, epochs, name="train"):
    args = [PIPEMILL, "feed", "--from", str(source), "--to", str(fifos)]
    args += ["--channel", name, "--epochs", str(epochs)]
    return subprocess.Popen(args, stderr=subprocess.PIPE)


def test_feed_and_run_together_with_two_channels(host, fifos, tmp_path):
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "b").write_bytes(tfrecord(b"two"))
    (parts / "a").write_bytes(tfrecord(b"one"))
    rows = tmp_path / "rows"
    rows.write_bytes(b"x\ny\n")
    feeders = [feed(fifos, parts, 3), feed(fifos, rows, 2, "test")]
    channels = channel(fifos, ", epochs = 3")
    channels += channel(fifos, ", epochs = 2", "lines").replace('"train"', '"test"')
    code, out, log = finish(host(channels, COUNT + COUNT.replace("train", "test")))
    train = "".join(f"{epoch} ['one', 'two']\n" for epoch in range(3))
    test = "".join(f"{epoch} ['x', 'y']\n" for epoch in range(2))
    assert (code, out) == (0, train + test), log
    for feeder in feeders:
        feeder.communicate(timeout=PATIENCE)
        assert feeder.returncode == 0
    assert list(fifos.iterdir()) == []


def test_a_consumer_may_end_an_epoch_early_and_the_next_goes_on(host, fifos, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(tfrecord(b"x" * 100_000) * 300)
    feeder = feed(fifos, source, 3)
    script = """
with pipemill.connect(channel="train") as stream:
    for epoch in stream.epochs():
        for number, batch in enumerate(epoch):
            if number == 1:
                epoch.end()
        print(epoch.number, epoch.ended_early, flush=True)
"""
    code, out, log = finish(host(channel(fifos, ", epochs = 3"), script))
    assert (code, out) == (0, "0 True\n1 True\n2 True\n"), log
    _, said = feeder.communicate(timeout=PATIENCE)
    assert feeder.returncode == 0 and b"closed early" in said


@pytest.mark.parametrize("sent, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_feed_leaves_no_fifo_behind(fifos, tmp_path, sent, code):
    source = tmp_path / "source"
    source.write_bytes(b"x")
    feeder = feed(fifos, source, 3)
    patiently((fifos / "train_0").exists)
    feeder.send_signal(sent)
    feeder.communicate(timeout=PATIENCE)
    assert feeder.returncode == code and list(fifos.iterdir()) == []
