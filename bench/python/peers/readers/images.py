"""JPEGs in tar archives as ``uint8[224,224,3]``, with the functions of `plugins/jpeg/bench.py`."""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

from ..task import Reader, Task, whole

BENCH = pathlib.Path(__file__).parents[4] / "plugins/jpeg/bench.py"
Items = Iterator["tuple[int, int]"]


def functions() -> Any:
    spec = importlib.util.spec_from_file_location("jpeg_bench", BENCH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def archives(task: Task) -> list[str]:
    return sorted(map(str, pathlib.Path(task.files[0]).glob("*.tar")))


def epochs(run: Callable[[Any, Task], int]) -> Reader:
    """A reader whose items are all archives: ``run`` reads them once with those functions, and
    counts the images.
    """

    @whole
    def reader(task: Task) -> Items:
        bench = functions()
        while True:
            count = run(bench, task)
            yield count, count

    return reader


pillow = epochs(lambda bench, task: bench.pillow(archives(task)))
torchvision = epochs(lambda bench, task: bench.torchvision(archives(task)))
data_loader = epochs(lambda bench, task: bench.data_loader_with(bench.with_pillow)(archives(task)))
data_loader_of_torchvision = epochs(lambda bench, task: bench.data_loader_with(bench.with_torchvision)(archives(task)))
spdl = epochs(lambda bench, task: bench.spdl_with(bench.with_pillow)(archives(task)))
pipemill = epochs(lambda bench, task: bench.decoder(archives(task), task.options["workers"]))
