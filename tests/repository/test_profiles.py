"""Cargo.toml says how each crate is optimized. A crate on the way of a byte is in both profiles, and plugins are built alike."""

import pathlib

import pytest

try:
    import tomllib
except ImportError:  # Python before 3.11: mypy brings it.
    import tomli as tomllib

ROOT = pathlib.Path(__file__).parents[2]
#: Crates that only tests need fast; decoders use highway and simdutf8 as WebAssembly.
OF_TESTS = {"libfuzzer-sys", "brotli", "highway", "sha2", "simdutf8", "strsim"}


def profiles(folder):
    return tomllib.loads((ROOT / folder / "Cargo.toml").read_text())["profile"]


def levels(profile):
    return {name: package["opt-level"] for name, package in profiles(".")[profile]["package"].items()}


def test_what_touches_each_byte_is_optimized_in_both_profiles():
    dev = {name for name, level in levels("dev").items() if level >= 2} - OF_TESTS
    release = {name for name, level in levels("release").items() if level == 3}
    assert dev and dev <= release


@pytest.mark.parametrize("folder", ["plugins/jpeg", "examples/decoder-rust", "examples/decoder-rust-wrap"])
def test_plugins_with_their_own_workspace_are_built_like_the_others(folder):
    own, shared = profiles(folder)["release"], profiles(".")["plugin"]
    assert {key: own.get(key) for key in ("lto", "codegen-units", "panic")} == {
        key: shared[key] for key in ("lto", "codegen-units", "panic")
    }
