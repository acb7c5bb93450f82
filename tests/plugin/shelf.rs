//! What is optional in the interface, for authors in other languages than Rust: a decoder of one format
//! with a directory, in each of them, with a plan, a companion, a file that is prepared, saved state,
//! and columns. `fixtures/shelf/shelf.c` describes the format.

use std::fs;
use std::process::{Command, Stdio};

use pipemill_tests::inputs::{gzip, zlib};
use pipemill_tests::pipemill;
use pipemill_tests::process::Process;
use pipemill_tests::test_dir::TestDir;

use super::new::{Python, has_clang, has_go, has_zig, keep_cache, wants_python};
use super::{plugin, run};

/// A record without its id: a number, and a text if it has one.
type Row = (i32, Option<String>);

const NAMES: &str = "one\ntwo\nthree\n";

/// Records that begin at this number.
fn rows(count: usize, first: usize) -> Vec<Row> {
    let row = |i: usize| {
        let text = (i % 3 != 1).then(|| "\u{fc}x".repeat(i % 5));
        (i as i32 * 7 - 50, text)
    };
    (first..first + count).map(row).collect()
}

/// A block without its `B`.
fn block(rows: &[Row]) -> Vec<u8> {
    let text = |row: &Row| row.1.clone().unwrap_or_default();
    let all: String = rows.iter().map(text).collect();
    let mut bytes = [rows.len() as u32, all.len() as u32].map(u32::to_le_bytes).concat();
    bytes.extend(rows.iter().flat_map(|row| row.0.to_le_bytes()));
    let mut offset = 0;
    bytes.extend(0_u32.to_le_bytes());
    for row in rows {
        offset += text(row).len() as u32;
        bytes.extend(offset.to_le_bytes());
    }
    for eight in rows.chunks(8) {
        let bit = |(i, row): (usize, &Row)| u8::from(row.1.is_some()) << i;
        bytes.push(eight.iter().enumerate().map(bit).sum());
    }
    bytes.extend(all.as_bytes());
    bytes
}

/// Blocks, each other one compressed, with `gap` after each; the content of their directory, which
/// knows nothing of the gaps; and the fields of all records, as the host prints them.
fn shelf(counts: &[usize], gap: &[u8]) -> (Vec<u8>, Vec<u8>, Vec<String>) {
    let (mut blocks, mut entries, mut printed) = (Vec::new(), Vec::new(), Vec::new());
    for (i, count) in counts.iter().enumerate() {
        let rows = rows(*count, printed.len());
        let content = block(&rows);
        let item = if i % 2 == 0 {
            [b"B", &content[..]].concat()
        } else {
            let zlib = zlib(&content);
            [b"Z", &(zlib.len() as u32).to_le_bytes()[..], &zlib].concat()
        };
        entries.extend((blocks.len() as u64).to_le_bytes());
        entries.extend([item.len() as u32, *count as u32].map(u32::to_le_bytes).concat());
        blocks.extend([&item[..], gap].concat());
        for (number, text) in rows {
            let text = text.map_or("null".to_owned(), |text| format!("{:?}", text.as_bytes()));
            let text = text.replace(' ', "");
            let name = ["one", "two", "three"][number as u32 as usize % 3];
            let id = printed.len();
            printed.push(format!(
                "{{\"id\":{id},\"number\":{number},\"text\":{text},\"name\":\"{name}\"}}}}"
            ));
        }
    }
    let directory = [&(counts.len() as u32).to_le_bytes()[..], &entries].concat();
    (blocks, directory, printed)
}

/// A file whose directory is at its end.
fn with_directory(blocks: &[u8], directory: &[u8]) -> Vec<u8> {
    [blocks, b"D", directory, &directory[..4], b"SHLF"].concat()
}

const FILE: &str = "mine/mine.wasm";

/// The fields that `pipemill cat` prints of an object with these arguments.
fn cat(place: &TestDir, args: &[&str]) -> Vec<String> {
    let printed = run(place, &[&["cat", "-d", FILE, "-o", "names=names"], args].concat());
    fields(&printed.with_code(0).text())
}

/// The fields that `pipemill cat` prints of its standard input, a pipe.
fn cat_pipe(place: &TestDir, file: &str) -> Vec<String> {
    let mut from = Command::new("cat");
    let mut from = from.arg(place.path(file)).stdout(Stdio::piped()).spawn().expect("cat is there");
    let mut command = Command::new(pipemill!());
    command.current_dir(place.folder()).env("PIPEMILL_CACHE", place.path("cache"));
    command.args(["cat", "-d", FILE, "-o", "names=names", "-"]);
    command.stdin(from.stdout.take().expect("it is a pipe"));
    let printed = Process::start(&mut command).wait().with_code(0).text();
    from.wait().expect("it has ended");
    fields(&printed)
}

fn fields(printed: &str) -> Vec<String> {
    let of_line = |line: &str| line.split("\"fields\":").nth(1).map(str::to_owned);
    printed.lines().filter_map(of_line).collect()
}

/// How often a channel of several objects prepares a decoder.
#[derive(PartialEq)]
enum Prepares {
    Once,
    EachObject,
    /// The decoder has no way to say so.
    Unknown,
}

