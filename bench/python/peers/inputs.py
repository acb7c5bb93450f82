"""Makes the input files once, and reads them, so that they are in the page cache."""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess

from .cases import FOLDERS, OLDER_WRITERS, Input
from .places import Places

MAKE = pathlib.Path(__file__).parents[1] / "make.py"
#: Bytes of a small file whose records have no one size.
SMALL = 64 << 10


@dataclasses.dataclass(frozen=True)
class Files:
    files: list[str]
    small: list[str]
    records: int
    small_records: int
    #: Bytes of a record, on average: of its payload, or of its text with line ends.
    record_bytes: float


def make(given: Input, writer: str | None, places: Places) -> Files:
    """The files of an input, or those of another writer with the same records."""
    other = dataclasses.replace(given, writer=writer or given.writer)
    folder = places.inputs / other.name
    folder.mkdir(parents=True, exist_ok=True)
    # Two small files of two complete batches each, so that no batch of a reader has records of two
    # epochs.
    small_size = 2 * given.rows * given.record if given.record else SMALL
    files = written(other, "", given.size // given.files, given.files, folder, places)
    small = written(other, "small-", small_size, 2 if given.record and given.files > 1 else 1, folder, places)
    for path in [path for path, _ in files]:
        read_all(path)
    records = sum(count for _, count in files)
    paths = [str(path) for path, _ in files]
    size = given.record if given.record else sum(size_of(path) for path, _ in files) / records
    if given.served:
        paths = [f"s3://{other.name}/{pathlib.Path(path).name}" for path in paths]
    small_paths = [f"s3://{other.name}/{path.name}" if given.served else str(path) for path, _ in small]
    return Files(paths, small_paths, records, sum(count for _, count in small), size)


def written(
    given: Input, prefix: str, size: int, count: int, folder: pathlib.Path, places: Places
) -> list[tuple[pathlib.Path, int]]:
    """Files with the numbers of their records."""
    if given.writer in FOLDERS:
        wanted = [(f"{count}*{size}", folder / f"{prefix}all")]
    else:
        ending = ".tar" if given.writer == "webdataset" else ""
        wanted = [(str(size), folder / f"{prefix}{number}{ending}") for number in range(count)]
    # `make.py` writes these files when a file is complete.
    counts = [(path, path.with_name(f"{path.name}.count")) for _, path in wanted]
    if not all(count.exists() for _, count in counts):
        python = places.python("older" if given.writer in OLDER_WRITERS else "peers")
        command = [python, "-W", "ignore", MAKE, given.writer, str(given.record)]
        for text, path in wanted:
            command += [text, path]
        with (places.logs / f"make-{given.name}.log").open("w") as log:
            subprocess.run(command, stdout=log, stderr=log, check=True, env=places.environment())
    return [(path, int(count.read_text())) for path, count in counts]


def files_of(path: pathlib.Path) -> list[pathlib.Path]:
    return [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]


def size_of(path: pathlib.Path) -> int:
    return sum(file.stat().st_size for file in files_of(path))


def read_all(path: pathlib.Path) -> None:
    for file in files_of(path):
        with file.open("rb", buffering=0) as opened:
            while opened.read(1 << 20):
                pass
