"""Each dependency is used and has its reason in CONTRIBUTING.md. cargo-deny checks licences and sources: `make lint`."""

import pathlib
import re

try:
    import tomllib
except ImportError:  # Python before 3.11: mypy brings it.
    import tomli as tomllib

ROOT = pathlib.Path(__file__).parents[2]
#: Names dependencies only to choose their features, as it says itself. Others depend on it for the same reason.
FEATURES_ONLY = "features"


def toml(path):
    return tomllib.loads((ROOT / path).read_text())


WORKSPACE = toml("Cargo.toml")["workspace"]


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
    """The rule of cargo-machete: a crate that no file of the package names is not used."""
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
            for name in set(manifest.get(kind, {})) - {f"pipemill-{FEATURES_ONLY}"}:
                word = re.compile(rf"\b{name.replace('-', '_')}\b")
                assert any(map(word.search, files)), f"{member}: {kind} has {name}, which is not used"
