"""Arguments of the data sets for libraries: errors that are skipped, limits, and names of other loaders."""

import inspect

import pipemill
import pytest
from e2e import PATIENCE

TYPES = {"types": "int64"}
ERRORS = ["on_error", "max_errors", "quarantine", "on_plugin_error", "max_record", "limits"]
GOOD = [n for n in range(100) if n % 40 != 7]


def function(name):
    module, _, attribute = name.partition(".")
    found = pytest.importorskip(f"pipemill.{module}")
    return getattr(found, attribute)


NAMES = ["torch.Loader", "torch.Dataset", "hf.iterable", "ray.read", "ray.Datasource", "grain.dataset", "tf.dataset"]


@pytest.fixture
def rows(tmp_path):
    """An object with three bad rows."""
    path = tmp_path / "rows.csv"
    path.write_text("".join(f"{n if n % 40 != 7 else 'bad'}\n" for n in range(100)))
    return str(path)


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_explicit(name):
    signature = inspect.signature(function(name))
    kinds = {one.kind for one in signature.parameters.values()}
    assert kinds == {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    assert {"source", "decoder", "options", "fields", *ERRORS} <= set(signature.parameters)
    assert all(one.annotation is not inspect.Parameter.empty for one in signature.parameters.values())


#: Arguments of `open` and `connect`, by name.
BOTH = {**inspect.signature(pipemill.connect).parameters, **inspect.signature(pipemill.open).parameters}
TENSORS = {"copy", "absent", "dense"}
#: Arguments that only one of them has, and those that it lacks because it has another way for them.
DIFFERENT = {
    "torch.Loader": (TENSORS | {"steps", "device", "pin_memory", "replay", "equal_steps"}, {"state"}),
    "torch.Dataset": (TENSORS | {"equal_steps"}, {"state"}),
    "grain.dataset": ({"absent"}, set()),
    "tf.dataset": ({"absent"}, set()),
}
#: Defaults that differ, because a trainer's loop differs. `None` is that of `open` or `connect`.
TORCH_DEFAULTS = {"epochs": None, "rank": "auto", "credits": None, "hold_timeout": None, "wait": None}


@pytest.mark.parametrize("name", DIFFERENT)
def test_arguments_are_those_of_open_and_connect(name):
    parameters = inspect.signature(function(name)).parameters
    own, missing = DIFFERENT[name]
    assert set(parameters) - own == set(BOTH) - missing - {"channel"}
    others = TORCH_DEFAULTS if name.startswith("torch") else {}
    for argument in set(parameters) & set(BOTH):
        assert parameters[argument].default == others.get(argument, BOTH[argument].default), argument
        if argument in ("socket", "credits"):
            continue  # each of `open` and `connect` has its own
        words = {word.strip() for word in BOTH[argument].annotation.split("|")}
        assert words <= {word.strip() for word in parameters[argument].annotation.split("|")}, argument


@pytest.mark.parametrize("name", DIFFERENT)
def test_each_argument_is_passed_on(name, monkeypatch):
    class Passed(Exception):
        pass

    def reading(source, decoder, socket, *more):
        found = next(one for one in more if isinstance(one, dict))
        extra = {"rank": one for one in more if not isinstance(one, dict | int)}
        raise Passed({"source": source, "decoder": decoder, "socket": socket, **found, **extra})

    module = name.split(".")[0]
    monkeypatch.setattr(f"pipemill.{'torch.dataset' if module == 'torch' else module}.Reading", reading)
    parameters = inspect.signature(function(name)).parameters
    said = {argument: f"the value of {argument}" for argument in set(parameters) & set(BOTH) | {"source", "decoder"}}
    with pytest.raises(Passed) as caught:
        function(name)(**said)
    assert caught.value.args == (said,)


def values(name, source, **more):
    """The numbers of a source, as the library returns them."""
    make = function(name)
    if name.startswith("torch"):
        return [n for batch in make(source, "csv", batch=9, **more) for n in batch["f0"].tolist()]
    if name == "hf.iterable":
        return [one["f0"] for one in make(source, "csv", **more)]
    if name.startswith("ray"):
        datasource = function("ray.Datasource")(source, "csv", rows_per_block=9, **more)
        [task] = datasource.get_read_tasks(1)
        return [n for block in task.read_fn() for n in block["f0"].to_pylist()]
    return [n for batch in make(source, "csv", batch=9, **more) for n in list(map(int, batch["f0"]))]


@pytest.mark.parametrize("name", NAMES)
def test_errors_are_skipped_where_the_program_says_so(name, rows):
    once = {"epochs": 1} if "torch" in name or name in ("grain.dataset", "tf.dataset") else {}
    limits = {"memory": "256MiB"}
    assert values(name, rows, options=TYPES, on_error="skip", limits=limits, **once) == GOOD
    with pytest.raises(Exception, match="expected int64, found"):
        values(name, rows, options=TYPES, **once)
    with pytest.raises(Exception, match="decode error number 2 of the epoch"):
        values(name, rows, options=TYPES, on_error="skip", max_errors=1, **once)


@pytest.mark.parametrize("name", NAMES)
def test_names_of_other_loaders_are_answered(name, rows):
    make, said = function(name), {}
    for other in ("batch_size", "num_workers", "drop_last", "seed", "sampler", "collate_fn", "prefetch_factor",
                  "persistent_workers", "worker_init_fn", "multiprocessing_context", "no_such_name"):  # fmt: skip
        with pytest.raises(TypeError, match=rf"takes no argument '{other}'[:;]") as caught:
            make(rows, "csv", **{other: 7})
        said[other] = str(caught.value)
    assert {"hf": "batch_size=", "ray": "rows_per_block=7"}.get(name.split(".")[0], "batch=7") in said["batch_size"]
    with pytest.raises(TypeError, match="shuffle"):
        make(rows, "csv", shuffle=True)


def test_the_count_of_a_loader_and_of_a_dataset_with_workers(rows):
    from pipemill.torch import Dataset, Loader
    from torch.utils.data import DataLoader

    loader = Loader(rows, "csv", options=TYPES, on_error="skip", batch=9, tail="pad", timeout=PATIENCE)
    assert loader.skipped in range(100)
    assert sum(batch.valid for batch in loader) == len(GOOD)
    # The host reads ahead, into further epochs.
    assert loader.skipped >= 3 and loader.skipped % 3 == 0 or loader.skipped > 3
    loader.close()
    loader = Loader(rows, "csv", options=TYPES, on_error="skip", batch=9, tail="pad", epochs=2)
    assert [sum(batch.valid for batch in loader) for _ in range(2)] == [len(GOOD), len(GOOD)]
    assert loader.skipped == 6
    loader.close()
    assert loader.skipped == 6
    data = Dataset(rows, "csv", options=TYPES, on_error="skip", batch=9, tail="pad", timeout=PATIENCE)
    workers = DataLoader(data, batch_size=None, num_workers=2)
    assert sum(batch.valid for batch in workers) == len(GOOD)
    assert data.skipped >= 3
    data.close()


def test_what_is_for_a_channel_or_for_a_source(rows, tmp_path):
    from pipemill.torch import Loader

    grain = pytest.importorskip("pipemill.grain")
    with pytest.raises(TypeError, match="wait=5 is for a channel, and .* is a source; leave it out"):
        grain.dataset(rows, wait=5)
    with pytest.raises(TypeError, match="on_error='skip' is for a source, and 'train' is a channel"):
        grain.dataset("train", socket="/nowhere", on_error="skip")
    with pytest.raises(ValueError, match="limits= is for a source, and 'train' is a channel"):
        Loader("train", socket="/nowhere", limits={"memory": "1GiB"})
    with pytest.raises(ValueError, match="wait= is for a channel"):
        Loader(rows, "csv", wait=5)
