"""Alternates between the readers of a case: A B C A B C. All are ready before the first round, and
only one works at a time.
"""

from __future__ import annotations

import json
import math
import subprocess
from typing import Any

from .cases import Case, Line
from .inputs import Files
from .places import Places
from .task import Task


class Contender:
    """The process of a reader, and its measurements."""

    def __init__(self, case: Case, line: Line, files: Files, seconds: float, places: Places, extra: dict[str, Any]):
        self.line, self.files = line, files
        self.log = places.logs / f"{case.key}-{line.name.replace(' ', '-').replace(',', '')}.log"
        self.failed: str | None = None
        self.rates: list[float] = []
        self.cpu: list[float] = []
        task = Task(
            line.reader, seconds, files.files, files.small, files.records, files.small_records, case.input.record,
            {**extra, **line.options},
        )  # fmt: skip
        if line.env == "rust":
            command = [str(places.release / "pipemill-bench"), "read", task.text()]
        else:
            command = [places.python(line.env), "-W", "ignore", "-m", "peers.worker", task.text()]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=places.environment()
            )

    def answer(self) -> dict[str, Any] | None:
        """The next answer; None if the process has ended."""
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        if text.endswith("\n"):
            return dict(json.loads(text))
        self.process.wait()
        lines = self.log.read_text(errors="replace").split("\n")
        self.failed = next(
            (line.strip() for line in reversed(lines) if line.strip()), f"exit {self.process.returncode}"
        )
        return None

    def round(self) -> None:
        if self.failed:
            return
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # `answer` says why.
        found = self.answer()
        if found is not None:
            amount = found["records"] * self.files.record_bytes
            self.rates.append(found["records"] / found["seconds"])
            self.cpu.append(found["cpu"] * 1e9 / amount)

    def end(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def measure(
    case: Case, files: list[Files], rounds: int, seconds: float, places: Places, extra: dict[str, Any]
) -> list[dict[str, Any]]:
    """The results of each line. A line that can't run has the reason instead of figures."""
    contenders = []
    try:
        for line, its in zip(case.lines, files):
            contenders.append(Contender(case, line, its, seconds, places, extra))
        first = None
        for contender in contenders:
            found = contender.answer()
            if found is None:
                continue
            first = first or found
            if found["records"] != first["records"] or not math.isclose(found["sum"], first["sum"], rel_tol=1e-6):
                contender.failed = f"it reads something else: {found}, and {contenders[0].line.name} {first}"
        for _ in range(rounds):
            for contender in contenders:
                contender.round()
    finally:
        for contender in contenders:
            contender.end()
    return [
        {
            "name": one.line.name, "does": one.line.does, "failed": one.failed,
            "record_bytes": one.files.record_bytes, "records_per_s": one.rates, "cpu_ns_per_byte": one.cpu,
        }
        for one in contenders
    ]  # fmt: skip
