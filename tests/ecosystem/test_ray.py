"""Sources as data sets of Ray Data, on a cluster of two nodes."""

import collections
import os
import pathlib
import signal
import sys

import failing
import numpy as np
import pytest
import ray
from e2e import patiently
from ray import cloudpickle
from ray.cluster_utils import Cluster
from ray.data.datasource import ReadTask

import pipemill
import pipemill.ray
from pipemill.objects import Object, deal


# The workers can't import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
cloudpickle.register_pickle_by_value(failing)


@pytest.fixture(scope="module")
def cluster():
    memory = 300 << 20
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": memory})
    nodes.add_node(num_cpus=1, object_store_memory=memory)
    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield nodes
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture
def files(tmp_path):
    """Objects of different sizes: together the numbers from 0 to 9,999."""
    at = 0
    for name, count in (("a", 4000), ("b", 1), ("c", 2500), ("d", 3499)):
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(f'{{"n": {n}, "t": "record {n}", "v": [{n}, 1]}}\n' for n in range(at, at + count))
        )
        at += count
    return tmp_path


OPTIONS = {"fields": "n=/n:int64,t=/t:utf8,v=/v:float32[2]"}


def test_each_record_once_in_blocks_of_one_size(cluster, files):
    source = pipemill.ray.Datasource(files / "*.jsonl", options=OPTIONS, rows_per_block=512)
    tasks = source.get_read_tasks(3)
    read = [[table.num_rows for table in task.read_fn()] for task in tasks]
    assert len(read) == 3 and sum(map(sum, read)) == 10_000
    for rows in read:
        assert set(rows[:-1]) <= {512} and 1 <= rows[-1] <= 512
    assert [name for task in tasks for name in task.metadata.input_files] != []

    data = pipemill.ray.read(files / "*.jsonl", options=OPTIONS, rows_per_block=512)
    assert str(data.schema().types[0]) == "int64"
    assert sorted(row["n"] for row in data.iter_rows()) == list(range(10_000))
    batch = data.take_batch(100)
    assert (batch["v"].dtype, batch["v"].shape) == (np.dtype("f4"), (100, 2))
    assert list(batch["t"]) == [f"record {n}" for n in batch["n"]]


def test_absent_values_are_null_or_what_the_program_says(tmp_path):
    """All blocks have one schema, including those without an absent value."""
    rows = ('{"n": 1, "t": "x", "v": [1, 2]}', '{"n": 2, "t": "", "v": [3, 4]}', "{}")
    for number, row in enumerate(rows):
        (tmp_path / f"{number}.jsonl").write_text(f"{row}\n")
    options = {"fields": "n=/n:int64?,t=/t:utf8?,v=/v:float32[2]?"}

    def blocks(**more):
        source = pipemill.ray.Datasource(tmp_path, options=options, **more)
        found = [block for task in source.get_read_tasks(3) for block in task.read_fn()]
        assert len(found) == 3 and len({str(block.schema) for block in found}) == 1
        return found

    last = blocks()[-1]
    assert [column.to_pylist() for column in last.columns] == [[None], [None], [None]]
    last = blocks(absent={"n": -1, "t": "none", "v": 0.5})[-1]
    assert [column.to_pylist()[0] for column in last.columns[:2]] == [-1, "none"]
    assert np.array(last.column(2).to_pylist()).tolist() == [[0.5, 0.5]]
    with pytest.raises(ValueError, match="absent= names 'm'; the records have 'n', 't', 'v'"):
        pipemill.ray.Datasource(tmp_path, options=options, absent={"m": 0})


def test_a_task_refuses_what_open_refuses(cluster, tmp_path):
    (tmp_path / "a.csv").write_text("id,v\n1,2\n")
    (tmp_path / "b.csv").write_text("id,v\n3,0.5\n")
    with pytest.raises(pipemill.DecodeError) as theirs:
        list(pipemill.cat(tmp_path))
    text = str(theirs.value).partition("byte offset")[2]
    source = pipemill.ray.Datasource(tmp_path)
    with pytest.raises(pipemill.DecodeError) as ours:
        [block for task in source.get_read_tasks(2) for block in task.read_fn()]
    assert text and text in str(ours.value)
    with pytest.raises(Exception) as ours:
        pipemill.ray.read(tmp_path).materialize()
    assert text in str(ours.value)


class Dying(pipemill.ray.Datasource):
    """Each of the first read tasks to come to its third block is killed there, once."""

    def __init__(self, marks, *args, **more):
        super().__init__(*args, **more)
        self.marks = marks

    def get_read_tasks(self, *args, **more):
        tasks = super().get_read_tasks(*args, **more)
        marks = self.marks

        def dying(number, read):
            def run():
                for count, block in enumerate(read()):
                    if count == 2:
                        die_once(marks / str(number))
                    yield block

            return run

        return [ReadTask(dying(*one), task.metadata) for task in tasks for one in [(tasks.index(task), task.read_fn)]]


