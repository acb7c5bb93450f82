"""Several processes that open the same source under a launcher: together they read all of it, once."""

import json
import logging
import os
import pathlib
import re
import subprocess
import sys

import pipemill
import pytest
from e2e import PATIENCE, patiently, run
from hosts import start, take, take_all
from pipemill.private_host import Host
from pipemill.ranks import _found, local_cores, rank_of
from pipemill.status import status_of

__all__ = ["start"]

PROGRAM = str(pathlib.Path(__file__).with_name("rank.py"))
LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_", "TORCHELASTIC", "MASTER_", "SLURM_", "OMPI_", "PMI", "MPI_")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.txt").write_text("".join(f"{number}.{line}\n" for line in range(number + 5)))
    return folder


@pytest.fixture
def launch(folder, tmp_path):
    """Starts a rank: its variables, and its options."""
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER)}
    started = []

    def launch(variables, **wishes):
        environment = {**clean, **{name: str(value) for name, value in variables.items()}, "XDG_RUNTIME_DIR": str(run)}
        words = [sys.executable, PROGRAM, str(folder), json.dumps(wishes)]
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(subprocess.Popen(words, env=environment, **pipes))
        return started[-1]

    yield launch
    for one in started:
        one.kill()
        one.communicate()
    assert os.listdir(run / "pipemill") == []


def torchrun(rank, world, local_world):
    return {
        "RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank % local_world, "LOCAL_WORLD_SIZE": local_world,
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29_500, "TORCHELASTIC_RUN_ID": "none",
    }  # fmt: skip


def slurm(rank, world, local_world):
    return {
        "SLURM_PROCID": rank, "SLURM_NTASKS": world, "SLURM_LOCALID": rank % local_world,
        "SLURM_STEP_TASKS_PER_NODE": f"{local_world}(x{world // local_world})", "SLURM_JOB_ID": 7, "SLURM_STEP_ID": 0,
    }  # fmt: skip


def openmpi(rank, world, local_world):
    """The variables that mpirun sets in a job of Slurm: its helpers are started with srun, one for
    each machine.
    """
    return {
        "OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": world, "OMPI_COMM_WORLD_LOCAL_RANK": rank % local_world,
        "OMPI_COMM_WORLD_LOCAL_SIZE": local_world, "OMPI_COMM_WORLD_JOBID": 77, **slurm(0, 1, 1),
    }  # fmt: skip


def mpich(rank, world, local_world):
    return {
        "PMI_RANK": rank, "PMI_SIZE": world, "MPI_LOCALRANKID": rank % local_world, "MPI_LOCALNRANKS": local_world,
    }  # fmt: skip


def finish(ranks):
    """The records of each rank. None waits for a line any more."""
    for one in ranks:
        one.stdin.write("\n" * 100)
        one.stdin.flush()
    found = []
    for one in ranks:
        out, log = one.communicate(timeout=PATIENCE)
        assert one.returncode == 0, log
        found.append([json.loads(line) for line in out.splitlines()])
    return found


def all_lines(folder):
    return sorted(line for file in folder.iterdir() for line in file.read_text().split())


@pytest.mark.parametrize("launcher", [torchrun, slurm, openmpi, mpich])
def test_each_rank_of_a_machine_gets_its_batches_of_one_host(launch, folder, launcher):
    wishes = dict(host="per-node", batch=3, tail="pad")
    # The others wait for the first one.
    ranks = [launch(launcher(rank, 3, 3), **wishes) for rank in (2, 1, 0)]
    found = finish(ranks)
    assert [about for about, *_ in found] == [["rank", False], ["rank", False], ["rank", True]]
    numbers = [[number for number, _ in batches] for _, *batches in found]
    assert numbers == [[2, 5, 8], [1, 4, 7], [0, 3, 6]]
    assert sorted(line for _, *batches in found for _, lines in batches for line in lines) == all_lines(folder)


def test_machines_share_the_objects(launch, folder):
    wishes = dict(host="per-node", batch=2, tail="pad")
    found = finish([launch(torchrun(rank, 4, 2), **wishes) for rank in range(4)])
    lines = [sorted(line for _, lines in batches for line in lines) for _, *batches in found]
    assert sorted(sum(lines, [])) == all_lines(folder)
    assert {line[0] for line in lines[0] + lines[1]} == {"0", "2"}
    # On a machine, all ranks have equally many batches.
    assert len(found[0]) == len(found[1]) and len(found[2]) == len(found[3])


