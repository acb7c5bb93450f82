"""The sources that `pipemill.open` reads, and its error messages."""

import json
import os
import pickle
import subprocess
import sys
import threading

import pipemill
import pytest
from e2e import PATIENCE, tfrecord
from hosts import take_all

np = pytest.importorskip("numpy")


def lines(*sources, **more):
    """All lines of the sources."""
    with pipemill.open(*sources, **more) as stream:
        return [line for batch in stream for line in batch.records()]


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "da$ta"
    folder.mkdir()
    for name in ("b", "a", "c"):
        (folder / f"{name}.txt").write_text(f"{name}1\n{name}2\n")
    return folder


def test_a_file_a_folder_a_pattern_and_a_list(folder, monkeypatch):
    assert lines(folder / "a.txt", "lines") == ["a1", "a2"]
    assert lines(str(folder), "lines") == ["a1", "a2", "b1", "b2", "c1", "c2"]
    assert lines(f"{folder}/[bc].txt", "lines") == ["b1", "b2", "c1", "c2"]
    assert lines({"file": f"{folder}/a.txt".replace("$", "$$")}, "lines") == ["a1", "a2"]
    assert lines([folder / "c.txt", str(folder / "a.txt")], "lines") == ["c1", "c2", "a1", "a2"]
    monkeypatch.chdir(folder)
    assert lines("b.txt", "lines", epochs=2) == ["b1", "b2"] * 2


def test_a_name_with_the_characters_of_a_pattern(tmp_path):
    path = tmp_path / 'a[b]*"\\\n${HOME}.txt'
    path.write_text("x\n")
    assert lines(path, "lines") == ["x"]


def test_fifos_of_pipe_mode_and_a_fifo(tmp_path):
    for name in ("train_0", "train_1", "one"):
        os.mkfifo(tmp_path / name)

    def write():
        for name, line in (("train_0", "a"), ("train_1", "b"), ("one", "c")):
            (tmp_path / name).write_text(f"{line}\n")

    writer = threading.Thread(target=write)
    writer.start()
    with pipemill.open(tmp_path / "train", "lines", epochs=2) as stream:
        assert stream.channel == "train"
        epochs = [[line for batch in epoch for line in batch.records()] for epoch in stream.epochs()]
    assert epochs == [["a"], ["b"]]
    assert lines(tmp_path / "one", "lines") == ["c"]
    writer.join(PATIENCE)


def test_options_fields_and_a_decoder_that_is_found(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1, "b": "x", "c": 2.5}\n{"a": 2, "b": "y", "c": 3.5}\n')
    for fields in ("/a:int64,/c:float64", ["/a:int64", "/c:float64"]):
        with pipemill.open(path, fields=fields, batch=2) as stream:
            [batch] = stream
            assert batch["a"].tolist() == [1, 2] and batch["c"].tolist() == [2.5, 3.5]
    with pytest.raises(ValueError, match="say the same; leave one out"):
        pipemill.open(path, fields="/a", options={"fields": "/b"})
    rows = tmp_path / "rows.csv"
    rows.write_text("n$,m\n1,2\n")
    with pipemill.open(rows, options={"header": True, "types": "n$:int32,m:int32"}) as stream:
        assert [batch["n$"].tolist() for batch in stream] == [[1]]


def test_batches_shuffle_and_epochs_without_an_end(folder):
    with pipemill.open(folder, "lines", batch=4, tail="pad") as stream:
        assert [(len(batch), batch.valid) for batch in stream] == [(4, 4), (4, 2)]
    shuffled = [
        lines(folder, "lines", batch=2, epochs=4, shuffle=shuffle)
        for shuffle in (7, 7, {"seed": 7, "window": 100})
    ]
    assert shuffled[0] == shuffled[1] != shuffled[2]
    assert sorted(shuffled[0]) == sorted(shuffled[2]) == sorted(lines(folder, "lines") * 4)
    assert shuffled[0] != lines(folder, "lines") * 4
    with pipemill.open(folder, "lines", batch=6, epochs=None) as stream:
        for _, epoch in zip(range(5), stream.epochs()):
            assert sum(map(len, epoch)) == 6


