"""The machine of a measurement, and the versions of the libraries."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import platform
import re
import subprocess

from .places import ROOT, Places

#: The libraries that the page names, by environment.
LIBRARIES = {
    "peers": [
        "array-record", "boto3", "datasets", "grain", "litdata", "numpy", "nvidia-dali-cuda120", "pandas", "pillow", "polars",
        "pyarrow", "s3torchconnectorclient", "spdl", "tensorflow-cpu", "tfrecord", "torch", "torchvision", "webdataset",
    ],
    "older": ["mosaicml-streaming", "mxnet", "numpy", "sagemaker", "torch"],
}  # fmt: skip


def machine() -> dict[str, str]:
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = int(re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) / (1 << 20)
    return {
        "processor": cpu[1] if cpu else platform.processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory:.0f} GiB",
        "kernel": f"Linux {platform.release()}",
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
    }


def commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", ROOT, *words], stdout=subprocess.PIPE, text=True).stdout.strip()

    return git("rev-parse", "--short=12", "HEAD") or "unknown"


def versions(places: Places) -> dict[str, dict[str, str]]:
    script = (
        "import json, sys, platform\nfrom importlib.metadata import version\n"
        "print(json.dumps({'Python': platform.python_version(), **{name: version(name) for name in sys.argv[1:]}}))"
    )
    found = {}
    for env, names in LIBRARIES.items():
        command = [places.python(env), "-c", script, *names]
        found[env] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    lock = (ROOT / "Cargo.lock").read_text()
    rust = {"rustc": subprocess.run(["rustc", "--version"], stdout=subprocess.PIPE, text=True).stdout.split()[1]}
    for name in ("csv", "serde_json"):
        match = re.search(rf'name = "{name}"\nversion = "(.*?)"', lock)
        rust[name] = match[1] if match else "?"
    return {**found, "rust": rust}
