//! The messages that a person meets most, word for word, in `golden/`. `PIPEMILL_GOLDEN=write`
//! rewrites them: look at the difference before you commit it.

use std::path::Path;

use pipemill_tests::inputs::{gzip, recordio, tfrecord};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{BAD_PLUGIN, tiny};

use super::run;

/// Compares a command's output with the file of that name.
fn golden(place: &TestDir, name: &str, args: &[&str]) {
    let ended = run(place, args);
    let code = ended.code.unwrap_or(-1);
    let said = format!("$ pipemill {}\n{}exit code {code}\n", args.join(" "), ended.stderr);
    let said = said.replace(place.folder().to_str().expect("UTF-8"), "<folder>");
    let said = without_lines(&said.replace(pipemill_tests::BAD_PLUGIN, "<plugin>"));
    let said = without_digests(&said);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("cli/golden").join(format!("{name}.txt"));
    if std::env::var_os("PIPEMILL_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(&file, &said).expect("the golden file can be written");
        return;
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(said == expected, "cli/golden/{name}.txt: expected\n{expected}\nfound\n{said}");
}

/// The place in its source where a plugin panicked is no part of the message.
fn without_lines(said: &str) -> String {
    let mut parts = said.split("misdeeds.rs:");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("misdeeds.rs:<line>");
        text.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':'));
    }
    text
}

/// A digest changes with the tools that made the file.
fn without_digests(said: &str) -> String {
    let is_hex = |c: char| c.is_ascii_hexdigit();
    let words = said.split_inclusive(|c: char| !is_hex(c));
    let shown = words.map(|word| match word.trim_end_matches(|c: char| !is_hex(c)) {
        digest if digest.len() == 64 => word.replace(digest, "<sha256>"),
        _ => word.to_owned(),
    });
    shown.collect()
}

#[test]
fn messages_about_bad_input() {
    let place = TestDir::new();
    let payloads: Vec<_> = (0..20u8).map(|n| vec![n; 30]).collect();
    let records = tfrecord(&payloads);
    let mut damaged = records.clone();
    damaged[5 * 46 + 20] ^= 1;
    place.write("damaged.tfrecord", &damaged);
    place.write("cut.tfrecord", &records[..100]);
    place.write("other.tfrecord", recordio(&payloads));
    place.write("other.rec", &records);
    place.write("table.csv", "a,b\n1,2\n3\n");
    place.write("open.csv", "a,b\n1,\"2\n3,4\n");
    place.write("words.csv", "1,2\n1,two\n");
    let compressed = gzip(&records);
    place.write("cut.gz", &compressed[..compressed.len() / 2]);
    golden(&place, "tfrecord-damaged", &["cat", "-d", "tfrecord", "damaged.tfrecord"]);
    golden(&place, "tfrecord-cut", &["cat", "-d", "tfrecord", "cut.tfrecord"]);
    golden(&place, "tfrecord-other", &["cat", "-d", "tfrecord", "other.tfrecord"]);
    golden(&place, "recordio-other", &["cat", "-d", "recordio", "other.rec"]);
    golden(&place, "csv-short-row", &["cat", "-d", "csv", "table.csv"]);
    golden(&place, "csv-open-quote", &["cat", "-d", "csv", "open.csv"]);
    golden(&place, "csv-no-number", &["cat", "-d", "csv", "-o", "types=int64", "words.csv"]);
    golden(&place, "lines-too-long", &["cat", "-d", "lines", "--max-record", "2B", "table.csv"]);
    golden(&place, "gzip-cut", &["cat", "-d", "tfrecord", "cut.gz"]);
    golden(&place, "skipped", &["cat", "-d", "tfrecord", "--on-error", "skip", "damaged.tfrecord"]);
}

/// A decoder that fails says where in it that happened, in its author's own words.
#[test]
fn messages_about_bad_plugins() {
    let place = TestDir::new();
    place.write("data", "0123456789abcdef0123456789");
    for misdeed in ["panic", "deep-recursion", "alloc", "span-outside", "bad-need", "refuse"] {
        let option = format!("do={misdeed}");
        let args = ["cat", "-d", BAD_PLUGIN, "-o", &option, "--max-record", "1MiB", "data"];
        golden(&place, &format!("plugin-{misdeed}"), &args);
    }
    place.write("text.wasm", "no wasm at all");
    golden(&place, "plugin-no-wasm", &["cat", "-d", "./text.wasm", "data"]);
    place.write("other.wasm", other_version());
    golden(&place, "plugin-other-version", &["cat", "-d", "./other.wasm", "data"]);
    place.write("wasi.wasm", wasi());
    golden(&place, "plugin-wasi", &["cat", "-d", "./wasi.wasm", "data"]);
}

/// It was made for an interface of the future.
fn other_version() -> Vec<u8> {
    let text = r#"(component
        (import "pipemill:decoder/host@0.9.0" (instance (export "log" (func)))))"#;
    wat::parse_str(text).expect("a component")
}

/// It was built for WASI.
fn wasi() -> Vec<u8> {
    let text = r#"(component
        (import "wasi:filesystem/preopens@0.2.0" (instance (export "get-directories" (func))))
        (import "wasi:clocks/wall-clock@0.2.0" (instance (export "now" (func)))))"#;
    wat::parse_str(text).expect("a component")
}