def die_once(mark):
    """Notes the children of this process, its hosts, and exits as if the kernel had killed it: but
    only the first time."""
    try:
        file = os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return
    pid = os.getpid()
    children = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    os.write(file, " ".join(one.read_text() for one in children).encode())
    os.close(file)
    os.kill(pid, signal.SIGKILL)


def test_a_read_worker_that_is_killed_costs_no_record(cluster, files, tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    source = Dying(marks, files / "*.jsonl", options=OPTIONS, rows_per_block=500)
    data = ray.data.read_datasource(source, override_num_blocks=3)
    found = collections.Counter(row["n"] for row in data.iter_rows())
    assert found == collections.Counter(range(10_000))
    hosts = [int(pid) for mark in marks.iterdir() for pid in mark.read_text().split()]
    assert len(list(marks.iterdir())) == 3 and len(hosts) == 3
    patiently(lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in hosts))


@ray.remote
def reads(path):
    return failing.read(path)


@ray.remote
def raises(kind):
    raise getattr(pipemill, kind)(f"a {kind} of a task")


def test_errors_reach_the_driver(cluster, tmp_path):
    path = failing.write(tmp_path)
    with pytest.raises(pipemill.DecodeError) as caught:
        ray.get(reads.remote(path))
    failing.check(caught.value.cause, path)
    with pytest.raises(pipemill.DecodeError, match="line 4, column 0") as caught:
        pipemill.ray.read(path, "csv", options={"types": "int64"}).count()
    assert (caught.value.kind, caught.value.object, caught.value.record) == ("decode", path, 3)
    for kind in ("HostDied", "StreamTimeout", "BinaryNotFound", "Refused", "StateError", "SourceError"):
        with pytest.raises(getattr(pipemill, kind), match=f"a {kind} of a task"):
            ray.get(raises.remote(kind))


def test_the_example_of_the_page(cluster, tmp_path, monkeypatch, capsys):
    from test_libraries_page import DATA, EXAMPLES

    (tmp_path / "animals.csv").write_text(DATA)
    monkeypatch.chdir(tmp_path)
    (example,) = (example for example in EXAMPLES if "pipemill.ray" in example)
    exec(example, {})
    assert capsys.readouterr().out == f"1000 {sum(range(1000))}\n"


def test_objects_are_dealt_by_their_sizes():
    objects = [Object(str(n), size) for n, size in enumerate((5, 1, 1, 1, 1, 1, 10, 0))]
    parts = deal(objects, 2)
    assert [sum(one.size for one in part) for part in parts] == [10, 10]
    assert sorted(one.name for part in parts for one in part) == [str(n) for n in range(8)]
    assert deal(objects, 2) == parts
    assert deal(objects[:1], 5) == [objects[:1]]


def test_a_source_that_can_not_be_listed():
    with pytest.raises(pipemill.SourceError, match="/nowhere"):
        pipemill.ray.read("/nowhere/*.csv")


def of_a_worker(config):
    """The work of each worker of Ray Train: two epochs of a `Loader`, with a step of all workers
    for each batch.
    """
    import json

    import ray.train
    import ray.train.torch
    import torch
    from pipemill.torch import Loader

    context = ray.train.get_context()
    seen = []
    model = ray.train.torch.prepare_model(torch.nn.Linear(1, 1))
    loader = Loader(config["source"], "npy", batch=4, tail="pad")
    for _ in range(2):
        for batch in loader:
            seen.append(batch["data"].tolist())
            model(batch["data"].float()[:, None]).mean().backward()
    loader.close()
    path = pathlib.Path(config["folder"], f"{context.get_world_rank()}.json")
    path.write_text(json.dumps([context.get_world_size(), seen]))


def test_a_loader_under_ray_train(cluster, tmp_path):
    import json

    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    (tmp_path / "rows").mkdir()
    for number, first in enumerate((0, 6, 11, 17)):
        np.save(tmp_path / f"rows/{number}.npy", np.arange(first, (6, 11, 17, 23)[number]))
    trainer = TorchTrainer(
        of_a_worker,
        train_loop_config={"source": str(tmp_path / "rows"), "folder": str(tmp_path)},
        scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
        torch_config=TorchConfig(backend="gloo"),
        run_config=RunConfig(storage_path=str(tmp_path / "results"), name="loader"),
    )
    trainer.fit()
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert first == [2, [[0, 1, 2, 3], [4, 5, 11, 12], [13, 14, 15, 16]] * 2]
    assert second == [2, [[6, 7, 8, 9], [10, 17, 18, 19], [20, 21, 22, 22]] * 2]
