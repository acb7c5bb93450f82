"""`run --trace`: the events in the trace add up, and the trace can be loaded however the run ends."""

import collections
import json
import os
import re
import signal
from fractions import Fraction

from e2e import finish, patiently

READ = """
import time
with pipemill.connect("train") as stream:
    for batch in stream:
        time.sleep(0.01)
"""

READ_THIRTY_AND_STAY = """
import signal
with pipemill.connect("train") as stream:
    for number, batch in enumerate(stream):
        if number == 30:
            signal.pause()
"""


def channel(source, more="", decoder="csv"):
    ring = '[channel.ring]\nslot_size = "256KiB"\nslots = 4\n'
    source = f"source = {{ {source} }}"
    return f'[[channel]]\nname = "train"\n{source}\ndecoder = "{decoder}"\n{more}\n{ring}'


def load(path):
    """The events, times as whole nanoseconds."""
    events = json.loads(path.read_text(), parse_float=Fraction)
    for event in events:
        for key in {"ts", "dur"} & set(event):
            nanos = Fraction(event[key]) * 1000
            assert nanos.denominator == 1
            event[key] = int(nanos)
    return events


def rows(events):
    """The rows by name, and the spans of each in order."""
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found = {name: [] for name in names.values()}
    for event in events:
        if event["ph"] == "X":
            found[names[event["tid"]]].append(event)
    return {name: sorted(spans, key=lambda e: (e["ts"], e["dur"])) for name, spans in found.items()}


def check_apart(spans):
    for one, next_one in zip(spans, spans[1:]):
        assert one["ts"] + one["dur"] <= next_one["ts"], (one, next_one)


def check_slots(events):
    """Each span that begins ends, in the order of the ring; the ends by category."""
    open_now, ends = {}, collections.defaultdict(list)
    for event in events:
        if event["ph"] not in ("b", "n", "e"):
            continue
        key = event["cat"], event["id"]
        if event["ph"] == "b":
            assert key not in open_now, event
            open_now[key] = event["ts"]
            continue
        assert open_now[key] <= event["ts"], event
        if event["ph"] == "e":
            del open_now[key]
            ends[event["cat"]].append(event)
    assert not open_now
    return ends


def test_what_is_in_it_adds_up(host, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for part in range(3):
        (data / f'{part} "\\.csv').write_text("".join(f"{row},2\n" for row in range(200_000)))
    size = 2 * sum(file.stat().st_size for file in data.iterdir())
    trace = tmp_path / "trace.json"
    child = host(channel(f'folder = "{data}", epochs = 2'), READ, "--trace", trace)
    code, _, log = finish(child)
    assert code == 0, log
    events = load(trace)
    assert not [event for event in events if "dropped" in event["name"]]
    tracks = rows(events)
    stages, objects, epochs = (tracks[f"train{more}"] for more in ["", ": objects", ": epochs"])
    for spans in [stages, objects, epochs]:
        check_apart(spans)
    # One stage begins when the one before it ends: nothing is missing.
    assert all(a["ts"] + a["dur"] == b["ts"] for a, b in zip(stages, stages[1:]))
    calls = [span["args"] for span in stages if span["name"] == "decoder"]
    assert sum(call["records"] for call in calls) == 1_200_000
    assert sum(call["bytes"] for call in calls) == size
    assert sum(s["args"]["bytes"] for s in stages if s["name"] == "source") == size
    assert {call["object"] for call in calls if call["records"]} == {str(f) for f in data.iterdir()}
    assert [span["name"] for span in epochs] == ["epoch 0", "epoch 1"] and len(objects) == 6
    for outer in epochs:
        inner = [o for o in objects if outer["ts"] <= o["ts"] <= outer["ts"] + outer["dur"]]
        assert len(inner) == 3 and all(o["ts"] + o["dur"] <= outer["ts"] + outer["dur"] for o in inner)
    # The log's own numbers, rounded as it does.
    line = next(line for line in log.splitlines() if "`train` ended" in line)
    _, batches = re.search(r"(\d+) records in (\d+) batches", line).groups()
    time_of = lambda name: sum(s["dur"] for s in stages if s["name"] == name) / 1e9
    seconds = float(re.search(r"bytes in (\d+\.\d+) s", line)[1])
    parts = re.findall(r"(\d+)% (\w+)", re.search(r"time: ([^;]*);", line)[1])
    counted = {stage: int(percent) * seconds / 100 for percent, stage in parts}
    # Half of a percent, and the seconds' half of the last digit.
    rounded = 0.005 * seconds + 0.006
    busy = ["source", "decoder", "batch"]
    for stage in busy:
        # A part of it may have been a wait for a core.
        assert time_of(stage) >= counted.get(stage, 0) - rounded, line
    all_busy = sum(counted.get(stage, 0) for stage in [*busy, "cores"])
    assert abs(sum(map(time_of, busy)) - all_busy) <= 4 * rounded, line
    # Waiting for the last ACKs comes after the line.
    assert time_of("consumer") >= counted.get("consumer", 0) - rounded, line
    ends = check_slots(events)
    assert len(ends["slot"]) == len(ends["grant"]) == int(batches)
    assert {end["args"]["what"] for end in ends["grant"]} <= {"RELEASE", "the consumer is gone"}
    acks = [event for event in events if event["ph"] == "n"]
    assert len(acks) == int(batches) and len({event["args"]["grant"] for event in acks}) == len(acks)


def test_a_failure_is_in_it(host, tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("1\nx\n")
    trace = tmp_path / "trace.json"
    finish(host(channel(f'file = "{data}"', 'options = { types = "int32" }'), READ, "--trace", trace))
    (failed,) = [event for event in load(trace) if event["name"] == "failed"]
    assert "byte offset 2, record 1" in failed["args"]["message"]


def test_what_was_written_before_a_sigkill_can_be_loaded(host, tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("1,2\n" * 3_000_000)
    trace = tmp_path / "trace.json"
    child = host(channel(f'file = "{data}"'), READ_THIRTY_AND_STAY, "--trace", trace)
    patiently(lambda: trace.exists() and trace.stat().st_size > 10_000)
    assert child.poll() is None
    child.send_signal(signal.SIGKILL)
    child.wait()
    text = trace.read_text()
    assert not text.endswith("]\n")
    # A kill in the middle of a write may leave half a line.
    whole = text if text.endswith("}") else text[: text.rindex(",\n")]
    repaired = tmp_path / "repaired.json"
    repaired.write_text(whole + "]")
    assert any(event["name"] == "decoder" for event in load(repaired))


def test_a_file_that_can_not_be_written_is_refused_before_the_start(host, tmp_path):
    (tmp_path / "data.csv").write_text("1,2\n")
    there = tmp_path / "started"
    script = f"open({str(there)!r}, 'w')"
    trace = tmp_path / "missing" / "trace.json"
    code, _, log = finish(host(channel(f'file = "{tmp_path}/data.csv"'), script, "--trace", trace))
    assert code == 64 and "--trace: " in log and "; name a file" in log, log
    assert not there.exists()


def test_a_full_disk_changes_no_exit_code(host, tmp_path):
    (tmp_path / "data.csv").write_text("1,2\n")
    if not os.path.exists("/dev/full"):
        return
    code, _, log = finish(
        host(channel(f'file = "{tmp_path}/data.csv"'), READ, "--trace", "/dev/full")
    )
    assert code == 0 and "warn: the trace /dev/full is not whole" in log, log