def test_workers(folder):
    one = lines(folder, "lines", epochs=3, shuffle=7)
    assert [lines(folder, "lines", epochs=3, shuffle=7, workers=count) for count in (1, 4, "auto")] == [one] * 3
    assert lines(folder / "a.txt", "lines", workers="auto") == ["a1", "a2"]
    for wrong in (0, 257, "all"):
        with pytest.raises(ValueError, match=f"workers={wrong!r}: expected a whole number from 1 to 256, or \"auto\""):
            pipemill.open(folder, "lines", workers=wrong)
    assert lines(folder / "a.txt", "lines", workers=2) == ["a1", "a2"]
    text = refusal(pipemill.RefusedError, {"fifo": "/tmp/pipe"}, "lines", workers=2)
    assert "only files and objects in S3 are decoded by several workers; leave it out" in text


@pytest.mark.parametrize("stop", range(4))
def test_a_state_goes_on_in_a_new_process_after_each_batch(folder, stop):
    wishes = dict(batch=2, epochs=2, shuffle={"seed": 1, "window": 3})
    with pipemill.open(folder, "lines", **wishes) as stream:
        whole = take_all(stream)
    code = (
        "import json, sys, pipemill\n"
        "wishes, state = json.loads(sys.argv[2])\n"
        "stream = pipemill.open(sys.argv[1], 'lines', state=state, **wishes)\n"
        f"given = [(batch.epoch, batch.number, batch.records()) for _, batch in zip(range({stop}), stream)]\n"
        "print(json.dumps([given, stream.state_dict()]))\n"
        # The host is at work, and the program is killed.
        "sys.stdout.flush(); import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    given, state = [], None
    for _ in range(2):
        words = [sys.executable, "-c", code, str(folder), json.dumps([wishes, state])]
        out = subprocess.run(words, stdout=subprocess.PIPE, timeout=PATIENCE).stdout
        more, state = json.loads(out)
        given += [tuple(one) for one in more]
    with pipemill.open(folder, "lines", state=state, **wishes) as stream:
        given += take_all(stream)
    assert given == whole
    with pytest.raises(pipemill.Refused, match="`batch` was `2` when the state was taken, and is `3`"):
        pipemill.open(folder, "lines", state=state, **{**wishes, "batch": 3})


def test_a_whole_configuration(folder, tmp_path):
    channels = [
        {"name": name, "source": {"file": f"{folder}/{name}.txt".replace("$", "$$")}, "decoder": "lines"}
        for name in ("a", "b")
    ]
    text = "".join(
        f'[[channel]]\nname = "{one["name"]}"\ndecoder = "lines"\nsource = {{ file = "{one["source"]["file"]}" }}\n'
        for one in channels
    )
    (tmp_path / "pipemill.toml").write_text(text)
    for config in ({"channel": channels}, text, tmp_path / "pipemill.toml", str(tmp_path / "pipemill.toml")):
        with pipemill.host(config) as host:
            for name in ("b", "a"):
                with host.connect(name) as stream:
                    assert [line for batch in stream for line in batch.records()] == [f"{name}1", f"{name}2"]
        with pytest.raises(ProcessLookupError):
            os.kill(host.pid, 0)
    # A stream keeps the host that it reads from.
    stream = pipemill.host(text).connect("a")
    assert [line for batch in stream for line in batch.records()] == ["a1", "a2"]
    stream.close()


def test_cat_gives_copies(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f'{{"n": {n}, "s": "x{n}", "v": [{n}, 1]}}\n' for n in range(500)))
    fields = "/n:int64,/s:utf8?,/v:float32[2],/no:utf8?"
    records = list(pipemill.cat(path, fields=fields))
    assert len(records) == 500
    first, *_, last = records
    assert (first["n"], first["s"], first["v"].tolist(), first["no"]) == (0, "x0", [0, 1], None)
    assert (last["n"], last["s"], last["v"].tolist()) == (499, "x499", [499, 1])
    last["v"][0] = 7  # its own
    raw = tmp_path / "raw.tfrecord"
    raw.write_bytes(b"".join(tfrecord(bytes([n])) for n in range(10)))
    assert list(pipemill.cat(raw, limit=2)) == [{"data": b"\0"}, {"data": b"\1"}]
    assert list(pipemill.cat(raw, limit=0)) == []
    # A loop that is left before the end of the stream ends the host.
    stopped = pipemill.cat(raw)
    assert next(stopped) == {"data": b"\0"}
    stopped.close()