/// Builds the decoder, and decodes with it in each way. `cases` is for the kit, which is slow if
/// instances are.
fn works(language: &str, file: &str, source: &str, prepares: &Prepares, cases: &str) {
    let place = TestDir::new();
    if language == "python" {
        keep_cache(&place);
    }
    plugin(&place, &["new", "mine", "--lang", language]).with_code(0);
    if language == "c" {
        fs::remove_file(place.path("mine/src/decoder.c")).expect("it is there");
    }
    place.write(&format!("mine/{file}"), source);
    let built = plugin(&place, &["build", "mine"]).with_code(0).text();
    assert!(!built.contains("warning"), "{built}");
    place.write("names", NAMES);
    let (blocks, directory, expected) = shelf(&[3, 20, 7, 5, 0], b"");
    let whole = with_directory(&blocks, &directory);
    place.write("whole.shelf", &whole);
    place.write("packed.gz", gzip(&whole));
    place.write("beside.shelf", &blocks);
    place.write("beside.idx", &directory);
    assert_eq!(cat(&place, &["whole.shelf"]), expected);
    assert_eq!(cat_pipe(&place, "whole.shelf"), expected);
    assert_eq!(cat(&place, &["packed.gz"]), expected);
    assert_eq!(cat(&place, &["-o", "beside=true", "beside.shelf"]), expected);
    only_the_plan_is_shown(&place);
    large_blocks(&place);

    // The channel is prepared before its objects, once or for each.
    let args = ["cat", "-d", FILE, "-o", "names=names", "whole.shelf", "beside.gz", "whole.gz"];
    place.write("beside.gz", gzip(&blocks));
    place.write("whole.gz", gzip(&whole));
    let ended = run(&place, &args).with_code(0);
    let times = ended.stderr.matches("decoder says: prepared").count();
    let is_right = match prepares {
        Prepares::Once => times == 1,
        Prepares::EachObject => times >= 3,
        Prepares::Unknown => times == 0,
    };
    assert!(is_right, "{}", ended.stderr);
    place.write("no-names", "one\n\n");
    run(&place, &["cat", "-d", FILE, "-o", "names=no-names", "whole.shelf"])
        .with_code(64)
        .says(&["expected a name in line 2, found none"]);
    let damaged = [&whole[..whole.len() - 1], b"X"].concat();
    place.write("damaged.shelf", damaged);
    run(&place, &["cat", "-d", FILE, "-o", "names=names", "damaged.shelf"])
        .with_code(65)
        .says(&["expected a directory that names the blocks"]);
    // The first block has 3 records, and the directory says 4.
    let mut counts = whole.clone();
    counts[blocks.len() + 5 + 12] += 1;
    place.write("counts.shelf", counts);
    run(&place, &["cat", "-d", FILE, "-o", "names=names", "counts.shelf"])
        .with_code(65)
        .says(&["of its plan has 4 records, and has found 3"]);
    run(&place, &["cat", "-d", FILE, "-o", "names=names", "-o", "beside=true", "whole.shelf"])
        .with_code(66)
        .says(&["whole.idx"]);

    let tested = |args: &[&str]| {
        let test = ["test", FILE, "-o", "names=names", "--cases", cases];
        plugin(&place, &[&test, args].concat()).with_code(0).text()
    };
    let of_whole = tested(&["--data", "whole.shelf"]);
    for check in [
        "decoding can go on with what the decoder saves",
        "a copy of the prepared memory has the same records",
        "the parts of its plan have the same records",
        "the parts of its plan have as many records as it says",
        "decoding can begin again where the decoder says",
    ] {
        assert!(of_whole.contains(check), "{check}: {of_whole}");
    }
    // The kit makes many instances, and those that can't be copied start slowly.
    if *prepares == Prepares::Once {
        let of_both = tested(&["--data", "beside.shelf", "-o", "beside=true"]);
        assert!(of_both.contains("every instance makes the same plan"), "{of_both}");
    }
}

/// Bytes that are no records lie between the blocks. Only a stream without a plan meets them.
fn only_the_plan_is_shown(place: &TestDir) {
    let (blocks, directory, expected) = shelf(&[2, 4, 1], b"???");
    place.write("gaps.shelf", with_directory(&blocks, &directory));
    assert_eq!(cat(place, &["gaps.shelf"]), expected);
    place.write("gaps.gz", gzip(&with_directory(&blocks, &directory)));
    run(place, &["cat", "-d", FILE, "-o", "names=names", "gaps.gz"])
        .with_code(65)
        .says(&["expected B, Z or D, found 3f"]);
}

/// Blocks of more bytes than are copied at once, and one with more records than a call emits.
fn large_blocks(place: &TestDir) {
    let (blocks, directory, expected) = shelf(&[30_000, 600, 20_000], b"");
    place.write("large.shelf", with_directory(&blocks, &directory));
    let found = cat(place, &["large.shelf"]);
    assert_eq!(found.len(), expected.len());
    let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
    assert_eq!(differs, None);
    assert!(cat_pipe(place, "large.shelf") == expected);
}

#[test]
fn a_decoder_in_c_has_all_that_is_optional() {
    if has_clang("a_decoder_in_c_has_all_that_is_optional") {
        works("c", "src/shelf.c", include_str!("fixtures/shelf/shelf.c"), &Prepares::Once, "20");
    }
}

#[test]
fn a_decoder_in_zig_has_all_that_is_optional() {
    if has_zig("a_decoder_in_zig_has_all_that_is_optional") {
        let source = include_str!("fixtures/shelf/shelf.zig");
        works("zig", "src/decoder.zig", source, &Prepares::Once, "20");
    }
}

#[test]
fn a_decoder_in_go_has_all_that_is_optional() {
    if has_go("a_decoder_in_go_has_all_that_is_optional") {
        let source = include_str!("fixtures/shelf/shelf.go");
        works("go", "decoder.go", source, &Prepares::EachObject, "2");
    }
}

#[test]
fn a_decoder_in_python_has_all_that_is_optional() {
    if wants_python("a_decoder_in_python_has_all_that_is_optional", Python::All) {
        let source = include_str!("fixtures/shelf/shelf.py");
        works("python", "decoder.py", source, &Prepares::Unknown, "2");
    }
}
