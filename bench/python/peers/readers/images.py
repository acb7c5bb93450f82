"""JPEGs in tar archives as ``uint8[224,224,3]``, with the functions of `examples/decoder-jpeg/bench.py`."""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Iterator
from typing import Any

from ..task import Task, whole

BENCH = pathlib.Path(__file__).parents[4] / "examples/decoder-jpeg/bench.py"
Items = Iterator["tuple[int, int]"]


def functions() -> Any:
    spec = importlib.util.spec_from_file_location("decoder_jpeg_bench", BENCH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def archives(task: Task) -> list[str]:
    return sorted(map(str, pathlib.Path(task.files[0]).glob("*.tar")))


def counted(count: int) -> tuple[int, int]:
    return count, count


@whole
def pillow(task: Task) -> Items:
    bench = functions()
    while True:
        yield counted(bench.pillow(archives(task)))


@whole
def data_loader(task: Task) -> Items:
    bench = functions()
    while True:
        yield counted(bench.data_loader_with(bench.with_pillow)(archives(task)))


@whole
def torchvision(task: Task) -> Items:
    bench = functions()
    while True:
        yield counted(bench.torchvision(archives(task)))


@whole
def data_loader_of_torchvision(task: Task) -> Items:
    bench = functions()
    while True:
        yield counted(bench.data_loader_with(bench.with_torchvision)(archives(task)))


@whole
def spdl(task: Task) -> Items:
    bench = functions()
    while True:
        yield counted(bench.spdl_with(bench.with_pillow)(archives(task)))


@whole
def pipemill(task: Task) -> Items:
    bench = functions()
    while True:
        yield counted(bench.decoder(archives(task), task.options["workers"]))
