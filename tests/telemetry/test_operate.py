"""A running host: metrics, health and status agree with the truth and with docs/operate.md;
`pipemill top`.
"""

import contextlib
import gzip
import http.client
import json
import os
import pathlib
import pty
import re
import select
import signal
import socket
import subprocess
import termios
import time

import pipemill
import pytest
import e2e
from e2e import PATIENCE, PIPEMILL, finish, in_background, recordio, run
from other_user import as_other_user, foreign_host, place  # noqa: F401
from prometheus_client.openmetrics.parser import text_string_to_metric_families

DOCS = pathlib.Path(__file__).parents[2] / "docs" / "operate.md"
READ_ALL = 'with pipemill.connect("train") as stream:\n    for batch in stream: pass\n'
#: Until the test ends it.
STAY = "import signal\nsignal.pause()\n"
#: Takes a batch and keeps it: the channel waits for its consumer from then on.
KEEP = 'with pipemill.connect("train") as stream:\n    batch = next(iter(stream))\n    import signal; signal.pause()\n'


class UnixConnection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.host)


def ask(where, path, method="GET"):
    """Status code, headers and text."""
    if isinstance(where, int):
        connection = http.client.HTTPConnection("127.0.0.1", where, timeout=PATIENCE)
    else:
        connection = UnixConnection(str(where), timeout=PATIENCE)
    connection.request(method, path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, text


def patiently(probe):
    """The result of `look` as soon as it returns something; a host that is not up yet returns
    nothing.
    """
    return e2e.patiently(probe, OSError, http.client.HTTPException)


def samples(where):
    """All samples by name and labels, read by the parser of Prometheus' own Python client."""
    status, headers, text = ask(where, "/metrics")
    assert status == 200
    assert headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, *sorted(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def of(found, name, channel="train", **labels):
    return found[(name, *sorted({"channel": channel, **labels}.items()))]


def ended(where, channel="train"):
    found = samples(where)
    return of(found, "pipemill_state", channel, state="running") == 0 and found


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def channel(source, decoder="recordio", more=""):
    return f'[[channel]]\nname = "train"\nsource = {source}\ndecoder = "{decoder}"\n{more}\n'


def test_metrics_agree_with_what_cat_counts(tmp_path, host, port):
    payloads = [bytes([number % 251]) * (number * 37 % 4000) for number in range(3000)]
    parts = [tmp_path / "a.rec", tmp_path / "b.rec"]
    for path, part in zip(parts, (payloads[:1000], payloads[1000:])):
        path.write_bytes(b"".join(map(recordio, part)))
    # Bad places too: a broken magic number costs the record that it precedes.
    broken = bytearray(parts[0].read_bytes())
    broken[0] ^= 0xFF
    parts[0].write_bytes(broken)
    counted = run(
        *["cat", "-d", "recordio", "--on-error", "skip", "--output", "count"], *parts
    ).stdout.decode()
    records = int(re.search(r"records=(\d+)", counted)[1])
    source = f'{{ glob = "{tmp_path}/*.rec", epochs = 3 }}'
    config = f'metrics = "127.0.0.1:{port}"\n' + channel(source, more='on_error = "skip"')
    child = host(config, READ_ALL + STAY)
    # The channel has ended; its consumer may still read.
    drained = lambda found: found and of(found, "pipemill_slots", state="free") == 16 and found
    found = patiently(lambda: drained(ended(port)))
    sizes = sum(path.stat().st_size for path in parts)
    assert of(found, "pipemill_records_total") == 3 * records == 3 * 2999
    assert of(found, "pipemill_read_bytes_total") == 3 * sizes
    assert of(found, "pipemill_objects_total") == 6
    assert of(found, "pipemill_errors_total", kind="decode") == 3
    assert of(found, "pipemill_errors_total", kind="source") == 0
    assert of(found, "pipemill_state", state="ended") == 1
    assert of(found, "pipemill_epoch") == 3
    calls = of(found, "pipemill_decode_call_seconds_count", decoder="recordio")
    longest = of(found, "pipemill_decode_call_seconds_bucket", decoder="recordio", le="+Inf")
    assert calls == longest > 0
    assert of(found, "pipemill_ring_bytes") == 16 * 4 << 20
    assert of(found, "pipemill_decoder_memory_bytes") >= 65536
    status = json.loads(ask(port, "/status")[2])
    [seen] = status["channels"]
    assert seen["totals"]["records"] == 3 * records
    assert seen["totals"]["batches"] == of(found, "pipemill_batches_total")
    assert [epoch["epoch"] for epoch in seen["epochs"]] == [0, 1, 2]
    assert sum(epoch["totals"]["records"] for epoch in seen["epochs"]) == 3 * records
    assert seen["decode_errors"] == [["decode", 3]]
    child.send_signal(signal.SIGTERM)
    finish(child)


SMALL_RING = '[channel.ring]\nslots = 4\nslot_size = "256KiB"'


def test_the_times_of_the_stages_add_up_to_the_wall_clock(fifos, host, port):
    """They run while all of them have something to do, without end."""
    os.mkfifo(fifos / "train_0")
    config = channel(f'{{ fifo = "{fifos}", epochs = 1 }}', more=SMALL_RING)
    child = host(f'metrics = "127.0.0.1:{port}"\n' + config, READ_ALL)

    def write():
        records = b"".join(recordio(b"x" * 100_000) for _ in range(10))
        with open(fifos / "train_0", "wb", buffering=0) as pipe, contextlib.suppress(OSError):
            while True:
                pipe.write(records)

    in_background(write)

    def stages():
        before = time.monotonic()
        found = samples(port)
        times = [
            of(found, "pipemill_stage_seconds_total", stage=stage)
            for stage in ("source", "decoder", "batch", "consumer", "cores")
        ]
        return before, time.monotonic(), sum(times)

    patiently(lambda: stages()[2] > 0.1)
    first, (_, _, last) = stages(), stages()
    for _ in range(3):
        time.sleep(1)
        begun, over, total = stages()
        spent = total - first[2]
        assert 0.95 * (begun - first[1]) <= spent <= 1.05 * (over - first[0])
        assert total >= last
        last = total
    child.send_signal(signal.SIGTERM)
    finish(child)


def test_a_channel_whose_consumer_waits_is_held_back_by_it(tmp_path, host, port):
    path = tmp_path / "in.rec"
    path.write_bytes(b"".join(recordio(b"x" * 100_000) for _ in range(100)))
    config = channel(f'{{ file = "{path}" }}', more=SMALL_RING)
    child = host(f'metrics = "127.0.0.1:{port}"\n' + config, KEEP)
    # The time belongs to the consumer alone, from the moment when the ring is full.
    patiently(lambda: of(samples(port), "pipemill_bottleneck", stage="consumer") == 1)
    patiently(lambda: of(samples(port), "pipemill_consumers") == 1)
    child.send_signal(signal.SIGTERM)
    finish(child)


def documented():
    """Name, type, further labels and meaning of each metric in the table."""
    row = re.compile(r"^\| `(\w+)` \| (\w+) \| (.*?) ?\| (.*) \|$", re.M)
    return {
        (name, kind, tuple(re.findall(r"\w+", labels)), meaning)
        for name, kind, labels, meaning in row.findall(DOCS.read_text())
        if kind in ("counter", "gauge", "histogram", "info")
    }


def test_what_is_served_is_what_is_documented(tmp_path, host, port):
    path = tmp_path / "in.rec"
    path.write_bytes(recordio(b"x"))
    child = host(
        f'metrics = "127.0.0.1:{port}"\n' + channel(f'{{ file = "{path}" }}'),
        KEEP,
    )
    patiently(lambda: of(samples(port), "pipemill_oldest_grant_seconds") > 0)
    text = ask(port, "/metrics")[2]
    served = set()
    for family in text_string_to_metric_families(text):
        name = family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
        labels = {label for sample in family.samples for label in sample.labels}
        labels -= {"channel", "le"}
        served.add((name, family.type, tuple(sorted(labels)), family.documentation))
    assert served == documented()
    keys = set(re.findall(r"`(\w+)`", DOCS.read_text().split("## The status, as JSON")[1]))

    def walk(value):
        if isinstance(value, dict):
            for key, inner in value.items():
                assert key in keys, f"`{key}` is not documented"
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(json.loads(ask(port, "/status")[2]))
    child.send_signal(signal.SIGTERM)
    finish(child)


def test_a_failed_channel_is_not_ready_but_healthy(tmp_path, host, port):
    path = tmp_path / "in.rec"
    path.write_bytes(recordio(b"x") + b"this is no record at all")
    config = f'fail_grace = "1h"\nmetrics = "127.0.0.1:{port}"\n'
    child = host(
        config + channel(f'{{ file = "{path}" }}'), STAY
    )
    reasons = patiently(lambda: ask(port, "/readyz")[0] == 503 and ask(port, "/readyz")[2])
    assert "channel `train`, epoch 0" in reasons and "byte offset 12" in reasons
    assert ask(port, "/healthz")[::2] == (200, "ok\n")
    found = samples(port)
    assert of(found, "pipemill_state", state="failed") == 1
    assert of(found, "pipemill_errors_total", kind="decode") == 1
    [seen] = json.loads(ask(port, "/status")[2])["channels"]
    assert (seen["error"]["kind"], seen["error"]["offset"]) == ("decode", 12)
    child.send_signal(signal.SIGTERM)
    finish(child)


def test_whoever_asks_wrongly_is_told_and_harms_nobody(tmp_path, host, port):
    path = tmp_path / "in.rec"
    path.write_bytes(recordio(b"x"))
    child = host(
        f'metrics = "127.0.0.1:{port}"\n' + channel(f'{{ file = "{path}" }}'),
        READ_ALL + STAY,
    )
    assert patiently(lambda: ask(port, "/readyz"))[::2] == (200, "ready\n")
    status, headers, _ = ask(port, "/metrics", "POST")
    assert (status, headers["allow"]) == (405, "GET, HEAD")
    assert ask(port, "/nothing")[0] == 404
    assert ask(port, "/metrics", "HEAD")[2] == ""
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
    for garbage in (b"\0" * 100_000, b"GET /metrics HTTP/9.9\r\n\r\n", b"\r\n" * 1000):
        with socket.create_connection(("127.0.0.1", port)) as rude:
            rude.sendall(garbage)
    assert ask(port, "/healthz")[0] == 200
    for connection in idle:
        connection.close()
    child.send_signal(signal.SIGTERM)
    code, _, log = finish(child)
    assert code == 128 + signal.SIGTERM and "panicked" not in log


def test_a_unix_socket_serves_too_and_goes_with_the_host(tmp_path, host):
    path = tmp_path / "in.rec"
    path.write_bytes(recordio(b"x"))
    where = tmp_path / "m" / "metrics.sock"
    config = f'metrics = "{where}"\n' + channel(f'{{ file = "{path}" }}')
    killed = host(config, READ_ALL + STAY)
    assert patiently(lambda: ask(where, "/healthz"))[0] == 200
    killed.kill()
    killed.wait()
    # The files that a killed host leaves are replaced.
    child = host(config, READ_ALL + STAY)
    assert patiently(lambda: ended(where))
    assert where.stat().st_mode & 0o777 == 0o600
    child.send_signal(signal.SIGTERM)
    finish(child)
    assert list(where.parent.iterdir()) == []


def test_a_port_that_is_taken_is_told_before_anything_starts(tmp_path, host):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        path = tmp_path / "in.rec"
        path.write_bytes(recordio(b"x"))
        mark = tmp_path / "started"
        child = host(
            f'metrics = "127.0.0.1:{port}"\n' + channel(f'{{ file = "{path}" }}'),
            f"open({str(mark)!r}, 'w')\n",
        )
        code, _, log = finish(child)
    assert code == 71 and not mark.exists()
    assert f"can't listen on 127.0.0.1:{port}" in log and "give another port" in log


def top(tmp_path, *args):
    return run("top", "--socket", tmp_path / "s" / "pipemill.sock", *args)


def test_top_prints_a_table_or_json_where_it_has_no_screen(tmp_path, host):
    path = tmp_path / "in.rec"
    path.write_bytes(b"".join(recordio(b"x" * 1000) for _ in range(500)))
    child = host(
        channel(f'{{ file = "{path}" }}'), READ_ALL + STAY
    )
    shown = patiently(lambda: b"ended" in top(tmp_path).stdout and top(tmp_path))
    lines = shown.stdout.decode().splitlines()
    assert f"process {child.pid}" in lines[0] and lines[0].endswith("ready")
    assert lines[1].split()[:3] == ["CHANNEL", "STATE", "EPOCH"]
    assert lines[2].split()[:4] == ["train", "ended", "1", "500"]
    status = json.loads(top(tmp_path, "--json").stdout)
    assert status["pid"] == child.pid and status["channels"][0]["totals"]["records"] == 500
    child.send_signal(signal.SIGTERM)
    finish(child)
    gone = top(tmp_path)
    assert gone.returncode == 66 and b"no pipemill host answers" in gone.stderr


class Screen:
    """`pipemill top` on a pseudo terminal."""

    def __init__(self, *args):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm-256color"
            os.execv(PIPEMILL, [PIPEMILL, "top", *map(str, args)])
        termios.tcsetwinsize(self.fd, (30, 120)) if hasattr(termios, "tcsetwinsize") else None
        self.before = termios.tcgetattr(self.fd)
        self.seen = b""

    def until(self, text):
        end = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError:
                    break
        assert text in self.seen

    def end(self):
        while select.select([self.fd], [], [], PATIENCE)[0]:
            try:
                got = os.read(self.fd, 65536)
            except OSError:
                break
            if not got:
                break
            self.seen += got
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return code


def test_top_shows_a_screen_and_gives_the_terminal_back(tmp_path, host):
    path = tmp_path / "in.rec"
    path.write_bytes(b"".join(recordio(b"x" * 100_000) for _ in range(100)))
    child = host(channel(f'{{ file = "{path}", epochs = 1000 }}'), KEEP)
    patiently(lambda: b"running" in top(tmp_path).stdout)
    screen = Screen("--socket", tmp_path / "s" / "pipemill.sock", "--interval", "100ms")
    screen.until("channels".encode())
    screen.until("consumer".encode())
    os.write(screen.fd, b"jk")
    os.write(screen.fd, b"q")
    assert screen.end() == 0
    # The alternate screen is left, and the cursor shown again.
    assert b"\x1b[?1049h" in screen.seen and screen.seen.rindex(b"\x1b[?1049l") > 0
    assert screen.seen.rindex(b"\x1b[?25h") > screen.seen.index(b"\x1b[?25l")
    # It shows a host that ends until the host's end.
    screen = Screen("--socket", tmp_path / "s" / "pipemill.sock", "--interval", "100ms")
    screen.until(b"channels")
    child.send_signal(signal.SIGTERM)
    finish(child)
    assert screen.end() == 0
    assert b"the host has ended" in screen.seen


def test_the_commands_of_the_page_work(tmp_path, host):
    path = tmp_path / "in.rec"
    path.write_bytes(recordio(b"x"))
    child = host(
        channel(f'{{ file = "{path}" }}'), READ_ALL + STAY
    )
    patiently(lambda: b"ended" in top(tmp_path).stdout)
    block = re.search(r"^```sh\n(.*?)^```$", DOCS.read_text(), re.M | re.S)[1]
    commands = [line.split("#")[0].split() for line in block.splitlines()]
    assert len(commands) == 4
    where = str(tmp_path / "s" / "pipemill.sock")
    for name, *args in commands:
        assert name == "pipemill"
        args = [where if arg == "/run/pipemill/pipemill.sock" else arg for arg in args]
        done = run(*args, env={**os.environ, "PIPEMILL_SOCKET": where})
        assert done.returncode == 0 and b"train" in done.stdout, done
    child.send_signal(signal.SIGTERM)
    finish(child)


def test_top_finds_the_hosts_that_programs_have_started(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("PIPEMILL_SOCKET", raising=False)
    path = tmp_path / "in.rec"
    path.write_bytes(b"".join(recordio(b"x" * 1000) for _ in range(500)))
    assert run("top").returncode == 66
    with pipemill.open(path, "recordio", epochs=1000) as stream:
        next(iter(stream))
        first = f"process {stream._host.pid}"
        (heading, *_) = run("top").stdout.decode().splitlines()
        assert first in heading
        (channel,) = json.loads(run("top", "--json").stdout)["channels"]
        assert channel["epoch_share"] is None or 0 <= channel["epoch_share"] <= 1
        # Of several hosts it prints a table each.
        with pipemill.open(path, "recordio", epochs=1000) as other:
            next(iter(other))
            second = f"process {other._host.pid}"
            text = run("top").stdout.decode()
            assert first in text and second in text
            refused = run("top", "--json")
            assert refused.returncode == 64 and b"choose one with --socket" in refused.stderr
            assert other._host.socket.encode() in refused.stderr
            screen = Screen("--interval", "100ms")
            screen.until(b"another host (1 of 2)")
            # Only the cells that change are drawn again, so the text is not there a second time.
            os.write(screen.fd, b"\tq")
            assert screen.end() == 0
    assert run("top").returncode == 66


def test_the_share_of_an_epoch_is_known_of_what_is_read_as_it_is_stored(tmp_path, host):
    plain, compressed = tmp_path / "in.txt", tmp_path / "in.txt.gz"
    plain.write_bytes((b"x" * 99 + b"\n") * 40_000)
    compressed.write_bytes(gzip.compress(plain.read_bytes()))
    for path in plain, compressed:
        # The ring is full long before the end of the file.
        child = host(
            f'[[channel]]\nname = "train"\ndecoder = "lines"\nring = {{ slots = 4, slot_size = "64KiB" }}\n'
            f'source = {{ file = "{path}" }}\n',
            KEEP,
        )
        patiently(lambda: b"running" in top(tmp_path).stdout)

        def begun():
            (channel,) = json.loads(top(tmp_path, "--json").stdout)["channels"]
            return channel if channel["totals"]["records"] else None

        share = patiently(begun)["epoch_share"]
        assert 0 < share < 1 if path == plain else share is None
        child.send_signal(signal.SIGTERM)
        finish(child)


def test_top_looks_at_no_folder_that_another_user_has_made(place, as_other_user, foreign_host, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    monkeypatch.delenv("PIPEMILL_SOCKET", raising=False)
    folder = place / "pipemill"
    assert as_other_user("mkdir", "-m", "755", folder).wait(PATIENCE) == 0
    foreign_host(folder / "pipemill.sock")
    refused = run("top")
    assert refused.returncode == 71 and refused.stdout == b""
    assert b"the folder of the socket must be one" in refused.stderr and b"found owner 65534" in refused.stderr
    # In a folder of this user, the socket is another user's all the same.
    os.chown(folder, 0, 0)
    refused = run("top")
    assert refused.returncode == 71 and refused.stdout == b""
    assert b"found one of user 65534" in refused.stderr and b"--socket" in refused.stderr
    # A person who names the path knows the file.
    assert b"train" in run("top", "--socket", folder / "pipemill.sock").stdout
