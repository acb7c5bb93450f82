"""docs/versions.md and docs/releasing.md: the crates, the version and the Rust are those of the repository."""

import json
import pathlib
import re
import subprocess

import pytest

try:
    import tomllib
except ImportError:  # Python before 3.11: mypy brings it.
    import tomli as tomllib

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs/versions.md").read_text()
WORKSPACE = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
VERSION = WORKSPACE["package"]["version"]
RUST = WORKSPACE["package"]["rust-version"]


@pytest.fixture(scope="module")
def packages():
    command = ["cargo", "metadata", "--format-version=1", "--no-deps", "--locked"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return {package["name"]: package for package in json.loads(done.stdout)["packages"]}


@pytest.fixture(scope="module")
def published(packages):
    return {name: package for name, package in packages.items() if package["publish"] is None}


def test_the_page_has_the_crates_that_are_published(published):
    table = PAGE[PAGE.index("\n## Crates\n") :]
    assert set(re.findall(r"^\| `(pipemill-[a-z-]+)` \|", table, re.M)) == set(published)


def test_a_published_crate_can_be_found_read_and_used(published):
    for name, package in published.items():
        folder = pathlib.Path(package["manifest_path"]).parent
        for said in ("description", "documentation", "repository", "license"):
            assert package[said], f"{name} has no {said}"
        assert package["keywords"] and package["categories"], name
        for file in ("README.md", "LICENSE-APACHE", "LICENSE-MIT"):
            assert (folder / file).is_file(), f"{name} has no {file}"
        assert (folder / "LICENSE-MIT").read_text() == (ROOT / "LICENSE-MIT").read_text()


def test_a_published_crate_needs_only_published_ones(published):
    for name, package in published.items():
        needed = {it["name"] for it in package["dependencies"] if it["kind"] != "dev"}
        ours = {it for it in needed if it.startswith("pipemill")}
        assert ours <= set(published), name


def test_all_files_have_the_same_version(packages):
    assert {package["version"] for package in packages.values()} == {VERSION}
    for file, line in {
        "python/pyproject.toml": f'version = "{VERSION}"',
        "python/src/pipemill/version.py": f'__version__ = "{VERSION}"',
        "ring/c/cbindgen.toml": f'#define PIPEMILL_VERSION "{VERSION}"',
        "CITATION.cff": f"version: {VERSION}",
    }.items():
        assert line in (ROOT / file).read_text().splitlines(), file
        page = (ROOT / "docs/releasing.md").read_text()
        assert f"`{file}`" in page, f"docs/releasing.md does not say that {file} has the version"
    assert re.search(rf"^## {re.escape(VERSION)}\b", (ROOT / "CHANGELOG.md").read_text(), re.M)


def test_the_oldest_rust_is_said_and_built_with():
    toolchain = tomllib.loads((ROOT / "rust-toolchain.toml").read_text())["toolchain"]
    assert toolchain["channel"].startswith(f"{RUST}.")
    assert f"today {RUST}." in PAGE
    assert f"`rust-toolchain.toml` names, {RUST}." in (ROOT / "README.md").read_text()
    assert f"This Rust, {RUST}, is also the oldest" in (ROOT / "CONTRIBUTING.md").read_text()
    assert f"ARG RUST=rust:{RUST}\n" in (ROOT / "deploy/Containerfile").read_text()


def test_the_number_of_the_c_library():
    assert "libpipemill.so.0.1" in PAGE
    assert "libpipemill.so.0.1" in (ROOT / "Makefile").read_text()


def test_a_release_refuses_a_version_that_the_files_do_not_have(tmp_path):
    folder = tmp_path / "release"
    command = [ROOT / "deploy/release", folder, "9.9.9", "/bin/true", tmp_path]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and not folder.exists()
    assert done.stderr == (
        "release: python/pyproject.toml does not have version 9.9.9, which Cargo.toml has: expected a line like "
        'version = "9.9.9"\n'
    )
