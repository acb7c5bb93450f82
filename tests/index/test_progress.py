"""An index whose making was ended early: the next command goes on where it was, and makes the same index."""

import gzip
import os
import subprocess

import pytest
from e2e import PIPEMILL, run

#: More than two times as many files as are saved together.
FILES = 9000
#: The file that can't be decoded: it comes after two savings.
LAST = FILES - 100
OPTIONS = ("-d", "csv", "-o", "header=true", "-o", "types=a:int64,b:utf8", "--distance", "4KiB")


@pytest.fixture(scope="module")
def all_data(tmp_path_factory):
    """Many small files, and some larger ones with places, one of them compressed."""
    folder = tmp_path_factory.mktemp("all")
    for number in range(FILES):
        rows = 2000 if number % 3000 == 7 else number % 3
        text = "a,b\n" + "".join(f"{number * 10_000 + row},{'x' * (row % 40)}\n" for row in range(rows))
        if number == 3007:
            (folder / f"{number:05}.csv.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / f"{number:05}.csv").write_text(text)
    return folder


@pytest.fixture
def data(all_data, tmp_path):
    """The files, as links of which each test has its own."""
    folder = tmp_path / "data"
    folder.mkdir()
    for entry in os.scandir(all_data):
        os.link(entry.path, folder / entry.name)
    return folder


def replace(path, text):
    """Another file: the one that was linked stays."""
    path.unlink()
    path.write_text(text)


def broken(data, index, *more):
    """A command that ends at a file that can't be decoded, after it has saved something. Returns the saved file."""
    path = data / f"{LAST:05}.csv"
    text = path.read_text()
    replace(path, "a,b\nno number,x\n")
    failed = run("index", data, "--out", index, *OPTIONS, *more)
    assert failed.returncode == 65 and path.name.encode() in failed.stderr, failed.stderr
    replace(path, text)
    saved = index.with_name(f".{index.name}.progress")
    assert saved.exists() and not index.exists()
    return saved


def finished(data, index, *more):
    """Makes the index, and returns after how many objects the command went on, and what it made."""
    done = run("index", data, "--out", index, *OPTIONS, *more)
    assert done.returncode == 0, done.stderr
    assert not index.with_name(f".{index.name}.progress").exists()
    found = [line for line in done.stderr.decode().splitlines() if "going on after" in line]
    after = int(found[0].split("going on after ")[1].split()[0].replace(",", "")) if found else 0
    return after, shown(index)


def shown(index):
    return run("index", "show", index).stdout + run("index", "show", "--objects", index).stdout


def test_the_next_command_goes_on_and_makes_the_same_index(data, tmp_path):
    broken(data, tmp_path / "x.index")
    after, made = finished(data, tmp_path / "x.index")
    assert after == 8192
    assert finished(data, tmp_path / "fresh.index") == (0, made)


@pytest.mark.parametrize(
    "change, number, after",
    [
        ("replaced", 0, 0),
        ("new before it", 0, 0),
        ("removed", 5, 0),
        ("replaced", 5000, 4096),
        ("new before it", 5000, 4096),
        ("removed", LAST + 1, 8192),
    ],
)
def test_an_object_that_has_changed_is_read_again(data, tmp_path, number, after, change):
    broken(data, tmp_path / "x.index")
    path = data / f"{number:05}.csv"
    if change == "replaced":
        replace(path, "a,b\n7,other\n8,other\n")
    elif change == "removed":
        path.unlink()
    else:
        (data / f"{number - 1:05}.csv.csv" if number else data / "0.csv").write_text("a,b\n7,other\n")
    went_on, made = finished(data, tmp_path / "x.index")
    assert went_on == after
    assert finished(data, tmp_path / "fresh.index") == (0, made)


def test_what_was_saved_of_another_build_is_not_used(data, tmp_path):
    saved = broken(data, tmp_path / "x.index").read_bytes()
    place = tmp_path / ".x.index.progress"
    for other in (["--distance", "8KiB"], ["--max-record", "1MiB"], ["--skip-errors"], ["--part", "0/2"]):
        place.write_bytes(saved)
        words = [*OPTIONS[:-2], *other] if other[0] == "--distance" else [*OPTIONS, *other]
        done = run("index", data, "--out", tmp_path / "x.index", *words)
        assert done.returncode == 0 and b"going on" not in done.stderr, done.stderr


def test_a_saved_file_that_is_damaged_costs_time_alone(data, tmp_path):
    saved = broken(data, tmp_path / "x.index").read_bytes()
    place = tmp_path / ".x.index.progress"
    after, made = finished(data, tmp_path / "x.index")
    assert after == 8192
    ends = [0, 1, 15, 30, 45, 100, len(saved) // 3, len(saved) - 1]
    damaged = [saved[:end] for end in ends] + [saved + b"more", saved + saved]
    damaged += [saved[:at] + bytes([saved[at] ^ 1]) + saved[at + 1 :] for at in (30, 60, len(saved) // 2, len(saved) - 5)]
    for bytes_ in damaged:
        place.write_bytes(bytes_)
        went_on, again = finished(data, tmp_path / "x.index")
        assert went_on in (0, 4096, 8192) and again == made


def test_another_file_is_not_touched(data, tmp_path):
    for content in (b"a,b\n1,2\n", b"\xff" * 100):
        (tmp_path / "data.csv").write_bytes(content)
        done = run("index", data, "--out", tmp_path / "x.index", *OPTIONS, "--progress", tmp_path / "data.csv")
        assert done.returncode == 0 and b"another kind of file" in done.stderr, done.stderr
        assert (tmp_path / "data.csv").read_bytes() == content


def test_errors_of_before_count(data, tmp_path):
    for number in (10, 20, 30):
        replace(data / f"{number:05}.csv", "a,b\nno number,x\n1,y\n")
    broken(data, tmp_path / "x.index", "--skip-errors", "--max-errors", "3")
    replace(data / f"{LAST + 50:05}.csv", "a,b\nno number,x\n1,y\n")
    again = run("index", data, "--out", tmp_path / "x.index", *OPTIONS, "--skip-errors", "--max-errors", "3")
    assert again.returncode == 65, again.stderr
    after, made = finished(data, tmp_path / "x.index", "--skip-errors", "--max-errors", "4")
    assert after == 8192 and b"errors   4 skipped" in made
    assert finished(data, tmp_path / "fresh.index", "--skip-errors") == (0, made)


def test_a_part_goes_on(data, tmp_path):
    """The part has every second object, and the one that fails is its own."""
    for number in range(2):
        parts = tmp_path / f"{number}.index"
        if number == LAST % 2:
            broken(data, parts, "--part", f"{number}/2")
            assert finished(data, parts, "--part", f"{number}/2")[0] == 4096
        else:
            assert finished(data, parts, "--part", f"{number}/2")[0] == 0
    merged = tmp_path / "merged.index"
    assert run("index", "merge", tmp_path / "0.index", tmp_path / "1.index", "--out", merged).returncode == 0
    assert finished(data, tmp_path / "fresh.index")[1] == shown(merged)


def test_progress_is_saved_where_the_command_line_says(data, tmp_path):
    saved = tmp_path / "saved"
    path = data / f"{LAST:05}.csv"
    text = path.read_text()
    replace(path, "a,b\nno number,x\n")
    words = ["index", data, "--out", tmp_path / "x.index", *OPTIONS, "--progress", saved]
    assert run(*words).returncode == 65
    assert sorted(os.listdir(tmp_path)) == ["data", "saved"]
    replace(path, text)
    done = run(*words)
    assert b"going on after 8,192 objects" in done.stderr and not saved.exists()


def test_a_command_that_is_killed_anywhere_is_gone_on_with(data, tmp_path):
    """It is killed once it has begun to save, or has ended before that was seen."""
    index, saved = tmp_path / "x.index", tmp_path / ".x.index.progress"
    words = [PIPEMILL, "index", str(data), "--out", str(index), *OPTIONS]
    for size in (0, 1, 10_000, 100_000):
        child = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        while child.poll() is None and not (saved.exists() and saved.stat().st_size >= size):
            pass
        child.kill()
        child.wait()
    _, made = finished(data, index)
    assert finished(data, tmp_path / "fresh.index") == (0, made)


def test_two_commands_do_not_share_a_file(data, tmp_path):
    import fcntl

    saved = broken(data, tmp_path / "x.index")
    with open(saved, "r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = run("index", data, "--out", tmp_path / "x.index", *OPTIONS)
        assert done.returncode == 0 and b"can't be used" in done.stderr, done.stderr
    assert saved.exists()
    assert finished(data, tmp_path / "y.index")[1] == shown(tmp_path / "x.index")
