//! `plugin check`, `plugin inspect` and `plugin bench`.

use std::process::Command;

use pipemill_tests::inputs::tfrecord;
use pipemill_tests::process::finish;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{BAD_PLUGIN, pipemill};

use super::{plugin, run};

#[test]
fn inspect_shows_interface_imports_fields_and_options() {
    let place = TestDir::new();
    let text = plugin(&place, &["inspect", "csv", "-o", "emit=row"]).with_code(0).text();
    for line in [
        "plugin     csv",
        "interface  pipemill:decoder@0.1.0",
        "imports    pipemill:decoder/host@0.1.0#",
        "fields     row (bytes)",
        "    delimiter = string (default ,)",
    ] {
        assert!(text.contains(line), "expected {line:?} in {text}");
    }
    let digest = text.lines().find_map(|line| line.strip_prefix("sha256     ")).expect("a digest");
    assert_eq!(digest.len(), 64);
    let named = plugin(&place, &["inspect", "csv"]).with_code(0).text();
    assert!(named.contains("fields     known from the input"), "{named}");
    let typed = plugin(&place, &["inspect", "csv", "-o", "names=a,b", "-o", "emit=dense"]);
    assert!(typed.with_code(0).text().contains("fields     x (float32[2])"));
}

#[test]
fn check_says_whether_a_plugin_fits() {
    let place = TestDir::new();
    let fits = plugin(&place, &["check", BAD_PLUGIN]).with_code(0).text();
    assert!(fits.contains("a decoder for pipemill:decoder@0.1.0"), "{fits}");
    place.write("text.wasm", "no wasm at all");
    plugin(&place, &["check", "text.wasm"])
        .with_code(65)
        .says(&["text.wasm", "its file is not WebAssembly"]);
    place.write("empty.wasm", b"\0asm\x0d\0\x01\0");
    plugin(&place, &["check", "empty.wasm"]).with_code(65).says(&["is not a pipemill decoder"]);
    let fails =
        plugin(&place, &["check", BAD_PLUGIN, "-o", "do=trap-at-open"]).with_code(65).text();
    assert!(fails.contains("wrong: the decoder failed: "), "{fails}");
    // It may want an option that only the operator knows.
    let refuses = plugin(&place, &["check", BAD_PLUGIN, "-o", "do=refuse"]).with_code(0).text();
    assert!(refuses.contains("note: the decoder refuses to start: no,"), "{refuses}");
    plugin(&place, &["check", "csv", "-o", "delimeter=;"])
        .with_code(64)
        .says(&["did you mean `delimiter`?"]);
}

#[test]
fn a_plugin_is_found_by_its_name() {
    let place = TestDir::new();
    std::fs::copy(BAD_PLUGIN, place.path("mine.wasm")).unwrap();
    let inspect = |action: &str| {
        let mut command = Command::new(pipemill!());
        command.args(["plugin", action, "mine"]).env("PIPEMILL_PLUGIN_PATH", place.folder());
        // This runs in another folder, so that the plugin's bare name finds nothing.
        command.current_dir("/").env("PIPEMILL_CACHE", place.path("cache"));
        finish(&mut command).with_code(0).text()
    };
    assert!(inspect("inspect").contains("plugin     mine\n"));
    assert!(inspect("check").contains("mine: a decoder for pipemill:decoder@0.1.0"));
}

/// A plugin of the plugin path is listed. One with the name of a built-in decoder is not used, and
/// a message says so: a later release may bring such a decoder.
#[test]
fn plugins_of_the_plugin_path_are_listed_and_hidden_ones_told() {
    let place = TestDir::new();
    for name in ["mine.wasm", "lines.wasm"] {
        std::fs::copy(BAD_PLUGIN, place.path(name)).expect("it can be copied");
    }
    place.write("data", "a\n");
    let run = |args: &[&str]| {
        let mut command = Command::new(pipemill!());
        command.args(args).env("PIPEMILL_PLUGIN_PATH", place.folder());
        finish(command.current_dir(place.folder()).env("PIPEMILL_CACHE", place.path("cache")))
    };
    let listed = run(&["plugin", "list"]).with_code(0);
    let listed = listed.says(&["decoder `lines`: the built-in one is used, and not "]).text();
    assert!(listed.contains("\nmine  a plugin\n") && listed.contains("    do = "), "{listed}");
    let cat = run(&["cat", "-d", "lines", "data"]).with_code(0);
    cat.says(&["decoder `lines`: the built-in one is used", "name that one by its path"]);
    let other = run(&["cat", "-d", "csv", "-o", "header=false", "data"]).with_code(0);
    assert!(!other.stderr.contains("built-in"), "{other:?}");
}

#[test]
fn bench_says_how_fast_a_decoder_is() {
    let place = TestDir::new();
    place.write("data", tfrecord(&vec![vec![7; 1_000]; 2_000]));
    let text = plugin(&place, &["bench", "tfrecord", "--data", "data", "--time", "50ms"]);
    let text = text.with_code(0).text();
    assert!(text.contains("2000 records"), "{text}");
    assert!(text.contains("iB/s") && text.contains("% in the plugin"), "{text}");
    assert!(text.contains("in CPU time"), "{text}");
    place.write("cut", &tfrecord(&[vec![7; 1_000]])[..500]);
    run(&place, &["plugin", "bench", "csv", "-o", "types=int64", "--data", "data"])
        .with_code(65)
        .says(&["data: ", "measure with sound data"]);
}
