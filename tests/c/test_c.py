"""The C library: programs in C, linked with the static and the shared library, read channels of a
real host. The programs with the static library run under AddressSanitizer, which also finds memory
that is not freed."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest
from e2e import PATIENCE, PIPEMILL
from hosts import start  # noqa: F401
from other_user import NOBODY, as_other_user, foreign_host, place  # noqa: F401

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "sum-c"
#: The folder of `make c-library`, of the debug build here.
LIBRARY = os.environ.get("PIPEMILL_C")
ROWS = "n,name\n1,one\n2,-\n3,three\n4,four\n5,five\n"
#: The state that the job `records` asks for, so that the channel does not begin from its start.
THREES = 'batch = 3\ntail = "pad"\n'
CSV = 'decoder = "csv"\noptions = { header = true, types = "n:int64,name:utf8", null = "-" }\n'


def compile(out, source, *more):
    if LIBRARY is None:
        pytest.skip("set PIPEMILL_C to the folder of `make c-library`")
    command = ["cc", "-g", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    command += [f"-I{LIBRARY}/include", str(source), "-o", str(out), *more]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return str(out)


@pytest.fixture(scope="session", params=["static", "shared"])
def checks(request, tmp_path_factory):
    """tests/c/checks.c."""
    out = tmp_path_factory.mktemp("c") / "checks"
    source = ROOT / "tests" / "c" / "checks.c"
    if request.param == "static":
        library = [f"{LIBRARY}/lib/libpipemill.a", "-lpthread", "-ldl", "-lm"]
        return compile(out, source, "-fsanitize=address,undefined", *library)
    return compile(out, source, f"-L{LIBRARY}/lib", f"-Wl,-rpath,{LIBRARY}/lib", "-lpipemill", "-lpthread")


@pytest.fixture
def begin(start, checks, tmp_path):  # noqa: F811
    """Starts a host whose channel has this configuration, and programs that read it."""
    children = []

    class Begun:
        def __init__(self, channel):
            self.host = start(f'[[channel]]\nname = "train"\n{channel}')

        def start(self, *job):
            environment = os.environ | {"PIPEMILL_SOCKET": self.host.socket}
            command = [checks, *map(str, job)]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
            children.append(subprocess.Popen(command, env=environment, **pipes))
            return children[-1]

        def run(self, *job):
            return finished(self.start(*job))

    yield Begun
    for child in children:
        if child.poll() is None:
            child.kill()
            child.wait()
        child.stdout.close()


def finished(child, code=0):
    out, _ = child.communicate(timeout=PATIENCE)
    assert child.returncode == code, out
    return out.splitlines()


def csv(folder, more=THREES, rows=ROWS, epochs=1):
    """`epochs`: enough that the channel is not at its end when a consumer asks it to begin again."""
    (folder / "rows.csv").write_text(rows)
    return f'source = {{ file = "{folder}/rows.csv", epochs = {epochs} }}\n{CSV}{more}'


def fifo(folder):
    os.mkfifo(folder / "train_0")
    return f'source = {{ fifo = "{folder}", epochs = 1 }}\ndecoder = "lines"\n{THREES}'


def test_each_value_is_that_of_the_input(begin, tmp_path):
    lines = begin(csv(tmp_path)).run("records")
    assert lines[:-1] == [
        f"batch 0 of epoch 0, 3 of 3 records, from record 0 of {tmp_path}/rows.csv",
        " n=1 name=one",
        " n=2 name=absent",
        " n=3 name=three",
        f"batch 1 of epoch 0, 2 of 3 records, from record 3 of {tmp_path}/rows.csv",
        " n=4 name=four",
        " n=5 name=five",
        " n=5 name=five",
        "end of epoch 0: 2 batches, 6 records",
        "end of the stream",
    ]


def test_the_schema_is_told(begin, tmp_path):
    lines = begin(csv(tmp_path, "batch = 5\n")).run("schema")
    assert lines[:2] == [
        "n int64 7 8 [] nullable ; column even, stride 8, aligned",
        "name utf8 2 1 [] nullable ; column uneven, stride 0, not aligned",
    ]
    assert lines[2].startswith("batch 0 of epoch 0, 5 of 5 records")
    assert lines[3:] == [" n=1 name=one", " n=2 name=absent", " n=3 name=three", " n=4 name=four", " n=5 name=five"]


def test_shapes_and_what_is_not_aligned(begin, tmp_path):
    (tmp_path / "records").write_bytes(b"".join(bytes([n]) + bytes(8) for n in range(4)))
    options = '{ fields = "code:uint8,pair:int32[2]" }'
    lines = begin(f'source = {{ file = "{tmp_path}/records" }}\ndecoder = "fixed"\noptions = {options}\n').run("schema")
    assert lines[:2] == [
        "code uint8 8 1 [] always ; column even, stride 9, aligned",
        "pair int32 6 4 [2,] always ; column even, stride 9, not aligned",
    ]


def test_a_program_goes_on_where_another_one_stopped(begin, tmp_path):
    # Written once: a state knows the file by the time of its last change.
    channel = csv(tmp_path, rows=ROWS + "6,six\n7,seven\n", epochs=100_000)

    def one(*job):
        begun = begin(channel)
        lines = begun.run(*job)
        begun.host.kill()
        return lines

    whole = one("records", 3)
    part = one("records", 1)
    rest = one("records", 2, part[-1][len("state ") :])
    assert len(whole) == 13 and len(part) == 5, part
    assert part[:-1] + rest == whole


def test_two_ranks_divide_the_batches(begin, tmp_path):
    host = begin(csv(tmp_path, "", epochs=100_000))
    both = [host.start("rank", rank, 2) for rank in (0, 1)]
    found = [[line for line in finished(child) if "batch" in line[:5] or line.startswith(" n")] for child in both]
    assert [re.findall(r"n=(\d)", " ".join(lines)) for lines in found] == [["1", "2", "5", "5"], ["3", "4", "5", "5"]]
    assert [re.findall(r"batch (\d).*?(\d) of 2", " ".join(lines)) for lines in found] == [
        [("0", "2"), ("2", "1")],
        [("1", "2"), ("3", "0")],
    ]


def test_misuse_is_an_error_with_a_text(begin, tmp_path):
    lines = begin(csv(tmp_path)).run("misuse")
    assert len(lines) == 17 and lines[-1] == "nothing: 0: no error"
    for number, begins in enumerate(
        (
            "no channel: 1: pipemill_connect: channel is NULL; expected a text",
            "not UTF-8: 1: pipemill_connect: channel: expected text in UTF-8, which ends at byte 0",
            'no host: 2: no pipemill host could be reached at the socket "/nowhere/socket", waited 0.001 s for it: ',
            "wait: 1: options: wait_ms is -2; expected",
            'tail: 1: options: tail is "chop"; expected keep, drop or pad',
            'across: 1: options: batch_across is "worlds"; expected epoch or object',
            "tail alone: 1: options: tail and batch_across are about batch_records, which is 0",
            "rank: 1: options: rank is 1 and world is 0; ",
            "state: 1: options: state: expected the JSON that pipemill_state returned: ",
            'no such channel: 3: the host refused this consumer: no channel "nothing" here; there are: "train"',
            "no socket: 2: where is the pipemill host? $PIPEMILL_SOCKET is not set; ",
            "next: 1: pipemill_next: reader is NULL; expected what pipemill_connect returned",
        )
    ):
        assert lines[number].startswith(begins)


def test_a_program_that_releases_nothing_is_told(begin, tmp_path):
    lines = begin(csv(tmp_path, "batch = 1\n")).run("hold")
    assert lines[0].startswith("held: 8: channel \"train\": this program holds 1 batches, all that it may (1 credits)")
    assert lines[1:] == [
        'field: 1: no field "nothing"; the records of this channel have n, name',
        "then batch 1",
    ]


def test_a_second_thread_is_told(begin, tmp_path):
    child = begin(fifo(tmp_path)).start("threads")
    assert "busy: 1: another thread is in a function of this reader" in child.stdout.readline()
    (tmp_path / "train_0").write_text("a row\n")
    assert finished(child) == ["the thread got event 1"]


def test_what_the_channel_waits_for_is_told(begin, tmp_path):
    (line,) = begin(fifo(tmp_path)).run("waits")
    assert line.startswith("waits for ") and "train_0" in line


def test_a_forked_child_is_told(begin, tmp_path):
    lines = begin(csv(tmp_path)).run("child")
    assert lines == [
        'child: 7: channel "train": connected before a fork; a child process must connect itself',
        "the parent got event 1",
    ]


def test_an_epoch_is_skipped(begin, tmp_path):
    files = f'source = {{ file = "{tmp_path}/rows.csv", epochs = 2 }}\n{CSV}batch = 1\n'
    csv(tmp_path, rows="n,name\n" + "1,x\n" * 5_000)
    assert begin(files).run("skip") == ["epoch 0 ended early", "epoch 1 ended as it should", "event 3"]


def test_the_hosts_error_is_read(begin, tmp_path):
    lines = begin(csv(tmp_path, rows=ROWS + "six,6\n")).run("records")
    failed = next(line for line in lines if line.startswith("next: "))
    assert failed.startswith("next: 9: ") and f"object {tmp_path}/rows.csv" in failed and "record 5" in failed


def test_a_killed_host_is_an_error(begin, tmp_path):
    begun = begin(fifo(tmp_path))
    child = begun.start("records")
    with open(tmp_path / "train_0", "w") as writer:
        writer.write("1\n2\n3\n4\n")
        writer.flush()
        assert child.stdout.readline().startswith("batch 0 of epoch 0, 3 of 3 records")
        begun.host.kill()
        lines = finished(child)
    assert 'next: 4: channel "train": the host died: it hung up before the end of the stream' in lines


def test_a_host_of_another_user_is_not_believed(checks, place, foreign_host):
    socket = place / "host.sock"
    foreign_host(socket)

    def run(job, code):
        child = subprocess.Popen(
            [checks, job], env=os.environ | {"PIPEMILL_SOCKET": str(socket)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        return finished(child, code)

    [line] = run("records", 1)
    expected = f"{socket}: expected a host of user 0 or of root, found one of user {NOBODY}"
    assert line.startswith(f"connect: 2: {expected}") and "allow_other_users" in line
    assert run("any", 0)[0].startswith("batch 0 of epoch 0, 1 of 3 records, from record 0 of")


def example(tmp_path, *words, env=None):
    command = ["make", "-s", "-C", EXAMPLE, f"OUT={tmp_path}", f"PIPEMILL={PIPEMILL}", f"PIPEMILL_C={LIBRARY}", *words]
    quiet = os.environ | {"PIPEMILL_LOG": "error", "CFLAGS": "-Werror", "XDG_RUNTIME_DIR": str(tmp_path)}
    return subprocess.run(command, env=quiet | (env or {}), capture_output=True, text=True, timeout=PATIENCE)


def test_the_example_sums_a_field_with_both_libraries(tmp_path):
    if LIBRARY is None:
        pytest.skip("set PIPEMILL_C to the folder of `make c-library`")
    tmp_path.chmod(0o700)
    done = example(tmp_path, "test")
    assert done.returncode == 0, done.stderr
    sums = [line for line in done.stdout.splitlines() if line.startswith("the sum")]
    assert sums == ["the sum of price in 3 records is 12.875", "the sum of pieces in 3 records is 83"]
    # The output of a program for a field that it can't sum, and for one that does not exist.
    for field, says in (("item", "found utf8 as the type of item"), ("color", "no field \"color\"; the records")):
        command = [PIPEMILL, "run", "--config", "pipemill.toml", "--", tmp_path / "sum", "orders", field]
        env = os.environ | {"PIPEMILL_LOG": "off", "XDG_RUNTIME_DIR": str(tmp_path)}
        failed = subprocess.run(command, cwd=EXAMPLE, env=env, capture_output=True, text=True, timeout=PATIENCE)
        assert failed.returncode == 1 and says in failed.stderr, failed.stderr


def test_the_shared_library_exports_only_its_functions():
    if LIBRARY is None:
        pytest.skip("set PIPEMILL_C to the folder of `make c-library`")
    header = (pathlib.Path(LIBRARY) / "include" / "pipemill.h").read_text()
    declared = set(re.findall(r"^[\w ]+[ *](pipemill_\w+)\(", header, re.MULTILINE))
    names = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=just-symbols", f"{LIBRARY}/lib/libpipemill.so"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    exported = set(names.stdout.split())
    assert exported == declared and len(exported) > 20


def test_the_header_is_cpp(tmp_path):
    if shutil.which("c++") is None:
        pytest.skip("needs a C++ compiler")
    source = tmp_path / "program.cpp"
    source.write_text('#include <pipemill.h>\nint main() { return *pipemill_version() == 0; }\n')
    compiler = ["c++", "-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT}/ring/include"]
    subprocess.run([*compiler, "-c", source, "-o", tmp_path / "program.o"], check=True)
