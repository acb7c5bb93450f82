//! docs/write-a-decoder.md: its code is complete and does what the guide says.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use pipemill_tests::inputs::zlib;
use pipemill_tests::process::{Process, finish};
use pipemill_tests::test_dir::TestDir;

use super::new::{Python, has_clang, has_go, has_zig, wants_python};
use super::{plugin, run};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The files of a project: blocks with `file=PATH project=NAME` behind their language.
fn files(project: &str) -> BTreeMap<String, String> {
    let guide =
        fs::read_to_string(Path::new(ROOT).join("docs/write-a-decoder.md")).expect("the guide");
    let mut files = BTreeMap::new();
    // The content between fences comes second, fourth …
    for block in guide.split("```").skip(1).step_by(2) {
        let (info, text) = block.split_once('\n').expect("an info string has a line");
        let word = |key: &str| info.split(' ').find_map(|word| word.strip_prefix(key));
        if word("project=") == Some(project) {
            files.insert(word("file=").expect(info).to_owned(), text.to_owned());
        }
    }
    assert!(!files.is_empty(), "the guide has no {project}");
    files
}

/// Makes the project as the guide says, and builds it.
fn make(place: &TestDir, project: &str, language: &str) {
    plugin(place, &["new", project, "--lang", language]).with_code(0);
    for (file, text) in files(project) {
        place.write(&format!("{project}/{file}"), text);
    }
    plugin(place, &["build", project]).with_code(0);
}

#[test]
fn the_guides_npy_decoder_in_rust_works() {
    let place = TestDir::new();
    make(&place, "npy", "rust");
    let fixtures = Path::new(ROOT).join("tests/plugin/fixtures/npy");
    let script = fs::read_to_string(fixtures.join("make.py")).expect("how they were made");
    assert_eq!(files("npy")["make.py"], script);
    fs::copy(fixtures.join("arrays.npy"), place.path("npy/data/arrays.npy")).expect("a file");
    let (data, expected) = ("npy/data/arrays.npy", "npy/data/arrays.jsonl");
    let args = ["test", "npy/npy.wasm", "--data", data, "--expect", expected, "--strict-end"];
    let tested = plugin(&place, &args).with_code(0).text();
    assert!(tested.contains("records as expected: 3 compared"), "{tested}");
    let mut cargo = Command::new("cargo");
    let native = finish(
        cargo
            .arg("test")
            .current_dir(place.path("npy"))
            .env("CARGO_TARGET_DIR", place.path("target")),
    )
    .with_code(0)
    .text();
    assert!(native.contains("2 passed"), "{native}");
}

/// The README shows the template, and its three commands work.
#[test]
fn the_readmes_decoder_is_the_template() {
    let read = |file: &str| fs::read_to_string(Path::new(ROOT).join(file)).expect(file);
    let readme = read("README.md");
    let section = readme.split("## Writing a decoder").nth(1).expect("its section");
    let shown = section.split("```").nth(1).and_then(|block| block.strip_prefix("rust\n"));
    let template = read("examples/decoder-rust/src/lib.rs");
    assert!(template.contains(shown.expect("a block of Rust")), "the README shows other code");
    let place = TestDir::new();
    let lines = section.lines().filter_map(|line| line.strip_prefix("    pipemill plugin "));
    let commands: Vec<Vec<&str>> = lines.map(|line| line.split(' ').collect()).collect();
    assert_eq!(commands.len(), 3, "{commands:?}");
    for command in commands {
        plugin(&place, &command).with_code(0);
    }
}

/// Strings in compressed blocks: the first block has more parts than a call decompresses.
#[test]
fn the_guides_blocks_in_rust_work() {
    let place = TestDir::new();
    make(&place, "blocks", "rust");
    let block = |strings: &[&[u8]]| {
        let lengths = strings.iter().map(|string| (string.len() as u16).to_le_bytes());
        let parts = lengths.zip(strings).map(|(length, string)| [&length[..], string].concat());
        let zlib = zlib(&parts.collect::<Vec<_>>().concat());
        [&(zlib.len() as u32).to_le_bytes()[..], &zlib].concat()
    };
    let long = [b'x'; 50_000];
    place.write("data", [block(&[&long[..]; 50]), block(&[]), block(&[b"a", b"", b"bc"])].concat());
    let file = "blocks/blocks.wasm";
    plugin(&place, &["test", file, "--data", "data", "--cases", "100"]).with_code(0);
    let count = run(&place, &["cat", "-d", file, "--output", "count", "data"]).with_code(0);
    assert_eq!(count.text(), "records=53 bytes=2500003\n");
}

