//! `prepare` is called once for a channel: each object's instance begins with the memory that it left,
//! and knows nothing of the objects before. A decoder that does wrong in it is refused at the start.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use pipemill_tests::process::{Ended, finish};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{BAD_PLUGIN, pipemill};

/// Decodes three objects with the bad plugin.
fn cat(place: &TestDir, misdeed: &str, more: &[&str]) -> Ended {
    cat_with(place, BAD_PLUGIN.as_ref(), misdeed, more)
}

fn cat_with(place: &TestDir, plugin: &Path, misdeed: &str, more: &[&str]) -> Ended {
    for name in ["a", "b", "c"] {
        place.write(name, b"x");
    }
    let option = format!("do={misdeed}");
    let mut command = Command::new(pipemill!());
    command.current_dir(place.folder()).args(["cat", "--output", "raw", "-d"]).arg(plugin);
    command.args(["-o", &option]).args(more).args(["a", "b", "c"]);
    finish(&mut command)
}

#[test]
fn each_instance_begins_with_the_memory_that_was_prepared() {
    let place = TestDir::new();
    for (misdeed, sevens) in [("prepare-tells", 0), ("prepare-large", 40)] {
        let told = cat(&place, misdeed, &[]).with_code(0);
        let line = format!("prepared 1, decoded 1, {sevens} sevens, file  \n");
        assert_eq!(String::from_utf8_lossy(&told.stdout), line.repeat(3));
        assert_eq!(told.stderr.matches("I prepare").count(), 1, "{}", told.stderr);
    }
}

/// Without the names of globals, nobody knows that the only one is the stack pointer.
#[test]
fn a_decoder_that_may_have_other_state_is_prepared_in_each_instance() {
    let place = TestDir::new();
    let wasm = std::fs::read(BAD_PLUGIN).expect("it was built");
    place.write("nameless.wasm", without_names(&wasm));
    let plugin = place.path("nameless.wasm");
    for (misdeed, sevens) in [("prepare-tells", 0), ("prepare-large", 40)] {
        let told = cat_with(&place, &plugin, misdeed, &[]).with_code(0);
        let line = format!("prepared 1, decoded 1, {sevens} sevens, file  \n");
        assert_eq!(String::from_utf8_lossy(&told.stdout), line.repeat(3));
        // At the start once, and once more for the companions; for the plan and for the stream of
        // each object.
        assert_eq!(told.stderr.matches("I prepare").count(), 8, "{}", told.stderr);
    }
}

/// A module without its section of names.
fn without_names(wasm: &[u8]) -> Vec<u8> {
    let (header, mut rest) = wasm.split_at(8);
    let mut module = header.to_vec();
    while let [id, after @ ..] = rest {
        let (size, digits) = leb(after);
        let (section, next) = rest.split_at(1 + digits + size);
        let content = &section[1 + digits..];
        if *id != 0 || !content.starts_with(b"\x04name") {
            module.extend_from_slice(section);
        }
        rest = next;
    }
    module
}

/// A number in LEB128, and the number of its digits.
fn leb(bytes: &[u8]) -> (usize, usize) {
    let digits = bytes.iter().take_while(|byte| **byte >= 0x80).count() + 1;
    let number =
        bytes[..digits].iter().rev().fold(0, |sum, byte| sum << 7 | (byte & 0x7f) as usize);
    (number, digits)
}

#[test]
fn the_content_of_a_file_is_passed_and_its_path_is_not() {
    let place = TestDir::new();
    place.write("words", b"one two");
    place.write("empty", b"");
    let told = |option: &str| {
        let told = cat(&place, "prepare-tells", &["-o", option]).with_code(0).stdout;
        String::from_utf8(told).expect("text").lines().next().map(str::to_owned)
    };
    // As sha256sum computes them.
    let of_words = "sha256:8ab63e29a4ba14e4e1688f9c15e5af90895421358c945b0431f85d66977bd3d2";
    let of_none = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let line = |file| Some(format!("prepared 1, decoded 1, 0 sevens, file {file}"));
    assert_eq!(told("file=words"), line(format!("{of_words} file=one two")));
    assert_eq!(told("file=empty"), line(format!("{of_none} file=")));
}

/// A configuration with this source; its decoder has the options `do` and these.
fn config(place: &TestDir, source: &str, options: &str) -> Command {
    let config = format!(
        "[[channel]]\nname = 'train'\nsource = {source}\nmax_record = '64KiB'\nbatch = 1\n\
         decoder = {BAD_PLUGIN:?}\noptions = {{ {options} }}\n"
    );
    place.write("pipemill.toml", config);
    let mut command = Command::new(pipemill!());
    command.current_dir(place.folder()).env_remove("PIPEMILL_SOCKET");
    command
}

const TELLS: &str = "do = 'prepare-tells'";

