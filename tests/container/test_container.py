"""pipemill as process 1 of a container, as strict platforms run one: a root that can't be written, no rights, a user
that is not root, Docker's /dev/shm, a memory limit, no terminal, no network."""

import json
import time

import pytest
from podman import HOST, TRAINING, patiently, podman

COUNT = """
import pipemill
with pipemill.connect("train") as stream:
    print("records", sum(len(batch) for batch in stream), flush=True)
"""

#: Reads, and prints what happens to it.
LOYAL = """
import signal, sys
def asked(number, frame):
    print("asked", number, flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, asked)
print("ready", flush=True)
signal.pause()
"""

STUBBORN = """
import signal
signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
print("ready", flush=True)
while True:
    signal.pause()
"""

LINES = '[[channel]]\nname = "train"\ndecoder = "lines"\nsource = { file = "/data/lines.txt" }\n'


@pytest.fixture
def start(container, folder):
    """Starts `pipemill run -- python3 -c SCRIPT` on a configuration, with a tmpfs for the socket."""

    def start(script, config=LINES, memory="512m", options=(), tmp=True, lines=1_000):
        (folder / "lines.txt").write_text("".join(f"line {number}\n" for number in range(lines)))
        (folder / "pipemill.toml").write_text(config)
        options = [
            *("-v", f"{folder}:/data:ro", "-e", "PIPEMILL_CONFIG=/data/pipemill.toml"),
            *("--memory", memory, "--memory-swap", memory, *options),
            *(["--tmpfs", "/tmp:mode=1777"] if tmp else []),
        ]
        return container(TRAINING, ["python3", "-c", script], options)

    return start


def test_it_needs_nothing_of_the_image(images):
    strict = ["--rm", "--runtime", "runc", "--network", "none", "--read-only"]
    limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]
    done = podman("run", *strict, *limits, HOST, "--version")
    assert done.stdout.startswith("pipemill ")
    found = json.loads(podman("image", "inspect", HOST).stdout)[0]
    assert found["Config"]["User"] == "65532:65532"


def test_a_ring_larger_than_dev_shm(start):
    """Every record, through 128 MiB of shared memory, in a container that has 64 MiB of /dev/shm."""
    script = COUNT + "import os\nprint('uid', os.getuid(), os.statvfs('/dev/shm').f_blocks * 4 >> 10)"
    box = start(script, LINES + '[channel.ring]\nslots = 32\nslot_size = "4MiB"\n', lines=2_000_000)
    code, log = box.end()
    assert code == 0, log
    assert "records 2000000\n" in log and "uid 1000 64\n" in log


def test_stopped_in_order(start):
    """`stop` reaches the command, which ends with an exit code of its own."""
    box = start(LOYAL)
    box.until("ready")
    box.stop(60)
    assert box.end()[0] == 7 and "asked 15" in box.log()


def test_a_command_that_does_not_stop_is_killed(start):
    """Before the platform kills everything, pipemill has time to write its log."""
    box = start(STUBBORN, 'stop_timeout = "3s"\n' + LINES)
    box.until("ready")
    box.stop(120)
    code, log = box.end()
    assert code == 137, log
    assert "asked" in log and "the command has not ended: killing it" in log


def test_a_second_signal_kills(start):
    box = start(STUBBORN)
    box.until("ready")
    box.kill("TERM")
    box.until("asked")
    # Signals that come within 100 ms count once.
    time.sleep(0.2)
    box.kill("TERM")
    assert box.end()[0] == 137


def test_a_killed_container_ends_at_once(start):
    box = start(LOYAL)
    box.until("ready")
    box.kill("KILL")
    assert box.end()[0] == 137


@pytest.mark.parametrize(
    "script, code",
    [
        ("import sys; sys.exit(0)", 0),
        ("import sys; sys.exit(42)", 42),
        ("import os; os.kill(os.getpid(), 6)", 134),
    ],
)
def test_the_commands_code_is_the_containers(start, script, code):
    box = start(script)
    assert box.end()[0] == code, box.log()