def test_the_host_lives_until_the_last_rank_has_read_all(launch, folder):
    wishes = dict(host="per-node", batch=3, tail="pad")
    first, second = (launch(torchrun(rank, 2, 2), **wishes) for rank in range(2))
    assert json.loads(first.stdout.readline()) == ["rank", True]
    assert json.loads(second.stdout.readline()) == ["rank", False]
    # The second one has its first batch and holds it, while the first one reads everything that it
    # receives.
    assert json.loads(second.stdout.readline())[0] == 1
    for number in range(0, 10, 2):
        assert json.loads(first.stdout.readline())[0] == number
        first.stdin.write("\n")
        first.stdin.flush()
    rest = finish([first, second])
    assert [[number for number, _ in batches] for batches in rest] == [[], [3, 5, 7, 9]]


def test_without_a_launcher_a_process_is_alone(launch, folder):
    [[about, *batches]] = finish([launch({}, host="per-node", batch=3, tail="drop")])
    assert about == ["rank", True] and len(batches) == 8
    [[about, *batches]] = finish([launch({}, rank="auto")])
    assert about == ["share", True] and sorted(sum((lines for _, lines in batches), [])) == all_lines(folder)


def test_hosts_of_their_own_share_the_objects(launch, folder):
    found = finish([launch(torchrun(rank, 2, 2), rank="auto") for rank in range(2)])
    assert [about for about, *_ in found] == [["share", True]] * 2
    lines = [{line for _, lines in batches for line in lines} for _, *batches in found]
    assert not lines[0] & lines[1] and sorted(lines[0] | lines[1]) == all_lines(folder)


def test_connect_takes_its_rank_from_the_launcher(start, folder, monkeypatch):
    host = start(
        f'[[channel]]\nname = "train"\nsource = {{ folder = "{folder}" }}\ndecoder = "lines"\nbatch = 26\n'
        'mode = "rank"\nconsumers = 1\ntail = "pad"\n'
    )
    for name in list(os.environ):
        if name.startswith(LAUNCHER):
            monkeypatch.delenv(name)
    with host.connect(rank="auto") as stream:
        assert len(take_all(stream)) == 1
    host.end()
    for name, value in torchrun(1, 2, 2).items():
        monkeypatch.setenv(name, str(value))
    host = start(
        f'[[channel]]\nname = "train"\nsource = {{ folder = "{folder}" }}\ndecoder = "lines"\n'
    )
    with host.connect(rank="auto", batch=26, tail="pad") as second:
        monkeypatch.setenv("RANK", "0")
        with host.connect(rank="auto", batch=26, tail="pad") as first:
            assert take(first)[1] == 0 and take(second)[1:] == (1, [])
            assert take(first) is None and take(second) is None
    host.end()


@pytest.mark.parametrize(
    "variables, message",
    [
        ({"RANK": 0, "WORLD_SIZE": 2}, "which process of this machine is this?"),
        ({**torchrun(0, 4, 2), "LOCAL_RANK": 1}, "rank 0 of 4 is process 1 of 2 on this machine"),
        ({"RANK": "first", "WORLD_SIZE": 2}, "$RANK is 'first' and $WORLD_SIZE is '2'"),
        ({**slurm(0, 3, 2), "SLURM_STEP_TASKS_PER_NODE": "2,1"}, "$SLURM_STEP_TASKS_PER_NODE is '2,1'"),
        ({"RANK": 2, "WORLD_SIZE": 2}, "$RANK is '2' and $WORLD_SIZE is '2'"),
    ],
)
def test_variables_that_do_not_fit(folder, monkeypatch, variables, message):
    for name in list(os.environ):
        if name.startswith(LAUNCHER):
            monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(ValueError) as caught:
        pipemill.open(folder, "lines", host="per-node", batch=1, tail="pad")
    assert message in str(caught.value)


# --- what "auto" found


@pytest.fixture
def environment(monkeypatch):
    """Sets the variables of a launcher, and nothing else of any launcher."""
    for name in list(os.environ):
        if name.startswith(LAUNCHER):
            monkeypatch.delenv(name)

    def environment(variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))

    return environment


@pytest.fixture
def said(monkeypatch, caplog):
    """The package's messages since the test began."""
    monkeypatch.setattr("pipemill.log._said", set())
    caplog.set_level(logging.INFO, "pipemill")
    return lambda: [(one.levelname, one.message) for one in caplog.records]