/// An index and its reader, at two times: with the same file under another name, and with another
/// file under the same name.
#[test]
fn an_index_is_read_with_the_file_that_it_was_made_with() {
    let place = TestDir::new();
    place.write("words", b"one two");
    place.write("data/a", b"x");
    let pipemill = |arguments: &[&str]| {
        let mut command = Command::new(pipemill!());
        finish(command.current_dir(place.folder()).arg("index").args(arguments))
    };
    let options = ["-d", BAD_PLUGIN, "-o", "do=prepare-tells", "-o", "file=words"];
    pipemill(&[&options[..], &["data", "--out", "train.index"]].concat()).with_code(0);
    place.write("same", b"one two");
    place.write("words", b"one three");
    let check = |options: &str| {
        finish(config(&place, "{ index = 'train.index' }", options).args([
            "config",
            "check",
            "pipemill.toml",
        ]))
    };
    check("file = 'same'").with_code(0);
    check(&format!("{TELLS}, file = 'same'")).with_code(0);
    let other = ["the file of option `file` is not the one with which the index", "8ab63e29a4"];
    check("file = 'words'").with_code(64).says(&other);
    let digest = ["option `file`: the file \"sha256:8ab63e29a4", "give the path of the file"];
    check("").with_code(64).says(&digest);
    check("do = 'nothing', file = 'same'").with_code(64).says(&["its `options` are { do ="]);
    check(TELLS).with_code(64).says(&["its `options` are { do ="]);

    place.write("data/b", b"x");
    let update = |file: &str| pipemill(&["--update", "train.index", "-o", file]);
    update("file=words").with_code(64).says(&["a file that an option names is not the one"]);
    pipemill(&["--update", "train.index"]).with_code(64).says(&digest);
    update("do=nothing").with_code(64).says(&["the options are { do =", "was made with"]);
    update("file=same").with_code(0).says(&["2 objects"]);
}

/// A run and its restart: the state has the digest of the file.
#[test]
fn a_state_is_refused_with_another_file() {
    let name = "a_state_is_refused_with_another_file";
    let Some(python) = pipemill_tests::python(name) else { return };
    let place = TestDir::new();
    place.write("data/a", b"xy");
    place.write("words", b"one two");
    let run = |resume: &[&str], file: &str| {
        let script = "\
import json, pipemill
with pipemill.connect('train') as stream:
    batch = next(stream)
    print(bytes(batch.records()[0]).decode(), end='')
    json.dump(stream.state_dict(), open('state.json', 'w'))
";
        let options = format!("{TELLS}, file = '{file}'");
        let mut command = config(&place, "{ folder = 'data', epochs = 9 }", &options);
        command.arg("run").args(resume).arg("--").arg(&python).args(["-c", script]);
        finish(&mut command)
    };
    let told = run(&[], "words").with_code(0).text();
    assert!(told.contains("8ab63e29a4") && told.ends_with("file=one two\n"), "{told}");
    place.write("same", b"one two");
    assert_eq!(run(&["--resume", "state.json"], "same").with_code(0).text(), told);
    place.write("words", b"one three");
    let refused = run(&["--resume", "state.json"], "words").with_code(64);
    refused.says(&["`options` was", "8ab63e29a4", "when the state was taken, and is"]);
}

#[test]
fn a_file_that_can_not_be_read_is_named() {
    let place = TestDir::new();
    place.write("folder/file", b"");
    nix::unistd::mkfifo(&place.path("pipe"), nix::sys::stat::Mode::S_IRUSR).expect("a pipe");
    let large = File::create(place.path("large")).expect("a file");
    large.set_len((256 << 20) + 1).expect("a hole takes no room");
    let digest = format!("sha256:{}", "0".repeat(64));
    for (path, why) in [
        ("none", "No such file or directory"),
        ("folder", "it is a folder, pipe or device, not a regular file"),
        ("pipe", "it is a folder, pipe or device, not a regular file"),
        ("large", "it has 268435457 bytes; files of options may have 268435456"),
        (&digest, "give the path of the file with this digest"),
    ] {
        let option = format!("file={path}");
        let named = format!("option `file`: the file {path:?} can't be read: ");
        cat(&place, "prepare-tells", &["-o", &option]).with_code(64).says(&[&named, why]);
    }
    cat(&place, "prepare-tells", &["-o", "file="])
        .with_code(64)
        .says(&["option `file` takes the path of a file, not \"\""]);
}

#[test]
fn a_decoder_that_does_wrong_in_it_is_refused_at_the_start() {
    let place = TestDir::new();
    let author = "this is a bug in the decoder; tell its author";
    let cases: [(&str, &[&str]); 6] = [
        ("prepare-panic", &["the decoder failed: ", "I am not prepared", author]),
        ("prepare-refuse", &["the decoder refuses its options: not", "correct its `options`"]),
        ("prepare-schema", &["set its schema or metadata in `prepare`", author]),
        ("prepare-metadata", &["set its schema or metadata in `prepare`", author]),
        ("prepare-emit", &["emitted records outside of `decode`", author]),
        ("prepare-alloc", &["bytes of memory; its limit is ", "raise `limits.memory`"]),
    ];
    for (misdeed, says) in cases {
        let ended = cat(&place, misdeed, &[]).with_code(64).says(says);
        assert_eq!(ended.stdout, b"", "{misdeed}");
        assert!(!ended.stderr.contains('\x1b'), "not fit for a terminal: {}", ended.stderr);
    }
}

/// A channel of `run` has its own limits, which hold for `prepare`, too.
#[test]
fn the_limits_of_the_channel_hold() {
    let place = TestDir::new();
    place.write("input", b"x");
    let check = |misdeed: &str, limit: &str| {
        let options = format!("do = '{misdeed}' }}\nlimits = {{ {limit}");
        finish(config(&place, "{ file = 'input' }", &options).args([
            "config",
            "check",
            "pipemill.toml",
        ]))
    };
    check("prepare-large", "memory = '128MiB'").with_code(0);
    check("prepare-large", "memory = '32MiB'")
        .says(&["bytes of memory; its limit is 33554432", "raise `limits.memory`"]);
    check("prepare-spin", "call_timeout = '300ms'")
        .says(&["used more than 300ms of CPU time in one call", "raise `limits.call_timeout`"]);
}
