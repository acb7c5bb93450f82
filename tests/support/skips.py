"""Under CI a test that is left out has failed, unless tests/skips.txt has it with its reason. For pytest's `-p`."""

import os
import pathlib

import pytest

LIST = pathlib.Path(__file__).parents[1] / "skips.txt"


def is_listed(name):
    lines = (line for line in LIST.read_text().splitlines() if line and not line.startswith("#"))
    for line in lines:
        pattern, _ = line.split(": ", 1)
        if name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1])):
            return True
    return False


def _check(report, name):
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail") and not is_listed(name):
        why = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{why}\nLeft out under CI, and not in {LIST}."
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    return _check(report, item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    return _check(report, collector.nodeid)