FOUND = [
    (torchrun(2, 4, 2), (2, 4), "RANK and WORLD_SIZE"),
    (openmpi(2, 4, 2), (2, 4), "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE"),
    (mpich(2, 4, 2), (2, 4), "PMI_RANK and PMI_SIZE"),
    (slurm(2, 4, 2), (2, 4), "SLURM_PROCID and SLURM_NTASKS"),
    # A step of fewer tasks than the job has.
    ({**slurm(2, 8, 2), "SLURM_STEP_NUM_TASKS": 4}, (2, 4), "SLURM_PROCID and SLURM_STEP_NUM_TASKS"),
    # torchrun in a step of one task for each machine.
    ({**slurm(1, 2, 1), **torchrun(2, 4, 2)}, (2, 4), "RANK and WORLD_SIZE"),
]


@pytest.mark.parametrize("variables, expected, names", FOUND)
def test_the_log_says_once_what_was_found(environment, said, variables, expected, names):
    environment(variables)
    assert [rank_of("auto") for _ in range(3)] == [expected] * 3
    assert said() == [("INFO", f'rank 2 of 4, from {names}')]


#: The variables that Slurm sets in the script of a job of 4 tasks, which sbatch runs once.
SCRIPT = {
    "SLURM_JOB_ID": 7, "SLURM_PROCID": 0, "SLURM_LOCALID": 0, "SLURM_NODEID": 0, "SLURM_NTASKS": 4, "SLURM_NPROCS": 4,
    "SLURM_GTIDS": 0, "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_JOB_NUM_NODES": 2, "SLURM_NNODES": 2,
}  # fmt: skip


def test_a_process_that_srun_did_not_start_is_alone(environment, said, folder):
    environment(SCRIPT)
    with pipemill.open(folder, "lines", rank="auto") as stream:
        assert sorted(line for batch in stream for line in batch.records()) == all_lines(folder)
    with pipemill.open(folder, "lines", host="per-node", batch=100, tail="pad") as stream:
        assert sum(batch.valid for batch in stream) == len(all_lines(folder))
    [(level, text)] = said()
    assert level == "WARNING" and "srun did not start this process, because SLURM_STEP_ID is not set" in text
    assert "SLURM_PROCID=0 and SLURM_NTASKS=4" in text


#: Launchers one by one, within each other, and variables that do not matter.
LAUNCHED = [
    {}, *(variables for variables, *_ in FOUND), SCRIPT, {**SCRIPT, **torchrun(2, 4, 2)}, {**SCRIPT, **openmpi(1, 2, 2)},
    {**SCRIPT, "SLURM_STEPID": 0}, {**SCRIPT, "SLURM_STEP_NUM_TASKS": 2}, {**SCRIPT, "SLURM_STEP_ID": ""},
    {"SLURM_PROCID": 1, "SLURM_STEP_ID": 0}, {"RANK": 1}, {"RANK": 1, "WORLD_SIZE": ""}, {"WORLD_SIZE": 4},
    {"RANK": "", "WORLD_SIZE": 4, "PMI_RANK": 1, "PMI_SIZE": 2}, torchrun(4, 4, 2), {"RANK": "+1", "WORLD_SIZE": 4},
    {"RANK": " 1", "WORLD_SIZE": 4}, {"RANK": "one", "WORLD_SIZE": 4}, {"RANK": -1, "WORLD_SIZE": 4},
    {"RANK": "\u0661", "WORLD_SIZE": 4}, {"SLURM_PROCID": 5, "SLURM_NTASKS": 4, "SLURM_STEP_ID": 0},
    {"RANK": 0, "WORLD_SIZE": 1}, {"RANK": 0, "WORLD_SIZE": 0}, {"RANK": "007", "WORLD_SIZE": "08"},
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(LAUNCHED)))
def test_the_host_finds_the_same_rank(environment, folder, tmp_path, number):
    """`rank="auto"` here, `[rank]` of a configuration there."""
    variables = LAUNCHED[number]
    environment(variables)
    try:
        expected = _found()
    except ValueError:
        expected = "refused"
    config = tmp_path / "pipemill.toml"
    config.write_text(
        f'[[channel]]\nname = "a"\ndecoder = "lines"\nsource = {{ folder = "{folder}", part = "rank" }}\n'
    )
    shown = run("config", "show", config)
    text = shown.stdout.decode() + shown.stderr.decode()
    found = re.search(r"part = \{ index = (\d+), count = (\d+) \}", text)
    if found is not None:
        assert shown.returncode == 0 and tuple(map(int, found.groups())) == expected
        return
    assert shown.returncode == 64
    assert ("the number of this machine is not known" in text) == (expected is None), text
    # In a job's script the variables are set, and do not count.
    assert ("srun did not start this process" in text) == (variables in (SCRIPT, {**SCRIPT, "SLURM_STEP_ID": ""}))