def test_a_channel_that_failed(start):
    """The command sees the error and ends in order; the container does not."""
    config = LINES.replace('"lines"', '"tfrecord"')
    script = "import pipemill\ntry:\n" + COUNT.replace("\n", "\n  ") + "\nexcept pipemill.DecodeError: print('seen')"
    code, log = start(script, config).end()
    assert code == 65 and "seen" in log and "decoder tfrecord" in log, log


def test_a_missing_file(start):
    config = LINES.replace("lines.txt", "nothing.txt")
    code, log = start(COUNT, config).end()
    # Python's exit code for an uncaught exception.
    assert code == 1 and "/data/nothing.txt" in log, log


def test_orphans_are_no_zombies(start):
    script = """
import os, signal, time
for _ in range(20):
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(0.2)
        os._exit(0)
    os.wait()
print("ready", flush=True)
signal.pause()
"""
    box = start(script)
    box.until("ready")
    patiently(lambda: len(box.processes()) == 2)
    assert not [line for line in box.processes() if line.startswith("Z")]


def test_nothing_to_write_to(start):
    """Without a tmpfs there is no place for the socket, and the message says so."""
    code, log = start(COUNT, tmp=False).end()
    assert code == 71 and "Read-only file system" in log and "set `socket` to a path" in log, log


def test_a_tmpfs_for_the_socket_alone(start):
    config = 'socket = "/run/pipemill/own/pipemill.sock"\n' + LINES
    code, log = start(COUNT, config, options=["--tmpfs", "/run/pipemill:mode=1777"], tmp=False).end()
    assert code == 0 and "records 1000\n" in log, log


def test_rings_larger_than_the_memory_limit(start):
    """The command is not killed silently at the start."""
    code, log = start(COUNT, memory="72m").end()
    assert code == 71, log
    assert "take 64MiB (`train` 64MiB)" in log and "this container may have 72MiB" in log


def test_the_memory_limit_is_met(start):
    """The kernel kills the command, though pipemill with its ring is larger; pipemill logs it."""
    script = COUNT + "print('ready', flush=True)\nmemory = [bytearray(b'x' * (1 << 20)) for _ in range(1_000)]"
    code, log = start(script, memory="192m").end()
    assert code == 137 and "ready" in log, log
    assert "the kernel killed a process because the container's memory limit, 192MiB, was" in log


class TestSageMaker:
    """The platform's folders at /opt/ml, and `train` behind the entrypoint."""

    ENTRYPOINT = json.dumps(["pipemill", "run", "--", "python3", "/data/count.py"])

    @pytest.fixture
    def start(self, container, folder):
        def start(script, content="text/plain"):
            (folder / "count.py").write_text(script)
            ml = folder / "ml"
            for part in ["input/config", "input/data/train", "output", "model"]:
                (ml / part).mkdir(parents=True, exist_ok=True)
            (ml / "output").chmod(0o777)
            (ml / "input/data/train/part").write_text("a\nb\nc\n")
            channels = {"train": {"TrainingInputMode": "File", "ContentType": content}}
            (ml / "input/config/inputdataconfig.json").write_text(json.dumps(channels))
            mounts = ["-v", f"{ml}:/opt/ml", "-v", f"{folder}:/data:ro", "--tmpfs", "/tmp"]
            return container(TRAINING, ["train"], [*mounts, "--entrypoint", self.ENTRYPOINT])

        return start

    def test_a_job(self, start, folder):
        code, log = start(COUNT + "import os; print(os.environ['SM_CHANNELS'])").end()
        assert code == 0 and "records 3\n" in log and '["train"]' in log, log
        assert not (folder / "ml/output/failure").exists()

    def test_a_job_that_fails(self, start, folder):
        code, log = start("import sys; sys.exit(3)").end()
        assert code == 3, log
        failure = (folder / "ml/output/failure").read_text()
        assert failure.startswith("the command `python3 /data/count.py` ended with code 3")

    def test_data_that_fails(self, start, folder):
        code, log = start(COUNT, "application/x-tfrecord").end()
        assert code == 1, log
        assert (folder / "ml/output/failure").read_text().startswith("channel `train`, epoch 0, object ")
