"""What is linked is what was chosen: each dependency has its reason in CONTRIBUTING.md, and deny.toml allows all of
their libraries. `make deny` checks the same file with cargo-deny, which takes minutes to build."""

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
#: Names dependencies only to choose their features, as it says itself.
FEATURES_ONLY = "deploy/static"


def toml(path):
    return tomllib.loads((ROOT / path).read_text())


DENY = toml("deny.toml")
WORKSPACE = toml("Cargo.toml")["workspace"]


@pytest.fixture(scope="module")
def packages():
    """All libraries that are linked on Linux, of tests, too."""
    command = ["cargo", "metadata", "--format-version=1", "--locked"]
    for target in DENY["graph"]["targets"]:
        command += ["--filter-platform", target]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    linked = {node["id"] for node in metadata["resolve"]["nodes"]}
    found = [package for package in metadata["packages"] if package["id"] in linked]
    assert len(found) > 100
    return found


def declared():
    """Each dependency on a library of others, with the manifests that declare it."""
    manifests = {}
    for member in WORKSPACE["members"]:
        manifest = toml(f"{member}/Cargo.toml")
        tables = [manifest, *manifest.get("target", {}).values()]
        for kind in ("dependencies", "dev-dependencies", "build-dependencies"):
            for name in [name for table in tables for name in table.get(kind, {})]:
                if not name.startswith("pipemill") and member != FEATURES_ONLY:
                    manifests.setdefault(name, []).append(member)
    return manifests


def documented():
    page = (ROOT / "CONTRIBUTING.md").read_text()
    table = re.search(r"\n## Dependencies\n(.*?)\n## ", page, re.DOTALL)[1]
    rows = re.findall(r"^\| (`.*?`) \| (.*?) \|$", table, re.MULTILINE)
    assert all(len(reason) > 10 for _, reason in rows)
    names = [name for names, _ in rows for name in re.findall(r"`([^`]+)`", names)]
    assert len(names) == len(set(names))
    return set(names)


def test_each_dependency_has_its_reason():
    assert documented() == set(declared())


def test_each_dependency_of_the_workspace_is_used():
    others = {name for name in WORKSPACE["dependencies"] if not name.startswith("pipemill")}
    assert others <= set(declared())


def test_each_dependency_is_named_in_the_code():
    """What cargo-machete does: a crate that no file of the package names is not used."""
    members = [ROOT / member for member in WORKSPACE["members"]]
    for member in WORKSPACE["members"]:
        if member == FEATURES_ONLY:
            continue
        folder = ROOT / member
        nested = [other for other in members if folder in other.parents]
        files = [
            path.read_text()
            for path in folder.rglob("*.rs")
            if nested == [] or not any(other in path.parents for other in nested)
        ]
        manifest = toml(f"{member}/Cargo.toml")
        for kind in ("dependencies", "dev-dependencies", "build-dependencies"):
            for name in manifest.get(kind, {}):
                word = re.compile(rf"\b{name.replace('-', '_')}\b")
                assert any(map(word.search, files)), f"{member}: {kind} has {name}, which is not used"


def allows(expression, allowed):
    """Whether a licence's SPDX expression can be met with these licences."""
    text = expression.replace("/", " OR ")
    # `A WITH B` is one licence.
    terms = re.findall(r"\(|\)|\bAND\b|\bOR\b|[^\s()]+(?: WITH [^\s()]+)?", text)

    def any_of():
        met = all_of()
        while terms and terms[0] == "OR":
            terms.pop(0)
            met = all_of() or met
        return met

    def all_of():
        met = one()
        while terms and terms[0] == "AND":
            terms.pop(0)
            met = one() and met
        return met

    def one():
        term = terms.pop(0)
        if term != "(":
            return term in allowed
        met = any_of()
        assert terms.pop(0) == ")", expression
        return met

    met = any_of()
    assert not terms, expression
    return met


@pytest.mark.parametrize(
    "expression, met",
    [
        ("MIT", True),
        ("GPL-3.0", False),
        ("GPL-3.0 OR MIT", True),
        ("GPL-3.0/MIT", True),
        ("MIT AND GPL-3.0", False),
        ("(MIT OR GPL-3.0) AND ISC", True),
        ("MIT OR GPL-3.0 AND ISC", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("GPL-2.0 WITH Classpath-exception-2.0", False),
    ],
)
def test_licence_expressions_are_understood(expression, met):
    assert allows(expression, {"MIT", "ISC", "Apache-2.0 WITH LLVM-exception"}) == met


def test_licences_are_allowed(packages):
    allowed = set(DENY["licenses"]["allow"])
    wrong = {
        f"{package['name']} {package['version']}": package["license"]
        for package in packages
        if not package["license"] or not allows(package["license"], allowed)
    }
    assert wrong == {}
    # A licence that no library has any more is not asked for.
    everything = " ".join(package["license"] for package in packages)
    assert [licence for licence in allowed if licence not in everything] == []


def test_sources_are_allowed(packages):
    allowed = {f"registry+{url}" for url in DENY["sources"]["allow-registry"]}
    sources = {package["source"] for package in packages if package["source"]}
    assert sources <= allowed
    folders = [pathlib.Path(package["manifest_path"]) for package in packages if not package["source"]]
    assert [folder for folder in folders if ROOT not in folder.parents] == []


def same(version, wanted):
    """Whether a version begins with these parts."""
    return version.split(".")[: len(wanted.split("."))] == wanted.split(".")


def test_bans_hold(packages):
    banned = {entry["crate"] for entry in DENY["bans"]["deny"]}
    names = {package["name"] for package in packages}
    assert not banned & names
    skip = [entry["crate"].split("@") for entry in DENY["bans"]["skip"]]
    versions = {}
    for package in packages:
        versions.setdefault(package["name"], []).append(package["version"])
    left = {
        name: found
        for name, of_name in versions.items()
        if len(found := [v for v in of_name if not any(n == name and same(v, w) for n, w in skip)]) > 1
    }
    assert left == {}, "a library in several versions: see `skip` in deny.toml"
    # What is no longer there twice is not skipped any more.
    gone = [name for name, wanted in skip if not (len(versions.get(name, [])) > 1 and any(same(v, wanted) for v in versions[name]))]
    assert gone == []