def test_alone_without_a_word(environment, said):
    for variables in ({}, {"SLURM_JOB_ID": 7, "SLURM_NTASKS": 4}, {**SCRIPT, "SLURM_NTASKS": 1}):
        environment(variables)
        assert rank_of("auto") is not None
    assert said() == []


LOG = """
import sys, pipemill
from pipemill.private_host import Host
from pipemill.ranks import rank_of
if sys.argv[1:]:
    import logging; logging.basicConfig(level=sys.argv[1], format="LOG %(message)s")
rank_of("auto"), rank_of("auto")
"""


@pytest.mark.parametrize("arguments, variables, expected", [
    ([], {}, 'pipemill: info: rank 1 of 2, from RANK and WORLD_SIZE\n'),
    ([], {"PIPEMILL_LOG": "warn"}, ""),
    (["INFO"], {}, 'LOG rank 1 of 2, from RANK and WORLD_SIZE\n'),
    (["WARNING"], {}, ""),
])  # fmt: skip
def test_the_line_on_standard_error(arguments, variables, expected):
    clean = {name: value for name, value in os.environ.items() if not name.startswith((*LAUNCHER, "PIPEMILL_LOG"))}
    env = {**clean, "RANK": "1", "WORLD_SIZE": "2", **variables}
    done = subprocess.run([sys.executable, "-c", LOG, *arguments], env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stderr, done.returncode) == (expected, 0)


# --- parts without objects or records


def opened(source, rank, **more):
    return pipemill.open(source, "lines", rank=rank, timeout=PATIENCE, **more)


@pytest.mark.parametrize("form", ["folder", "pattern", "list", "table", "few", "deep"])
def test_a_part_without_objects_is_an_error_at_once(folder, form):
    names = sorted(folder.iterdir())
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "x.txt").write_text("x\n")
    objects = 4
    if form == "deep":
        names[0].rename(folder / "0")
        (folder / "sub").mkdir()
        names[1].rename(folder / "sub" / "1.txt")
    if form == "few":
        names[0].unlink()
        objects = 3
    source = {"pattern": f"{folder}/*.txt", "list": names, "table": {"folder": str(folder)}}.get(form, folder)
    for world in (objects, objects + 1, 12):
        for rank in range(world):
            if rank < objects:
                opened(source, (rank, world)).close()
                continue
            with pytest.raises(pipemill.SourceError) as caught:
                opened(source, (rank, world))
            text = str(caught.value)
            assert f"has {objects} objects, which are dealt to {world}, so rank {rank} of {world} gets none" in text
            assert 'host="per-node"' in text


def test_a_machine_without_objects(folder, environment):
    environment(torchrun(10, 12, 2))
    with pytest.raises(pipemill.SourceError, match="4 objects, which are dealt to 6, so machine 5 of 6 gets none"):
        pipemill.open(folder, "lines", host="per-node", batch=2, tail="pad")


def test_a_part_without_records_is_an_error_at_its_end(folder):
    (folder / "1.txt").write_text("")
    with opened(folder, (0, 4)) as stream:
        assert sum(map(len, stream)) == 5
    with opened(folder, (1, 4)) as stream, pytest.raises(pipemill.SourceError) as caught:
        list(stream)
    assert "rank 1 of 4 got no batch of epoch 0" in str(caught.value) and caught.value.epoch == 0
    with opened(folder, (2, 4), batch=100, tail="drop", epochs=2) as stream:
        with pytest.raises(pipemill.SourceError, match="rank 2 of 4 got no batch"):
            for epoch in stream.epochs():
                list(epoch)


def test_an_epoch_that_is_ended_early_or_gone_on_after_is_none_without_records(folder):
    with opened(folder, (0, 2), batch=2, tail="keep", epochs=2) as stream:
        epochs = stream.epochs()
        for epoch in epochs:
            for batch in epoch:
                state = stream.state_dict()
                epoch.end()
        assert [epoch.number for epoch in epochs] == []
    with opened(folder, (0, 2), batch=2, tail="keep", epochs=1) as stream:
        assert sum(map(len, stream)) == 12
        end = stream.state_dict()
    for at in (state, end):
        with opened(folder, (0, 2), batch=2, tail="keep", epochs=2, state=at) as stream:
            assert sum(map(len, stream)) < 24


# --- a rank that leaves


