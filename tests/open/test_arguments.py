"""Arguments of `open`, `cat` and `connect`: errors that are skipped, limits, and names of other loaders."""

import inspect
import json

import pipemill
import pytest
from e2e import PATIENCE
from hosts import start
from pipemill.arguments import REMEDIES

__all__ = ["start"]

TYPES = {"types": "int64"}


@pytest.fixture
def rows(tmp_path):
    """Two objects with 100 rows and 3 bad ones each."""
    for name in "ab":
        lines = [str(n) if n % 40 != 7 else f"bad {n}" for n in range(103)]
        (tmp_path / f"{name}.csv").write_text("".join(f"{line}\n" for line in lines))
    return f"{tmp_path}/*.csv"


GOOD = [n for n in range(103) if n % 40 != 7] * 2


def numbers(batches):
    return [n for batch in batches for n in batch["f0"].tolist()]


def test_errors_are_skipped_and_counted(rows, capfd):
    with pipemill.open(rows, "csv", options=TYPES, on_error="skip", batch=10, credits=2) as stream:
        found = []
        for batch in stream:
            found += batch["f0"].tolist()
            # The host may be ahead, but never behind.
            assert stream.skipped >= sum(n < 103 and n % 40 == 7 for n in range(found[-1])) or len(found) > 100
    assert found == GOOD and stream.skipped == 6
    assert "bad 7" in capfd.readouterr().err


def test_the_count_after_a_close_is_the_last_one(rows):
    with pipemill.open(rows, "csv", options=TYPES, on_error="skip") as stream:
        batches = list(zip(range(1), stream))
    assert batches and 0 <= stream.skipped <= 6
    with pipemill.open(rows, "csv", options={"types": "utf8"}) as stream:
        assert stream.skipped == 0


def test_a_quarantine_has_the_bad_bytes(rows, tmp_path):
    path = tmp_path / "da$ta.jsonl"
    with pipemill.open(rows, "csv", options=TYPES, on_error="quarantine", quarantine=path) as stream:
        assert numbers(stream) == GOOD
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 6


def test_more_errors_than_allowed_end_it(rows):
    with pytest.raises(pipemill.DecodeError, match="decode error number 5 of the epoch, more than"):
        with pipemill.open(rows, "csv", options=TYPES, on_error="skip", max_errors=4) as stream:
            numbers(stream)