#[test]
fn messages_about_what_is_not_there() {
    let place = TestDir::new();
    place.make_folder("empty");
    golden(&place, "no-file", &["cat", "-d", "lines", "nothing.txt"]);
    golden(&place, "empty-folder", &["cat", "-d", "lines", "empty"]);
    golden(&place, "no-decoder", &["cat", "-d", "tfrecords", "x"]);
    golden(&place, "no-plugin", &["cat", "-d", "./mine.wasm", "x"]);
}

/// A name is one of the lock file, and the file is the one that was added, or a message says more.
#[test]
fn messages_about_the_lock_file() {
    let place = TestDir::new();
    place.write("mine.wasm", tiny::tiny("", ""));
    place.write("data", "x");
    golden(&place, "lock-none", &["cat", "-d", "mine@1.0", "data"]);
    golden(&place, "lock-builtin", &["plugin", "add", "mine.wasm", "--name", "csv"]);
    golden(&place, "lock-odd-name", &["plugin", "add", "mine.wasm", "--name", "../mine"]);
    golden(&place, "lock-http", &["plugin", "add", "http://127.0.0.1/mine.wasm"]);
    golden(&place, "lock-store", &["plugin", "add", "gs://bucket/mine.wasm"]);
    run(&place, &["plugin", "add", "mine.wasm"]).with_code(0);
    golden(&place, "lock-no-version", &["cat", "-d", "mine@1.0", "data"]);
    golden(&place, "lock-no-name", &["cat", "-d", "mime", "data"]);
    place.write("mine.wasm", tiny::tiny("", "(nop)"));
    golden(&place, "lock-other-file", &["plugin", "add", "mine.wasm"]);
    let folder = std::fs::read_dir(place.path("pipemill.plugins")).expect("the plugins");
    let files = folder.map(|entry| entry.expect("a file").path());
    let file = files.into_iter().find(|file| file.extension().is_some()).expect("a plugin");
    std::fs::write(&file, "other").expect("it can be written");
    golden(&place, "lock-changed", &["cat", "-d", "mine", "data"]);
    golden(&place, "lock-fetched-other", &["plugin", "fetch"]);
    std::fs::remove_file(&file).expect("it can be removed");
    golden(&place, "lock-missing", &["cat", "-d", "mine", "data"]);
    golden(&place, "lock-removed", &["plugin", "remove", "mine@1.0"]);
    place.write("pipemill.lock", "version = 1\nplugins = []\n");
    golden(&place, "lock-damaged", &["cat", "-d", "mine", "data"]);
    place.write("pipemill.lock", "version = 2\n");
    golden(&place, "lock-newer", &["cat", "-d", "mine", "data"]);
}

/// Nothing says which decoder it is.
#[test]
fn messages_about_decoders_that_are_found_or_not() {
    let place = TestDir::new();
    place.make_folder("empty");
    let table = b"id,price\r\n1,2.5\r\n2,3\r\n";
    let utf16: Vec<u8> =
        "id,price\r\n1,2.5\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let page = "<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head></html>\n";
    place.write("gzip.csv", gzip(table));
    place.write("windows.csv", table);
    place.write("utf16.csv", [&b"\xff\xfe"[..], &utf16].concat());
    place.write("page.tfrecord", page);
    place.write("parquet.csv", b"PAR1\x15\x04\x15\x10\x15\x14\x4c\x15\x02PAR1");
    place.write("records.csv", tfrecord(&[b"one"]));
    place.write("raw.bin", b"\x01\x02\x03\x04");
    place.write("notes", "just some words\nand more\n");
    place.write("latin1.csv", b"id,name\n1,Ren\xe9\n");
    place.write("names.csv", "name,city\nAnn,Rome\n");
    place.write("both/a.csv", table);
    place.write("both/b.jsonl", "{\"id\":1}\n");
    for (name, args) in [
        ("found-nothing", "nothing.csv"),
        ("found-empty-folder", "empty"),
        ("found-gzip", "gzip.csv"),
        ("found-windows", "windows.csv"),
        ("found-utf16", "utf16.csv"),
        ("found-html", "page.tfrecord"),
        ("found-parquet", "parquet.csv"),
        ("found-disagree", "records.csv"),
        ("found-bin", "raw.bin"),
        ("found-text", "notes"),
        ("found-latin1", "latin1.csv"),
        ("found-no-header", "names.csv"),
        ("found-two-formats", "both"),
    ] {
        golden(&place, name, &["cat", args]);
    }
}

#[test]
fn messages_about_command_lines() {
    let place = TestDir::new();
    place.write("x", "x");
    golden(&place, "option-unknown", &["cat", "-d", "csv", "-o", "headers=true", "x"]);
    golden(&place, "option-value", &["cat", "-d", "csv", "-o", "header=yes", "x"]);
    golden(&place, "option-form", &["cat", "-d", "csv", "-o", "header", "x"]);
    golden(&place, "option-refused", &["cat", "-d", "csv", "-o", "types=int128", "x"]);
    golden(&place, "size", &["cat", "-d", "csv", "--max-record", "10MB", "x"]);
    golden(
        &place,
        "quarantine-without-file",
        &["cat", "-d", "csv", "--on-error", "quarantine", "x"],
    );
    golden(&place, "no-source", &["cat", "-d", "csv"]);
    golden(&place, "config-missing", &["run", "--config", "none.toml"]);
}