@pytest.fixture
def pair(folder):
    """The two ranks of a channel that never ends, with their first batches."""
    source = {"folder": str(folder), "epochs": 1_000_000}
    channel = {"name": "train", "source": source, "decoder": "lines", "batch": 1, "tail": "pad"}
    with pipemill.host({"channel": [channel]}) as host:
        ranks = [host.connect("train", rank=(rank, 2)) for rank in range(2)]
        for one in ranks:
            take(one)
        # It will wait for ever.
        ranks[1]._receiver._timeout = 0.5
        yield ranks
        for one in ranks:
            one.close()


def test_a_rank_that_has_left_is_named(pair, monkeypatch, caplog):
    # It reports this at once, and when it gives up.
    monkeypatch.setattr("pipemill.receiver.REPORT_AFTER", (0.0,))
    pair[0].close()
    patiently(lambda: len(status_of(pair[1]._host.socket, "train")["ring"]["consumers"]) == 1)
    with pytest.raises(pipemill.StreamTimeout) as caught:
        take_all(pair[1])
    why = "rank 0 of 2 is not connected: ended, left the loop early, or not started yet"
    assert why in str(caught.value) and "look at the channel's source" not in str(caught.value)
    [record] = caplog.records
    assert record.message.startswith("channel 'train': rank 1 of 2 has waited") and why in record.message


def test_a_rank_that_holds_its_batch_is_named(pair, monkeypatch):
    monkeypatch.setattr("pipemill.other_ranks._LONG", 0.0)
    held = next(pair[0])
    with pytest.raises(pipemill.StreamTimeout, match="rank 0 of 2 holds batches for more than 0 s, and the others wait"):
        take_all(pair[1])
    del held


def test_a_rank_that_has_not_come_is_named(folder):
    channel = {"name": "train", "source": {"folder": str(folder)}, "decoder": "lines", "batch": 1, "tail": "pad"}
    with pipemill.host({"channel": [channel]}) as host, host.connect("train", rank=(1, 4), timeout=0.1) as stream:
        with pytest.raises(pipemill.StreamTimeout, match="ranks 0, 2, 3 of 4 are not connected"):
            next(stream)


def test_a_program_alone_looks_at_its_source(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pipemill.open(tmp_path / "pipe", "lines", timeout=0.1) as stream:
        with pytest.raises(pipemill.StreamTimeout, match="see in .pipemill top. or the host's log"):
            next(stream)


def test_the_end_of_the_process_that_has_started_the_host_is_named(launch):
    wishes = dict(host="per-node", batch=1, tail="pad", epochs=1000)
    first, second = (launch(torchrun(rank, 2, 2), **wishes) for rank in range(2))
    for one in (first, second):
        assert json.loads(one.stdout.readline())[0] == "rank" and json.loads(one.stdout.readline())
    first.kill()
    # It can't continue for long: a rank that takes no batches holds all slots.
    _, log = second.communicate("\n" * 10_000, timeout=PATIENCE)
    assert "HostDied" in log and "the standard error of local rank 0 of this machine: that process has started it" in log


@pytest.mark.parametrize(
    ("found", "usable", "machine", "expected"),
    [
        ({}, 16, 16, None),
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}, 16, 16, None),
        ({"LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "8"}, 16, 16, 2),
        ({"LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "8"}, 4, 4, 1),
        # Slurm has bound this process to its cores.
        ({"LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "8"}, 4, 16, None),
        ({"LOCAL_RANK": "x", "LOCAL_WORLD_SIZE": "8"}, 16, 16, None),
    ],
)
def test_processes_of_a_launcher_divide_the_cores(monkeypatch, found, usable, machine, expected):
    for name in [name for name in os.environ if name.startswith(LAUNCHER)]:
        monkeypatch.delenv(name)
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(usable)))
    monkeypatch.setattr(os, "cpu_count", lambda: machine)
    assert local_cores() == expected


def test_a_host_of_one_process_of_several_has_its_part_of_the_cores(monkeypatch, folder):
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "64")
    monkeypatch.setattr(os, "cpu_count", lambda: len(os.sched_getaffinity(0)))
    configured = []

    def of_text(text, **options):
        configured.append(text)
        return started(text, **options)

    started = Host.of_text
    monkeypatch.setattr(Host, "of_text", of_text)
    for workers in (2, "auto"):
        with pipemill.open(folder, "lines", epochs=1, workers=workers) as stream:
            assert sum(len(batch) for batch in stream) == 5 + 6 + 7 + 8
    assert ["cores" in text for text in configured] == [False, True]
    assert re.search(r"^\W*cores\W+1$", configured[1], re.MULTILINE)
