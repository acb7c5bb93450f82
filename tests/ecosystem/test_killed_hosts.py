"""Libraries whose data sets read a source with a private host: it is killed, and they go on."""

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