def test_a_larger_record_and_limits(tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("x" * 3000 + "\nshort\n")
    with pytest.raises(pipemill.DecodeError, match=r"longer than max_record \(2048 bytes\)"):
        list(pipemill.open(path, "lines", max_record="2KiB"))
    limits = {"memory": "32MiB", "call_timeout": "1m", "output": "1MiB"}
    with pipemill.open(path, "lines", max_record="4KiB", limits=limits) as stream:
        assert [len(line) for batch in stream for line in batch.records()] == [3000, 5]
    with pytest.raises(pipemill.RefusedError, match="limits.memory: expected a size"):
        pipemill.open(path, "lines", limits={"memory": 5})
    with pytest.raises(pipemill.RefusedError, match="limits.memoryy: unknown key; did you mean `memory`"):
        pipemill.open(path, "lines", limits={"memoryy": "1GiB"})
    with pytest.raises(TypeError, match="expected a dict, such as"):
        pipemill.open(path, "lines", limits="1GiB")


def test_wrong_words_have_the_text_of_the_host(rows):
    with pytest.raises(pipemill.RefusedError, match="on_error: expected"):
        pipemill.open(rows, "csv", on_error="ignore")
    with pytest.raises(pipemill.RefusedError, match="max_errors"):
        pipemill.open(rows, "csv", max_errors=3)
    with pytest.raises(pipemill.RefusedError, match="on_plugin_error: expected"):
        pipemill.open(rows, "csv", on_plugin_error="skip")


def test_cat(rows):
    records = pipemill.cat(rows, "csv", options=TYPES, on_error="skip")
    assert [one["f0"] for one in records] == GOOD and records.skipped == 6
    records = pipemill.cat(rows, "csv", options=TYPES, on_error="skip", limit=8)
    assert len(list(records)) == 8 and records.skipped >= 1
    records = pipemill.cat(rows, "csv", options=TYPES)
    next(records)
    records.close()
    assert list(records) == []
    with pytest.raises(pipemill.DecodeError, match="line 8"):
        list(pipemill.cat(rows, "csv", options=TYPES))


def test_the_count_of_a_channel_and_of_a_transform(start, rows):
    host = start(
        f'[[channel]]\nname = "train"\nsource = {{ glob = "{rows}" }}\ndecoder = "csv"\n'
        'options = { types = "int64" }\non_error = "skip"\nbatch = 50\n'
    )
    with host.connect() as stream:
        batches = stream.map(lambda batch: len(batch))
        # The first batch was delivered when its seventh row was left out.
        assert next(batches) == 50 and batches.skipped >= 1
        assert sum(batches) == 150
    host.end()
    assert stream.skipped >= 1


# --- names


@pytest.mark.parametrize("function, names", [
    (pipemill.open, ["on_error", "max_errors", "quarantine", "on_plugin_error", "max_record", "limits", "batch"]),
    (pipemill.cat, ["on_error", "max_errors", "quarantine", "on_plugin_error", "max_record", "limits", "limit"]),
    (pipemill.connect, ["socket", "batch", "state"]),
])  # fmt: skip
def test_signatures_are_explicit(function, names):
    signature = inspect.signature(function)
    kinds = {one.kind for one in signature.parameters.values()}
    assert kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    assert set(names) <= set(signature.parameters)
    assert all(one.annotation is not inspect.Parameter.empty for one in signature.parameters.values())


SAID = [
    ({"batch_size": 256}, "say batch=256"),
    ({"num_workers": 4}, "say workers=4"),
    ({"drop_last": True}, 'say tail="drop"'),
    ({"seed": 7}, "say shuffle=7"),
    ({"sampler": None}, "shuffle=SEED"),
    ({"collate_fn": len}, "stream.map"),
    ({"persistent_workers": True}, "no worker processes"),
    ({"prefetch_factor": 2}, "credits="),
    ({"worker_init_fn": len}, "no worker processes"),
    ({"multiprocessing_context": "fork"}, "no worker processes"),
    ({"shard": (0, 2)}, "rank=(rank, world)"),
    ({"memory": "1GiB"}, "limits={'memory': '1GiB'}"),
    ({"compression": "gzip"}, "'gzip'"),
    ({"anonymous": True}, "'anonymous': True"),
    ({"bach": 4}, "did you mean batch=?"),
    ({"types": "auto"}, "options={'types': 'auto'}"),
]


@pytest.mark.parametrize("given, said", SAID, ids=[next(iter(given)) for given, _ in SAID])
def test_names_of_other_loaders_are_answered(rows, given, said):
    [name] = given
    for function in (pipemill.open, pipemill.cat):
        with pytest.raises(TypeError) as caught:
            function(rows, **given)
        assert f"{function.__name__}() takes no argument {name!r}" in str(caught.value)
        if function is pipemill.open or name != "bach":
            assert said in str(caught.value)


def test_what_open_takes_and_cat_does_not(rows):
    for name in set(inspect.signature(pipemill.open).parameters) - set(inspect.signature(pipemill.cat).parameters):
        with pytest.raises(TypeError, match=rf"cat\(\) takes no argument '{name}': that is for pipemill.open\(\), which"):
            pipemill.cat(rows, **{name: None})


def test_each_remedy_is_a_sentence():
    for name, text in REMEDIES.items():
        filled = text.format(name=name, value=5)
        assert filled and not filled.endswith("."), name
        # It names only arguments that exist.
        assert name not in inspect.signature(pipemill.open).parameters


def test_what_a_channel_says_is_no_argument_of_connect():
    for name in ("on_error", "shuffle", "decoder", "limits"):
        with pytest.raises(TypeError, match=f"the channel's configuration says that: `{name}`"):
            pipemill.connect("train", "/nowhere", **{name: None})
    with pytest.raises(TypeError, match="say batch=256"):
        pipemill.connect("train", "/nowhere", batch_size=256)


def test_shuffle_is_a_seed(rows):
    with pytest.raises(TypeError, match="shuffle=True: which order. Say shuffle=SEED, such as shuffle=7"):
        pipemill.open(rows, "csv", shuffle=True)
    with pipemill.open(rows, "lines", shuffle=False, timeout=PATIENCE) as stream:
        assert sum(map(len, stream)) == 206
