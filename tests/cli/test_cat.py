"""`pipemill cat`: what it prints, its exit codes, and what it does about bad records."""

import base64
import gzip
import json
import os
import subprocess
import zlib

import pytest
from e2e import PATIENCE, PIPEMILL, in_background, recordio, run, tfrecord

PAYLOADS = [b"", b"one", b"\x00\xff" * 50, "zwölf".encode(), b"x" * 100_000]


def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def payload(line, field="data"):
    return base64.b64decode(line["fields"][field]["base64"])


@pytest.mark.parametrize("decoder, write", [("tfrecord", tfrecord), ("recordio", recordio)])
def test_framed_records_come_out_with_their_places(tmp_path, decoder, write):
    path = tmp_path / "in.data"
    path.write_bytes(b"".join(map(write, PAYLOADS)))
    done = run("cat", "--decoder", decoder, path)
    assert done.returncode == 0 and done.stderr == b""
    offset = 0
    for index, (line, want) in enumerate(zip(lines(done), PAYLOADS)):
        assert line["object"] == str(path)
        assert (line["index"], line["offset"], payload(line)) == (index, offset, want)
        offset += len(write(want))
    assert len(lines(done)) == len(PAYLOADS)
    count = run("cat", "--decoder", decoder, "--output", "count", path)
    assert count.stdout == b"records=%d bytes=%d\n" % (len(PAYLOADS), sum(map(len, PAYLOADS)))
    raw = run("cat", "--decoder", decoder, "--output", "raw", path)
    assert raw.stdout == b"".join(PAYLOADS)


def test_csv_values_have_their_types():
    text = 'id,name,score\n1,"a ""b"" c",0.5\n-2,é,inf\n'.encode()
    done = run(
        *["cat", "--decoder", "csv", "--option", "header=true"],
        *["--option", "types=id:int64,name:utf8,score:float32", "-"],
        stdin=text,
    )
    assert [line["fields"] for line in lines(done)] == [
        {"id": 1, "name": 'a "b" c', "score": 0.5},
        {"id": -2, "name": "é", "score": "Infinity"},
    ]
    assert [line["offset"] for line in lines(done)] == [14, 32]


def test_an_empty_typed_field_is_null():
    done = run("cat", "-d", "csv", "-o", "types=int32", "-", stdin=b"1,2\n3,\n")
    assert [line["fields"] for line in lines(done)] == [{"f0": 1, "f1": 2}, {"f0": 3, "f1": None}]


def test_dense_csv_is_an_array():
    done = run("cat", "-d", "csv", "-o", "emit=dense", "-", stdin=b"1,2.5,-3\n4,5,6\n")
    assert [line["fields"]["x"] for line in lines(done)] == [[1, 2.5, -3], [4, 5, 6]]


def test_lines_keep_their_bytes():
    done = run("cat", "-d", "lines", "-o", "utf8=false", "-", stdin=b"a\r\n\nlast\xff")
    assert [payload(line, "line") for line in lines(done)] == [b"a", b"", b"last\xff"]


def test_the_good_records_before_a_bad_one_are_printed():
    good = tfrecord(b"one") + tfrecord(b"two")
    bad = bytearray(tfrecord(b"three"))
    bad[13] ^= 1
    done = run("cat", "-d", "tfrecord", "-", stdin=good + bad + tfrecord(b"four"))
    assert done.returncode == 65
    assert [payload(line) for line in lines(done)] == [b"one", b"two"]
    for part in ["epoch 0", "object -", f"byte offset {len(good)}", "record 2", "tfrecord", "CRC"]:
        assert part in done.stderr.decode()


def test_skip_and_quarantine_go_on_at_the_right_place(tmp_path):
    bad = bytearray(tfrecord(b"three"))
    bad[13] ^= 1
    data = tfrecord(b"one") + bad + tfrecord(b"four")
    skipped = run("cat", "-d", "tfrecord", "--on-error", "skip", "-", stdin=data)
    assert skipped.returncode == 0
    assert [payload(line) for line in lines(skipped)] == [b"one", b"four"]
    kept = tmp_path / "bad.jsonl"
    run("cat", "-d", "tfrecord", "--on-error", "quarantine", "--quarantine", kept, "-", stdin=data)
    (place,) = map(json.loads, kept.read_text().splitlines())
    assert (place["channel"], place["epoch"], place["object"]) == ("cat", 0, "-")
    assert (place["offset"], place["length"]) == (len(tfrecord(b"one")), len(bad))
    assert "CRC" in place["reason"]
    assert base64.b64decode(place["bytes"]) == bytes(bad)