def test_map_and_filter_keep_the_place(folder):
    with pipemill.open(folder, "lines", batch=1, epochs=2) as stream:
        even = stream.filter(lambda batch: batch.number % 2 == 0).map(lambda batch: batch.records()[0])
        assert even.fields == stream.fields
        found = []
        for epoch in even.epochs():
            of_epoch = []
            for line in epoch:
                of_epoch.append(line)
                # The batch that was left out before it is not the place.
                assert even.state_dict()["batch"] == 2 * (len(found) * 3 + len(of_epoch) - 1)
            found.append(of_epoch)
            assert (epoch.number, epoch.batches, epoch.records, epoch.ended_early) == (len(found) - 1, 6, 6, False)
        assert found == [["a1", "b1", "c1"]] * 2
        assert list(even) == []
    with pipemill.open(folder, "lines", batch=1, epochs=3).map(len) as ones:
        assert next(ones) == 1
        ones.set_epoch(1)
        epoch = next(ones.epochs())
        assert epoch.number == 1 and next(epoch) == 1
        epoch.end()
        assert list(epoch) == [] and epoch.ended_early
        state = ones.map(str).state_dict()
    with pytest.raises(pipemill.ClosedError):
        next(ones)
    with pipemill.open(folder, "lines", batch=1, epochs=3, state=state) as stream:
        assert [batch.epoch for batch in stream] == [2] * 6


# --- errors


def refusal(kind, *args, **wishes):
    with pytest.raises(kind) as caught:
        pipemill.open(*args, **wishes)
    assert type(caught.value) is kind
    return str(caught.value)


def test_what_the_host_refuses_is_an_exception_with_its_text(folder, tmp_path, capfd):
    text = refusal(pipemill.RefusedError, folder, "lnies")
    assert text.startswith("channel `open`: decoder `lnies`: there is no built-in decoder of that name; did you mean `lines`?")
    text = refusal(pipemill.RefusedError, folder, "lines", options={"strip": 1, "utf8": "maybe"})
    assert "decoder `lines` has no option `strip`" in text and "\n" in text and "/proc" not in text
    text = refusal(pipemill.SourceError, tmp_path / "nothing")
    assert text == f"channel `open`: {tmp_path}/nothing: can't open it: No such file or directory (os error 2); check the path"
    text = refusal(pipemill.RefusedError, folder / "a.txt", "lines", shuffle=7)
    assert "the source has one object at a time, so there is nothing to shuffle" in text
    # Everything is in the exception: the user decides what is printed.
    assert capfd.readouterr() == ("", "")


def test_an_error_of_the_stream_comes_with_the_batch(tmp_path, capfd):
    with pipemill.open(tmp_path / "nothing", "lines") as stream, pytest.raises(pipemill.SourceError) as caught:
        next(stream)
    assert caught.value.object == f"{tmp_path}/nothing" and "can't open it" in str(caught.value)
    rows = tmp_path / "rows.csv"
    rows.write_text("1\n2\nx\n")
    with pipemill.open(rows, options={"types": "int32"}) as stream, pytest.raises(pipemill.DecodeError) as caught:
        for batch in stream:
            assert batch["f0"].tolist() == [1, 2]
    assert (caught.value.kind, caught.value.offset, caught.value.record) == ("decode", 4, 2)
    # The host's log has it too, and no message below a warning.
    log = capfd.readouterr().err.splitlines()
    assert len(log) == 2 and all(line.startswith("pipemill: error: channel `open`") for line in log)


def test_a_configuration_is_refused_with_its_places(tmp_path):
    with pytest.raises(pipemill.RefusedError) as caught:
        pipemill.host('[[channel]]\nname = "a"\nsuorce = 1\n')
    assert str(caught.value).splitlines() == [
        "configuration:3:1: channel `a`: suorce: unknown key; did you mean `source`?",
        "configuration: 1 thing is wrong",
    ]
    path = tmp_path / "no.toml"
    with pytest.raises(pipemill.RefusedError, match=f"{path}: the configuration can't be read"):
        pipemill.host(path)
    with pytest.raises(pipemill.RefusedError, match="^channel `a`: source: missing"):
        pipemill.host({"channel": [{"name": "a"}]})
    with pytest.raises(TypeError, match="no set"):
        pipemill.host({"channel": {1}})


