""".github: the workflows call targets that the Makefile has, with actions of a fixed version and no right to write."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.M))


def test_there_are_three():
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "nightly.yml", "release.yml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow(path):
    text = path.read_text()
    targets = {word for line in re.findall(r"- run: make (.*)", text) for word in line.split()}
    # The values of a matrix, in one list or in one for each job.
    targets |= set(re.findall(r"\btarget: ([a-z-]+)", text))
    targets |= {name for line in re.findall(r"\btarget: \[(.*)\]", text) for name in line.split(", ")}
    targets = {target for target in targets if re.fullmatch(r"[a-z][a-z0-9-]*", target)}
    assert targets and targets <= TARGETS
    used = re.findall(r"\buses: (\S+)", text)
    assert used and all(re.fullmatch(r"actions/[a-z-]+@v\d+\.\d+\.\d+", action) for action in used)
    assert "\npermissions:\n  contents: read\n" in text
    assert set(re.findall(r"^ +([a-z-]+): write$", text, re.M)) <= {"contents"}
    assert text.count("runs-on:") == text.count("timeout-minutes:")
    rust = re.search(r'channel = "(.*)"', (ROOT / "rust-toolchain.toml").read_text())[1]
    images = set(re.findall(r"^ +container: (\S+)$", text, re.M))
    assert images <= {f"rust:{rust}-bookworm"}


def test_a_bug_comes_with_what_doctor_says():
    assert "`pipemill doctor`" in (GITHUB / "ISSUE_TEMPLATE/bug.yml").read_text()


def test_labels_of_the_templates_are_in_contributing():
    page = (ROOT / "CONTRIBUTING.md").read_text()
    labels = {
        label
        for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml")
        for label in re.findall(r"^labels: \[(.*)\]$", path.read_text(), re.M)
    }
    assert labels and all(f"`{label}`" in page for label in labels)