/// A list that is prepared, in an option that is a file.
#[test]
fn the_guides_list_in_rust_works() {
    let place = TestDir::new();
    make(&place, "known", "rust");
    place.write("list", "b\nd");
    place.write("letters.txt", "a\nb\nc\nd\n");
    let (file, option) = ("known/known.wasm", "list=list");
    let cat = ["cat", "--decoder", file, "--option", option, "--output", "raw", "letters.txt"];
    assert_eq!(run(&place, &cat).with_code(0).text(), "bd");
    let test = ["test", file, "--data", "letters.txt", "--option", option, "--cases", "50"];
    let tested = plugin(&place, &test).with_code(0).text();
    assert!(tested.contains("a copy of the prepared memory has the same records"), "{tested}");
    plugin(&place, &["test", file, "--data", "letters.txt"])
        .with_code(64)
        .says(&["needs its option `list`, which is not set"]);
}

/// The same in C.
#[test]
fn the_guides_list_in_c_works() {
    if has_clang("the_guides_list_in_c_works") {
        let place = TestDir::new();
        make(&place, "known-c", "c");
        place.write("list", "b\nd\n");
        place.write("letters.txt", "a\nb\nc\nd\n");
        let (file, option) = ("known-c/known-c.wasm", "list=list");
        let cat = ["cat", "--decoder", file, "--option", option, "--output", "raw", "letters.txt"];
        assert_eq!(run(&place, &cat).with_code(0).text(), "bd");
        let test = ["test", file, "--data", "letters.txt", "--option", option, "--cases", "50"];
        let tested = plugin(&place, &test).with_code(0).text();
        assert!(tested.contains("a copy of the prepared memory has the same records"), "{tested}");
    }
}

#[test]
fn the_guides_quads_in_c_work() {
    if has_clang("the_guides_quads_in_c_work") {
        quads(&TestDir::new(), "quads-c", "c");
    }
}

#[test]
fn the_guides_quads_in_zig_work() {
    if has_zig("the_guides_quads_in_zig_work") {
        quads(&TestDir::new(), "quads-zig", "zig");
    }
}

#[test]
fn the_guides_quads_in_go_work() {
    if has_go("the_guides_quads_in_go_work") {
        quads(&TestDir::new(), "quads-go", "go");
    }
}

#[test]
fn the_guides_quads_in_python_work() {
    if wants_python("the_guides_quads_in_python_work", Python::All) {
        quads(&TestDir::new(), "quads-py", "python");
    }
}

fn quads(place: &TestDir, project: &str, language: &str) {
    make(place, project, language);
    place.write("data", b"\x07\0\0\0Ada\0\0\0\0\0\xff\xff\xff\x7fGrace\0\0\0");
    place.write("bad", b"\x07\0\0\0Ada\0\0\0\0\0\x01\0\0\x80Grace\0\0\0");
    place.write(
        "expected",
        "{\"fields\":{\"id\":7,\"name\":{\"base64\":\"QWRhAAAAAAA=\"}}}\n{\"offset\":12}\n",
    );
    let file = format!("{project}/{project}.wasm");
    let test = ["test", &file, "--data", "data", "--expect", "expected", "--cases", "50"];
    if language != "go" {
        // The template is tested so each time, and a plugin of Go takes long to compile.
        plugin(place, &test).with_code(0);
    }
    let cat = |data: &str, max: &str, code: i32| {
        let mut cat = Command::new(pipemill_tests::pipemill!());
        cat.current_dir(place.folder()).args(["cat", "-d", &file, "--max-record", max, data]);
        Process::start(cat.env("PIPEMILL_CACHE", place.path("cache"))).wait().with_code(code)
    };
    assert_eq!(cat("data", "1KiB", 0).text().lines().count(), 2);
    cat("bad", "1KiB", 65).says(&["byte offset 12", "expected an id below 2^31, found 80000001"]);
    if language == "python" {
        // Errors of the decoder itself are reported with their place.
        place.write("data", [&[0; 24][..], b"\xff\xff\xff\x7f_bug_\0\0\0"].concat());
        let source = &files(project)["decoder.py"];
        let source = source.replace("out.end_record(at)", "out.end_record(at // (at < 24))");
        place.write(&format!("{project}/decoder.py"), &source);
        plugin(place, &["build", project]).with_code(0);
        let line =
            source.lines().position(|line| line.contains("at < 24")).expect("just put there");
        let place = format!("decoder.py:{}, in decode", line + 1);
        cat("data", "1KiB", 65).says(&["ZeroDivisionError", &place]);
    }
    cat("data", "8B", 64).says(&["records have 12 bytes; raise max_record"]);
}