@pytest.mark.parametrize(
    "wishes, message",
    [
        (dict(batch=0), "batch=0: expected a whole number from 1 to 1048576 records"),
        (dict(batch="x"), "batch='x': expected a whole number"),
        (dict(batch=2.5), "batch=2.5: expected a whole number"),
        (dict(tail="pad"), "about batch=, which is missing"),
        (dict(batch=1, tail="cut"), "tail='cut': expected one of 'keep', 'drop', 'pad'"),
        (dict(epochs=0), "epochs=0: expected a whole number from 1 to 1000000, or None"),
        (dict(credits=0), "credits=0: expected a whole number from 1 to 4094; a loop over batches needs 2"),
        (dict(host="node"), "host='node': expected None or \"per-node\""),
        (dict(rank=(2, 2)), "rank=(2, 2): expected a rank from 0 to 1"),
        (dict(rank="all"), "rank='all': expected two numbers"),
        (dict(rank=(0, 2)), "which can't be dealt to 2 hosts"),
        (dict(host="per-node"), 'needs batch=, and tail="drop" or "pad"'),
        (dict(source={"file": "a", "epochs": 2}), "source= has 'epochs'; say it as epochs= or rank="),
        (dict(source=[]), "expected at least one file or address"),
        (dict(source=["a", "s3://b/c"]), "a list of different kinds"),
        (dict(source=["s3://b/a/", "s3://b/c"]), "a list of different kinds"),
        (dict(source=["/"]), "with the folder '/'"),
        (dict(state={"a": 1}), "is not what Stream.state_dict() returns"),
    ],
)
def test_arguments_that_are_wrong(folder, wishes, message):
    with pytest.raises(ValueError) as caught:
        pipemill.open(wishes.pop("source", folder / "a.txt"), "lines", **wishes)
    assert message in str(caught.value)


def test_what_is_no_source_and_what_cant_be_pickled(folder):
    for source in (None, 7, b"a.txt"):
        with pytest.raises(TypeError, match="expected a path, an address, a list of these, or a dict"):
            pipemill.open(source)
    with pipemill.open(folder, "lines") as stream:
        for one in (stream, stream._host, stream.map(len)):
            with pytest.raises(TypeError, match="can't be pickled"):
                pickle.dumps(one)


def test_a_stream_that_is_closed_early_is_no_warning(folder, capfd):
    with pipemill.open(folder, "lines", epochs=None) as stream:
        assert [field.name for field in stream.fields] == ["line"]
    assert capfd.readouterr() == ("", "")


def test_a_host_that_ends_at_once_is_an_error_that_says_so(folder, monkeypatch, tmp_path, capfd):
    # Another program, such as an older version: its output is not lost.
    monkeypatch.setenv("PIPEMILL", "/bin/ls")
    text = refusal(pipemill.HostError, folder, "lines")
    assert text.startswith("the host ended before it was ready, and gave no reason") and "/bin/ls run --owner" in text
    assert "--owner" in capfd.readouterr().err


def test_a_folder_that_cant_be_written_is_an_error_with_its_remedy(folder, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/sys")
    text = refusal(pipemill.HostError, folder, "lines")
    assert text.startswith("/sys/pipemill: making the folder of the socket: ")
    assert "or XDG_RUNTIME_DIR to such a folder" in text


def test_a_program_that_is_missing(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("PIPEMILL", str(tmp_path / "no"))
    assert "which is no program" in refusal(pipemill.BinaryNotFound, folder, "lines")
    monkeypatch.delenv("PIPEMILL")
    monkeypatch.setenv("PATH", str(tmp_path))
    text = refusal(pipemill.BinaryNotFound, folder, "lines")
    assert "the program `pipemill` is missing" in text and "pip install" in text and "$PIPEMILL" in text


@pytest.mark.parametrize("how", [{}, {"shuffle": 3}, {"batch": 5, "shuffle": 3}, {"workers": 2}, {"workers": 3, "batch": 5}], ids=str)
def test_pipes_that_are_named_are_read_once(tmp_path, how):
    """Nothing is learned or measured from a pipe before it is read: what was read of it would be lost."""
    pipes = [tmp_path / name for name in ("a", "b")]
    for pipe in pipes:
        os.mkfifo(pipe)

    def write(pipe, value):
        pipe.write_text(f"{value}\n" * 20)

    writers = [threading.Thread(target=write, args=(pipe, value)) for value, pipe in enumerate(pipes)]
    for writer in writers:
        writer.start()
    with pipemill.open(pipes, "csv", timeout=PATIENCE, **how) as stream:
        records = sum(len(batch) for batch in stream)
    for writer in writers:
        writer.join()
    assert records == 40
