"""The host's own memory stays flat, and it needs no /dev/shm."""

import os
import re
import shutil
import subprocess

import pytest
from e2e import PATIENCE, PIPEMILL, finish, in_background, tfrecord

#: The amount to stream; `PIPEMILL_TEST_GIB=4` streams more.
GIB = float(os.environ.get("PIPEMILL_TEST_GIB", "0.5"))

#: Counts the records, and prints the most bytes that the host ever had, without those of its files.
COUNT = """
import os

with pipemill.connect(channel="train") as stream:
    records = sum(len(batch) for batch in stream)
with open(f"/proc/{os.getppid()}/status") as status:
    fields = dict(line.split(":", 1) for line in status)
peak, files = (int(fields[name].split()[0]) * 1024 for name in ["VmHWM", "RssFile"])
print(records, peak - files, flush=True)
"""

#: The memory that the host takes in addition to its channels: code, threads, compiled plugins.
HOST = 64 << 20


def check_account(config, peak):
    """The host took no more than `config check` says."""
    args = [PIPEMILL, "config", "check", str(config)]
    said = subprocess.run(args, capture_output=True, text=True, check=True, timeout=PATIENCE)
    sums = re.findall(r"^(?!pipemill itself).*: takes at most (\d+)(MiB|GiB):", said.stdout, re.M)
    account = sum(int(number) << {"MiB": 20, "GiB": 30}[unit] for number, unit in sums)
    assert 0 < peak < account + HOST, f"{peak} bytes, of {account}"


def own_memory(pid):
    """Bytes of anonymous memory: neither the ring nor the binary."""
    with open(f"/proc/{pid}/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return int(fields["RssAnon"].split()[0]) * 1024


@pytest.mark.parametrize("size, decoder", [(1000, "tfrecord"), (100_000, "tfrecord"), (100, "csv")])
def test_memory_is_flat(host, fifos, tmp_path, size, decoder):
    block = tfrecord(b"x" * size) if decoder == "tfrecord" else b'"%s",2\n' % (b"x" * size)
    block *= (1 << 20) // len(block) + 1
    blocks = int(GIB * (1 << 30)) // len(block)
    os.mkfifo(fifos / "train_0")
    child = host(
        f'[[channel]]\nname = "train"\nsource = {{ fifo = "{fifos}", epochs = 1 }}\n'
        f'decoder = "{decoder}"\n',
        COUNT,
    )
    seen = []

    def write():
        with open(fifos / "train_0", "wb", buffering=0) as pipe:
            for number in range(blocks):
                pipe.write(block)
                if number % 32 == 31:
                    seen.append(own_memory(child.pid))

    writer = in_background(write)
    code, out, log = finish(child, 4 * PATIENCE)
    writer.join(PATIENCE)
    per_block = block.count(b"\n") if decoder == "csv" else len(block) // len(tfrecord(b"x" * size))
    records, peak = map(int, out.split())
    assert (code, records) == (0, blocks * per_block), log
    check_account(tmp_path / "pipemill.toml", peak)
    assert seen and max(seen) < 100 << 20, f"{max(seen)} bytes"
    # From the first quarter to the end it grows by no more than a slot's index may add.
    assert max(seen) - seen[len(seen) // 4] < 16 << 20, seen


def test_a_small_dev_shm_is_enough(tmp_path):
    """Docker gives 64 MiB; the default ring alone has as much, and uses none of it."""
    if os.getuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs root for a mount namespace")
    source = tmp_path / "in"
    source.write_bytes(tfrecord(b"x" * 100_000) * 2000)
    config = tmp_path / "c.toml"
    config.write_text(
        f'socket = "{tmp_path}/s/p.sock"\n[[channel]]\nname = "train"\n'
        f'source = {{ file = "{source}" }}\ndecoder = "tfrecord"\n[channel.ring]\nslots = 64\n'
    )
    script = tmp_path / "count.py"
    script.write_text("import pipemill\n" + COUNT)
    python = os.environ.get("PIPEMILL_PYTHON", "python3")
    shell = (
        "mount -t tmpfs -o size=64m tmpfs /dev/shm && "
        f"exec '{PIPEMILL}' run --config '{config}' -- '{python}' '{script}'"
    )
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", shell], capture_output=True, text=True, timeout=PATIENCE
    )
    if "unshare failed" in done.stderr:
        pytest.skip("mount namespaces are not permitted here")
    assert done.returncode == 0, done.stderr
    records, peak = map(int, done.stdout.split())
    assert records == 2000
    check_account(config, peak)
