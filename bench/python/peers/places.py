"""The folders of the benches: their programs and their output are in the target folder."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

ROOT = pathlib.Path(__file__).parents[3]


class Places:
    def __init__(self, quick: bool) -> None:
        self.target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").absolute()
        self.release = self.target / "release"
        self.dir = self.target / "bench" / ("peers-quick" if quick else "peers")
        self.inputs = self.dir / "inputs"
        #: A file for each case that was measured.
        self.results = self.dir / "results"
        self.logs = self.dir / "logs"
        #: The reports that the page is made of: in the repository, unless they are of a quick run.
        self.reports = self.target / "bench/quick" if quick else ROOT / "bench/results"
        for folder in (self.inputs, self.results, self.logs, self.reports):
            folder.mkdir(parents=True, exist_ok=True)

    def write_report(self, name: str, report: dict[str, Any]) -> None:
        path = self.reports / f"{name}.json"
        path.write_text(json.dumps(report, indent=1) + "\n")
        print(f"{path} is written")

    def python(self, env: str) -> str:
        return str(self.target / {"peers": "venv-peers", "older": "venv-peers-older"}[env] / "bin/python")

    def environment(self) -> dict[str, str]:
        """The environment of a reader: this build's host and package, and libraries that load
        nothing from elsewhere.
        """
        paths = [ROOT / "python/src", ROOT / "bench/python"]
        return {
            **os.environ,
            "PIPEMILL": str(self.release / "pipemill"),
            "PIPEMILL_LOG": "error",
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(self.dir / "hf"),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "TOKENIZERS_PARALLELISM": "false",
        }
