"""Libraries whose data sets read a source with a private host: the host is killed, and they
continue.
"""

import pytest
from killing import kill_hosts

import pipemill

COUNT = 600
LIBRARIES = ["hf", "grain", "tf"]


@pytest.fixture
def source(tmp_path):
    for number in range(2):
        at = number * COUNT // 2
        rows = "".join(f"{n},row {n}\n" for n in range(at, at + COUNT // 2))
        (tmp_path / f"{number}.csv").write_text(f"id,text\n{rows}")
    return f"{tmp_path}/*.csv"


def data_set(library, source):
    """Its elements as lists of ids."""
    if library == "hf":
        import pipemill.hf

        # Small batches, so that not all of an object is read before its host is killed.
        return ([one["id"]] for one in pipemill.hf.iterable(source, batch=5))
    if library == "grain":
        import pipemill.grain

        return (one["id"].tolist() for one in pipemill.grain.dataset(source, batch=5))
    import pipemill.tf

    return (one["id"].numpy().tolist() for one in pipemill.tf.dataset(source, batch=5))


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_elements_are_those_of_one_host(library, source, caplog):
    pytest.importorskip({"hf": "datasets", "grain": "grain", "tf": "tensorflow"}[library])
    whole = list(data_set(library, source))
    killed, found = 0, []
    for number, element in enumerate(data_set(library, source)):
        found.append(element)
        if number % 40 == 1:
            killed += kill_hosts()
    assert found == whole and sum(found, []) == list(range(COUNT))
    assert killed > 1 and "killed by signal 9 (SIGKILL)" in caplog.text


def test_a_state_of_grain_after_a_host_was_killed(source):
    grain = pytest.importorskip("pipemill.grain")
    whole = [one["id"].tolist() for one in grain.dataset(source, batch=5)]
    iterator = iter(grain.dataset(source, batch=5))
    before = [next(iterator)["id"].tolist() for _ in range(30)]
    assert kill_hosts() == 1
    state = iterator.get_state()
    assert [one["id"].tolist() for one in iterator] == whole[30:]
    iterator.set_state(state)
    assert before + [one["id"].tolist() for one in iterator] == whole
    iterator.close()


def test_the_blocks_of_a_read_task_of_ray(source):
    ray = pytest.importorskip("pipemill.ray")
    [task] = ray.Datasource(source, rows_per_block=5).get_read_tasks(1)
    whole = list(task.read_fn())
    found = []
    for number, block in enumerate(task.read_fn()):
        found.append(block)
        if number % 40 == 1:
            assert kill_hosts() == 1
    assert len(found) == COUNT // 5 and all(map(lambda one, other: one.equals(other), found, whole))


def test_a_host_that_others_share_is_not_started_again(source, tmp_path):
    grain = pytest.importorskip("pipemill.grain")
    channel = {"name": "train", "source": {"glob": source, "epochs": 1000}, "batch": 5}
    with pipemill.host({"channel": [channel]}) as host:
        iterator = iter(grain.dataset("train", socket=host.socket))
        next(iterator)
        kill_hosts()
        with pytest.raises(pipemill.HostDied, match="it has crashed, was killed or"):
            for _ in iterator:
                pass
        iterator.close()


ORDERS = [{"batch": 5}, {"batch": 7, "tail": "pad", "shuffle": {"seed": 7, "window": 100}}, {"batch": 7, "workers": 2}]


def passes(loader, count, kill_at=lambda number: False):
    """The ids of each batch of some passes, and the state after each. Hosts are killed after some of the batches."""
    found, killed = [], 0
    for _ in range(count):
        for batch in loader:
            found.append((batch["id"].tolist(), batch.epoch, loader.state_dict()))
            if kill_at(len(found)):
                killed += kill_hosts()
        found.append(("end of a pass", loader.state_dict()))
    return found, killed


@pytest.mark.parametrize("how", ORDERS)
@pytest.mark.parametrize("steps", [None, 33])
def test_passes_of_a_loader_are_those_of_one_host(source, steps, how, caplog):
    from pipemill.torch import Loader

    options = {"options": {"header": True, "types": "id:int64"}, "steps": steps, **how}
    loader = Loader(source, "csv", **options)
    whole, _ = passes(loader, 4)
    loader.close()
    ends = [number for number, one in enumerate(whole) if one[0] == "end of a pass"]
    last = ends[0]  # batches of the first pass
    at = {1, 2, 40, last - 1, last, last + 1, 2 * last}
    loader = Loader(source, "csv", **options)
    found, killed = passes(loader, 4, lambda number: number in at)
    loader.close()
    assert found == whole
    assert killed >= 4 and "Another host goes on there" in caplog.text


def test_a_dataset_goes_on_and_its_workers_do_not(source):
    from pipemill.torch import Dataset
    from torch.utils.data import DataLoader

    options = {"options": {"header": True, "types": "id:int64"}, "batch": 5, "epochs": 1}
    whole = [batch["id"].tolist() for batch in Dataset(source, "csv", **options)]
    found = []
    data = Dataset(source, "csv", **options)
    for batch in DataLoader(data, batch_size=None):
        found.append(batch["id"].tolist())
        if len(found) in (1, 60):
            assert kill_hosts() >= 1
    data.close()
    assert found == whole
    # It is killed before anything was requested.
    data = Dataset(source, "csv", **options)
    assert kill_hosts() == 1
    assert [batch["id"].tolist() for batch in data] == whole
    data.close()
    # The host of workers belongs to another process.
    data = Dataset(source, "csv", **{**options, "epochs": None})
    with pytest.raises(pipemill.HostDied, match="it was process"):
        for _ in range(100):
            for number, _batch in enumerate(DataLoader(data, batch_size=None, num_workers=1)):
                if number == 3:
                    kill_hosts()


def test_hosts_that_are_killed_again_and_again(source):
    from pipemill.torch import Loader

    loader = Loader(source, "csv", options={"header": True, "types": "id:int64"}, batch=5)
    batches = iter(loader)
    next(batches)
    reading = loader.dataset._reading
    start = reading.start_again

    def start_and_kill():
        start()
        assert kill_hosts() == 1

    reading.start_again = start_and_kill
    kill_hosts()
    with pytest.raises(pipemill.HostDied, match=r"SIGKILL"):
        list(batches)
    loader.close()