def test_recordio_searches_the_next_record():
    data = recordio(b"one") + b"garbage!" * 5 + recordio(b"two") + recordio(b"three")
    done = run("cat", "-d", "recordio", "--on-error", "skip", "-", stdin=data)
    assert [payload(line) for line in lines(done)] == [b"one", b"two", b"three"]
    assert lines(done)[1]["offset"] == len(recordio(b"one")) + 40


def test_too_many_bad_places_are_an_error():
    data = b"1,2\n" + b"3\n" * 5 + b"4,5\n"
    done = run("cat", "-d", "csv", "--on-error", "skip", "--max-errors", 3, "-", stdin=data)
    assert done.returncode == 65 and b"max_errors" in done.stderr


@pytest.mark.parametrize("cut", range(1, 20))
def test_an_input_that_ends_inside_a_record_is_an_error(cut):
    data = tfrecord(b"one") + tfrecord(b"two")[:-cut]
    done = run("cat", "-d", "tfrecord", "-", stdin=data)
    if cut == len(tfrecord(b"two")):
        assert done.returncode == 0
        return
    assert done.returncode == 65 and b"byte offset 19" in done.stderr
    assert [payload(line) for line in lines(done)] == [b"one"]


def test_compressed_objects(tmp_path):
    data = b"".join(map(tfrecord, PAYLOADS))
    want = b"records=5 bytes=%d\n" % sum(map(len, PAYLOADS))
    named = tmp_path / "a.tfrecord.gz"
    named.write_bytes(gzip.compress(data[:40]) + gzip.compress(data[40:]))
    unnamed = tmp_path / "b"
    unnamed.write_bytes(gzip.compress(data))
    count = ["cat", "-d", "tfrecord", "--output", "count"]
    assert run(*count, named).stdout == want
    assert run(*count, "--compression", "gzip", unnamed).stdout == want
    named.write_bytes(gzip.compress(data)[:-20])
    cut = run(*count, named)
    assert cut.returncode == 65 and b"gzip" in cut.stderr and b"cut short" in cut.stderr
    named.write_bytes(b"no gzip at all" + zlib.compress(data))
    assert run(*count, named).returncode == 65


def test_folders_fifos_and_several_sources(tmp_path):
    folder = tmp_path / "folder"
    (folder / "below").mkdir(parents=True)
    (folder / "b").write_bytes(tfrecord(b"2"))
    (folder / "a").write_bytes(tfrecord(b"1"))
    (folder / "below" / "c").write_bytes(tfrecord(b"3"))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    in_background(lambda: fifo.write_bytes(tfrecord(b"4")))
    done = run("cat", "-d", "tfrecord", folder, fifo)
    assert [payload(line) for line in lines(done)] == [b"1", b"2", b"3", b"4"]
    assert [line["index"] for line in lines(done)] == [0, 0, 0, 0]


def test_exit_codes_and_remedies(tmp_path):
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    cases = [
        (["cat", "-d", "tfrecord", tmp_path / "none"], 66, b"check the path"),
        (["cat", "-d", "tfrecrd", empty], 64, b"built in are array-record, arrow, augmented-manifest, avro, csv"),
        (["cat", "-d", tmp_path / "none.wasm", empty], 64, b"can't be read"),
        (["cat", "-d", empty, empty], 64, b"not WebAssembly"),
        (["cat", "-d", "tfrecord", "-o", "verfy=true", empty], 64, b"did you mean `verify`"),
        (["cat", "-d", "tfrecord", "-o", "verify=maybe", empty], 64, b"true or false"),
        (["cat", "-d", "tfrecord"], 64, b"SOURCE"),
        (["cat", "-d", "tfrecord", "--on-error", "quarantine", empty], 64, b"--quarantine"),
        (["frobnicate"], 64, b"frobnicate"),
        (["cat", "-d", "tfrecord", empty], 0, b""),
    ]
    for args, code, words in cases:
        done = run(*args)
        assert (done.returncode, words in done.stderr) == (code, True), (args, done)


def test_a_reader_that_leaves_is_no_error(tmp_path):
    path = tmp_path / "many"
    path.write_bytes(b"line\n" * 500_000)
    shell = f"'{PIPEMILL}' cat -d lines '{path}' | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0 and done.stderr == b"" and done.stdout.count(b"\n") == 1


def test_plugins_are_listed_with_their_options():
    listed = run("plugin", "list").stdout.decode()
    for word in ["csv", "lines", "recordio", "tfrecord", "multipart", "verify", "delimiter"]:
        assert word in listed
