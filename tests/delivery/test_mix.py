"""A channel that mixes others: killed jobs resume at the very next record, and messages name the
channel at fault."""

import os

import pytest
from e2e import finish, in_background, patiently, run
from hosts import start, take, take_all  # noqa: F401
from test_resume import check, refusal


def lines(name, count):
    return "".join(f"{name} {n}{'x' * (n % 7)}\n" for n in range(count))


def mixed(name, file, more=""):
    return f'[[channel]]\nname = "{name}"\nsource = {{ {file} }}\ndecoder = "lines"\n{more}'


def mix(until, more="", epochs=2):
    return (
        '[[channel]]\nname = "train"\nbatch = 7\n'
        f"source = {{ mix = {{ web = 0.7, code = 0.3 }}, until = {until}, epochs = {epochs} }}\n"
        f"{more}\n"
    )


def error(log):
    """The channel's error in the host's log."""
    return next(line for line in log.splitlines() if ": error: " in line).split(": error: ")[1]


def files(tmp_path, web=90, code=40):
    """Two channels: `web` has four files, which are shuffled, and `code` one."""
    (tmp_path / "web").mkdir(exist_ok=True)
    for number, part in enumerate([web // 2, 3, 0, web // 2 - 3]):
        (tmp_path / "web" / f"{number}.txt").write_text(lines(f"web {number}", part))
    (tmp_path / "code.txt").write_text(lines("code", code))
    return mixed("web", f'folder = "{tmp_path}/web"', "shuffle = { seed = 3 }\n") + mixed(
        "code", f'file = "{tmp_path}/code.txt"'
    )


@pytest.mark.parametrize(
    "until, more",
    [
        ('"first"', ""),
        ('"all"', 'tail = "pad"'),
        ("110", ""),
        ("110", "shuffle = { seed = 5, window = 30 }"),
    ],
)
def test_a_killed_job_goes_on(tmp_path, until, more):
    channels = files(tmp_path)
    config = mix(until, more) + channels
    check(tmp_path, config, range(1))
    code, log = refusal(tmp_path, config.replace("web = 0.7", "web = 0.6"))
    expected = f"`mix` was `code 0.300000, web 0.700000, until {until}, seed 0` when the state was"
    assert code == 64 and expected.replace('"', "") in log, log
    changed = config.replace('decoder = "lines"', 'decoder = "lines"\noptions = { skip_blank = true }', 1)
    code, log = refusal(tmp_path, changed)
    assert code == 64 and "channel `train`: `web: options` was `{}` when the state was" in log, log


def test_fifos_are_mixed_and_read_over(tmp_path):
    fifos = tmp_path / "fifos"
    fifos.mkdir()

    def feed():
        for name, count in [("web", 60), ("code", 30)]:
            for epoch in range(2):
                path = fifos / f"{name}_{epoch}"
                if not path.exists():
                    os.mkfifo(path)
                in_background(write, path, lines(f"{name} {epoch}", count))

    def write(path, text):
        try:
            with open(path, "w") as fifo:
                fifo.write(text)
        except BrokenPipeError:
            pass  # the job was killed

    source = f'fifo = "{fifos}"'
    config = mix('"all"') + mixed("web", source) + mixed("code", source)
    check(tmp_path, config, range(1), feed)


@pytest.mark.parametrize("until", ['"first"', '"all"'])
def test_an_epoch_without_records_does_not_end_the_next_one(tmp_path, host, until):
    """The fields of `web` are learned, so its first item is the end of an epoch without records."""
    fifos = tmp_path / "fifos"
    fifos.mkdir()
    rows = {("web", 0): 0, ("web", 1): 60, ("code", 0): 30, ("code", 1): 30}
    for (name, epoch), count in rows.items():
        path = fifos / f"{name}_{epoch}"
        os.mkfifo(path)
        text = "".join(f"{epoch},{number}\n" for number in range(count))
        in_background(path.write_text, text)
    channel = f'source = {{ fifo = "{fifos}" }}\ndecoder = "csv"\noptions = {{ types = "auto" }}\n'
    channels = "".join(f'[[channel]]\nname = "{name}"\n{channel}' for name in ("web", "code"))
    body = (
        'for batch in pipemill.connect("train"):\n'
        "    for row in batch:\n"
        "        print(batch.epoch, row[0], row[1])\n"
    )
    code, out, log = finish(host(mix(until) + channels, body))
    assert code == 0, log
    read = [tuple(map(int, line.split())) for line in out.splitlines()]
    assert all(epoch == of for epoch, of, _ in read)
    second = [number for epoch, _, number in read if epoch == 1]
    assert len(second) == 90 if until == '"all"' else max(second) > 30, second


def test_ranks_share_a_mix(start, tmp_path):  # noqa: F811
    config = mix('"all"', 'tail = "pad"\nmode = "rank"\nconsumers = 2', epochs=1) + files(tmp_path)
    host = start(config)
    with host.connect(rank=(0, 2)) as first, host.connect(rank=(1, 2)) as second:
        seen = []
        for _ in range(10):
            seen += take(first)[2] + take(second)[2]
    assert sorted(seen) == sorted(
        (tmp_path / "code.txt").read_text().split("\n")[:-1]
        + [line for n in range(4) for line in (tmp_path / "web" / f"{n}.txt").read_text().splitlines()]
    )


# All records are in the window when the epoch is ended.
@pytest.mark.parametrize("more", ["", "shuffle = { seed = 7, window = 1000 }"])
def test_an_epoch_that_ends_early_leaves_the_next_one_whole(start, tmp_path, more):  # noqa: F811
    for until in ('"all"', "110"):
        config = mix(until, f"{more}\n[channel.ring]\nslots = 4") + files(tmp_path)
        host = start(config)
        with host.connect() as stream:
            whole = take_all(stream)
        host.end()
        host = start(config)
        with host.connect() as stream:
            epochs = stream.epochs()
            epoch = next(epochs)
            assert take(stream) == whole[0]
            epoch.end()
            next(epochs)
            second = take_all(stream)
        assert [rows for _, _, rows in second] == [rows for e, _, rows in whole if e == 1], until
        host.end()


@pytest.mark.parametrize("tail", ["keep", "drop", "pad"])
@pytest.mark.parametrize("until, more", [('"all"', ""), ("110", "shuffle = { seed = 5, window = 30 }"), ('"first"', "")])
def test_the_length_of_a_mix_of_indexes(start, tmp_path, until, more, tail):  # noqa: F811
    files(tmp_path)
    channels = ""
    for name, source in (("web", "web"), ("code", "code.txt")):
        assert run("index", tmp_path / source, "--out", tmp_path / f"{name}.index", "-d", "lines").returncode == 0
        channels += f'[[channel]]\nname = "{name}"\nsource = {{ index = "{tmp_path}/{name}.index" }}\n'
    host = start(mix(until, f'tail = "{tail}"\n{more}') + channels)
    with host.connect() as stream:
        length = stream.records, stream.batches
        epochs = [[batch.valid for batch in epoch] for epoch in stream.epochs()]
    if until == '"first"':
        # It is drawn, and differs from epoch to epoch.
        assert length == (None, None)
        return
    records = 130 if until == '"all"' else 110
    assert length == (records, {"drop": records // 7}.get(tail, -(-records // 7)))
    for epoch in epochs:
        assert len(epoch) == length[1]
        assert sum(epoch) == (records // 7 * 7 if tail == "drop" else records)


@pytest.mark.parametrize("until, records", [('"all"', None), ("110", 110)])
def test_the_length_of_a_mix_with_an_input_of_unknown_length(start, tmp_path, until, records):  # noqa: F811
    host = start(mix(until) + files(tmp_path))
    with host.connect() as stream:
        assert stream.records == records
        assert sum(len(batch) for batch in stream) == 2 * (records or 130)


def test_a_mix_that_is_at_its_end_begins_again(start, tmp_path):  # noqa: F811
    config = mix('"all"', "[channel.ring]\nslots = 64", epochs=1) + files(tmp_path)
    host = start(config)
    with host.connect() as stream:
        first = take(stream)
        state = stream.state_dict()
        patiently(lambda: "epoch 0: 130 records" in (tmp_path / "host.log").read_text())
        rest = [take(stream), take(stream)]
    with host.connect(state=state) as stream:
        again = take_all(stream)
    assert again[:2] == rest
    assert len([first] + again) == -(-130 // 7)


def test_fields_have_to_agree(start, tmp_path, host):  # noqa: F811
    (tmp_path / "code.csv").write_text("a,b\n1,2\n")
    (tmp_path / "web.txt").write_text("x\n")
    config = (
        mix('"all"')
        + mixed("web", f'file = "{tmp_path}/web.txt"')
        + f'[[channel]]\nname = "code"\nsource = {{ file = "{tmp_path}/code.csv" }}\n'
        + 'decoder = "csv"\noptions = { header = true }\n'
    )
    code, out, log = finish(host(config, 'for batch in pipemill.connect("train"): pass'))
    line = error(log)
    assert line.startswith(
        "channel `web`, epoch 0, decoder lines: its records have the fields line (utf8); the mix "
        "`train` has a (utf8), b (utf8) from a channel before it; channels that are mixed need"
    ), line
    assert code != 0 and "DecodeError" in log


def test_the_channel_that_fails_is_named(tmp_path, host):
    channels = files(tmp_path)
    (tmp_path / "code.txt").write_bytes(b"good\n\xff\xfe bad\n")
    code, out, log = finish(host(mix('"all"') + channels, 'for batch in pipemill.connect("train"): pass'))
    line = error(log)
    assert line.startswith(f"channel `code`, epoch 0, object {tmp_path}/code.txt, byte offset 5"), line
    assert code != 0 and "DecodeError" in log


def test_a_channel_that_is_mixed_has_no_consumers(start, tmp_path):  # noqa: F811
    host = start(mix('"all"') + files(tmp_path))
    with pytest.raises(Exception, match="no channel \"web\" here; there are: \"train\""):
        host.connect("web")


def test_errors_that_are_skipped_are_counted(tmp_path, host):
    channels = files(tmp_path)
    (tmp_path / "code.txt").write_bytes(b"good\n\xff\xfe bad\nmore\n")
    channels = channels.replace('decoder = "lines"\n', 'decoder = "lines"\non_error = "skip"\n')
    body = 'print(sum(len(batch) for batch in pipemill.connect("train")))'
    code, out, log = finish(host(mix('"all"', epochs=1) + channels, body))
    assert (code, out.strip()) == (0, "92"), log
    assert "`train` ended: 92 records" in log and "1 decode error" in log, log
