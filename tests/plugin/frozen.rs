//! Interface 0.1 is frozen: its definition does not change, and plugins that were built for it run on.
//!
//! `fixtures/frozen` has one plugin of each language, made by `pipemill plugin new` and `build`
//! when 0.1 was frozen. They are never built again. `before.wasm` was built earlier, when the
//! interface already had its name, but a different shape.
//!
//! In `rust.wasm` and `before.wasm`, `/rust/deps/./././` stands for the folder in which cargo had
//! unpacked a library: texts of the same length. Nothing else in them was changed.
//! `python.wasm.zst` holds the runtime of componentize-py as PyPI has it, with the paths of those
//! who built that.

use std::fs;
use std::path::Path;

use pipemill_decode::Digest;
use pipemill_tests::test_dir::TestDir;

use super::new::keep_cache;
use super::{plugin, run};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// SHA-256 of `wit/0.1/decoder.wit`. Since it was frozen, only comments have changed: they explain
/// `pipemill.restart`.
const FROZEN: &str = "47974154b52ceed76b4a35880477f64ebe16ca5f7cb2102c83f9816138276a08";

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(ROOT).join("plugin/fixtures/frozen").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A change of the interface is a new version in a folder of its own. The version before stays as it is,
/// because plugins of it exist.
#[test]
fn the_definition_of_a_frozen_interface_does_not_change() {
    let path = Path::new(ROOT).join("../wit/0.1/decoder.wit");
    let digest = Digest::of(&fs::read(path).expect("the interface")).to_string();
    assert_eq!(digest, FROZEN, "wit/0.1 has changed; 0.1 is frozen: see CONTRIBUTING.md");
}

fn runs_on(file: &str, bytes: &[u8]) {
    let place = TestDir::new();
    keep_cache(&place);
    place.write(file, bytes);
    place.write("greetings.pstr", fixture("greetings.pstr"));
    place.write("bad.pstr", b"PSTR\x01\0a\x02\0\xff\xff\x01\0b");
    let printed = run(&place, &["cat", "-d", file, "-o", "text=true", "greetings.pstr"]);
    let printed = printed.with_code(0).text();
    let strings: Vec<_> = printed
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .map(|record| record["fields"]["string"].as_str().expect("text").to_owned())
        .collect();
    assert_eq!(strings, ["Hello", "", "Grüezi", "こんにちは"]);
    let args = ["cat", "-d", file, "-o", "text=true", "--on-error", "skip", "bad.pstr"];
    let skipped = run(&place, &args).with_code(0);
    assert_eq!(skipped.text().lines().count(), 2);
    skipped.says(&["byte offset 7", "UTF-8"]);
    let args = ["test", file, "--data", "greetings.pstr", "--cases", "20"];
    plugin(&place, &args).with_code(0);
}

#[test]
fn a_plugin_in_rust_runs_on() {
    runs_on("rust.wasm", &fixture("rust.wasm"));
}

#[test]
fn a_plugin_in_c_runs_on() {
    runs_on("c.wasm", &fixture("c.wasm"));
}

#[test]
fn a_plugin_in_python_runs_on() {
    let component = zstd::decode_all(&*fixture("python.wasm.zst")).expect("what zstd -19 made");
    runs_on("python.wasm", &component);
}

#[test]
fn a_plugin_of_before_is_refused_and_not_misread() {
    let place = TestDir::new();
    place.write("before.wasm", fixture("before.wasm"));
    place.write("lines", "a\n");
    let ended = run(&place, &["cat", "-d", "before.wasm", "lines"]).with_code(64);
    assert!(ended.stdout.is_empty());
    let version = env!("CARGO_PKG_VERSION");
    ended.says(&[
        "was made for another state of pipemill:decoder@0.1.0 than that of pipemill",
        version,
        "rebuild the plugin",
    ]);
}
