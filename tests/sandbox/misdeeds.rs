//! A decoder may do what it likes: it ends its own stream, with an error that says what it did and what
//! to do about it, and neither the host nor another channel.

use std::fs::File;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use pipemill_ring::protocol::ErrorKind;
use pipemill_ring::reader::Event;
use pipemill_tests::host::Host;
use pipemill_tests::process::finish;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{BAD_PLUGIN, consumer, pipemill};

use super::good;

/// The input of the bad channels.
const INPUT: &[u8] = b"0123456789abcdef";

/// What is to be expected of a misdeed.
struct Case {
    misdeed: &'static str,
    kind: ErrorKind,
    /// What was emitted before counts.
    records: Vec<Vec<u8>>,
    says: &'static [&'static str],
}

const AUTHOR: &str = "this is a bug in the decoder; tell its author";
/// The CPU time that a call may use where it matters.
const TIME: Duration = Duration::from_millis(300);
/// What is said of a decoder that spins.
const SPUN: &str = "used more than 300ms of CPU time in one call";

fn case(misdeed: &'static str, kind: ErrorKind, says: &'static [&'static str]) -> Case {
    Case { misdeed, kind, records: Vec::new(), says }
}

fn plugin(misdeed: &'static str, says: &'static [&'static str]) -> Case {
    case(misdeed, ErrorKind::Plugin, says)
}

/// The first bytes of the input, each a record.
fn bytes(count: usize) -> Vec<Vec<u8>> {
    INPUT[..count].iter().map(|byte| vec![*byte]).collect()
}

fn cases() -> Vec<Case> {
    use ErrorKind::{Decode, Host, Limit, Refused};
    vec![
        // What it uses.
        case("spin", Limit, &[SPUN, "raise `limits.call_timeout`", "spin"]),
        case("spin-at-open", Limit, &[SPUN, "raise `limits.call_timeout`"]),
        case("alloc", Limit, &["bytes of memory; its limit is 33554432", "raise `limits.memory`"]),
        Case {
            records: vec![vec![7; 60_000]; 17],
            ..case(
                "emit-forever",
                Limit,
                &["more than 1048576 bytes in one call", "raise `limits.output`"],
            )
        },
        Case {
            // 8 bytes each, but for one for each byte of the chunk.
            records: vec![Vec::new(); 131_000],
            ..case(
                "emit-nothings",
                Limit,
                &["more than 1048576 bytes in one call", "raise `limits.output`"],
            )
        },
        // What the host computes for it.
        Case { records: vec![Vec::new()], ..case("crc-spin", Limit, &[SPUN]) },
        Case { records: vec![Vec::new()], ..case("crc32-spin", Limit, &[SPUN]) },
        Case {
            records: vec![900_000_u32.to_le_bytes().repeat(225_000)],
            ..case("list-spin-schema", Limit, &[SPUN])
        },
        // How it fails.
        plugin("panic", &["I was told to panic", "and on the next line", AUTHOR]),
        plugin("trap-at-open", &["I fell over the doorstep", AUTHOR]),
        plugin("deep-recursion", &["overflow", "recurse", AUTHOR]),
        case("refuse", Refused, &["refuses to start: no, ", "I won't", "`options`"]),
        Case {
            records: bytes(1),
            ..case(
                "refuse-input",
                Refused,
                &["byte offset 1, record 1", "a codec that I don't know", "`options`"],
            )
        },
        Case {
            records: bytes(3),
            ..plugin("emit-then-trap", &["byte offset 3, record 3", "three were enough"])
        },
        // What it says of its records.
        plugin(
            "span-outside",
            &["record 1 of the call has a span at 15, 2 bytes long, outside", AUTHOR],
        ),
        plugin(
            "span-far-outside",
            &["a span at 2147483647, 4294967295 bytes long, outside its chunk", AUTHOR],
        ),
        plugin(
            "span-overlap",
            &["record 1 of the call starts at 2, before the end", "at 3", AUTHOR],
        ),
        plugin(
            "payload-outside",
            &["a span at 1, 3 bytes long, outside its payload of 3 bytes", AUTHOR],
        ),
        plugin("too-few-spans", &["emitted 1 spans for 2 records of 1 fields (byte)", AUTHOR]),
        plugin("crc-outside", &["the checksum of a span at 16, outside its chunk", AUTHOR]),
        plugin("crc-uneven", &["asked for 1 checksums but expects 2", AUTHOR]),
        case(
            "large-record",
            Limit,
            &[
                "fields of 100000 bytes together, more than `max_record` = 65536 bytes",
                "raise `max",
            ],
        ),
        // What it says of columns.
        plugin("columns-few-schema", &["emitted 0 columns for 3 fields", AUTHOR]),
        plugin(
            "columns-outside-schema",
            &[
                "a column of 2 records for field `number` with values at 15, 4 bytes long, outside \
                 its chunk of 16 bytes",
                AUTHOR,
            ],
        ),
        plugin(
            "columns-far-outside-schema",
            &["with values at 2147483647, 4294967295 bytes long, outside its payload", AUTHOR],
        ),
        plugin(
            "columns-offsets-outside-schema",
            &["`bytes` with offsets at 12, 12 bytes long, outside its payload of 20 bytes", AUTHOR],
        ),
        plugin(
            "columns-bits-outside-schema",
            &["`maybe` with bits at 16, 1 bytes long, outside its chunk of 16 bytes", AUTHOR],
        ),
        plugin("columns-short-schema", &["`number` with 3 bytes of values, not 4", AUTHOR]),
        plugin("columns-few-offsets-schema", &["`bytes` with 8 bytes of offsets, not 12", AUTHOR]),
        plugin("columns-no-offsets-schema", &["`bytes` without offsets, and its", AUTHOR]),
        plugin("columns-back-schema", &["with an offset of 0 after one of 131073", AUTHOR]),
        plugin("columns-beyond-schema", &["with an offset of 4 in 3 bytes of values", AUTHOR]),
        plugin("columns-no-bits-schema", &["with 0 bytes of bits, not 1", AUTHOR]),
        plugin(
            "columns-absent-schema",
            &["record 0 of the call lacks the field `number`, which is not", AUTHOR],
        ),
        Case {
            records: Vec::new(),
            ..plugin("columns-list-schema", &["a list in field `words` that ends at 11", AUTHOR])
        },
        case(
            "columns-shared-schema",
            Limit,
            &["fields of 80000 bytes together, more than `max_record` = 65536", "raise `max_rec"],
        ),
        case(
            "columns-flood-schema",
            Limit,
            &["more than 1048576 bytes in one call", "raise `limits.output`"],
        ),
        case(
            "columns-many-schema",
            Limit,
            &["more than 1048576 bytes in one call", "raise `limits.output`"],
        ),
        // What it says of its progress.
        case("stay", Decode, &["ends inside a record, 16 bytes after its start"]),
        plugin("bad-need", &["asks for 1 bytes and was shown 16, but got no further", AUTHOR]),
        case(
            "endless-need",
            Limit,
            &["larger than `max_record` = 65536 bytes", "raise `max_record`"],
        ),
        plugin("consume-too-much", &["consumed 17 bytes of a chunk of 16", AUTHOR]),
        Case {
            records: bytes(16),
            ..plugin("consume-too-little", &["ends at 16, but consumed only 15 bytes", AUTHOR])
        },
        Case {
            records: vec![b"x".to_vec()],
            ..plugin("emit-and-stay", &["emitted records but consumed nothing", AUTHOR])
        },
        // What it says of its schema.
        plugin("twice-schema", &["declared its schema twice", AUTHOR]),
        plugin("no-schema", &["emitted records before it declared its schema", AUTHOR]),
        plugin("empty-schema", &["declared 0 fields; 1 to 65536 are possible", AUTHOR]),
        plugin("huge-schema", &["declared 70000 fields; 1 to 65536 are possible", AUTHOR]),
        plugin("same-names-schema", &["declared the field `a` twice", AUTHOR]),
        plugin("pair-schema", &["emitted 1 spans for 1 records of 2 fields (a, b)", AUTHOR]),
        case(
            "wordy-schema",
            Host,
            &["the description of the 1 fields takes 100", "65536", "ask for fewer fields"],
        ),
        plugin(
            "short-number-schema",
            &[
                "record 0 of the call has 1 bytes in field `number`; its type and shape want 4",
                AUTHOR,
            ],
        ),
        plugin("emit-at-open", &["emitted records", AUTHOR]),
        plugin(
            "unknown-type-schema",
            &["the field `number` of type `int", "128`; known are bytes, utf8, boolean", AUTHOR],
        ),
        plugin(
            "two-dimensional-list-schema",
            &["the field `words`, which has 2 dimensions of utf8; a list has one", AUTHOR],
        ),
        plugin(
            "float-categories-schema",
            &["`kind`, which has categories, so its values must be one uint8", "not float32"],
        ),
        plugin("wrong-logical-schema", &["is a timestamp[us], so it must be int64, not int32"]),
        plugin(
            "hoard-dimensions-schema",
            &["`cube`, which has 200000 dimensions; 32 are possible", AUTHOR],
        ),
        plugin(
            "hoard-elements-schema",
            &["which has uint8 [1048576, 1048576, 1048576]: a value would have 4 GiB", AUTHOR],
        ),
        plugin("reserved-metadata-schema", &["has the metadata `pipemill.unit`", AUTHOR]),
        plugin(
            "list-schema",
            &["a list in field `words` that ends at 11, in a value of 9 bytes", AUTHOR],
        ),
        plugin("absent", &["record 1 of the call lacks the field `byte`", "nullable", AUTHOR]),
        plugin("much-metadata", &["bytes of metadata; a stream may have 65536", AUTHOR]),
        Case {
            records: bytes(1),
            ..plugin("late-metadata", &["set metadata after its first record", AUTHOR])
        },
        plugin(
            "restart-no-number",
            &["set the metadata `pipemill.restart` to `4 KiB`; expected a number of bytes", AUTHOR],
        ),
        Case {
            records: bytes(16),
            ..plugin(
                "restart-beyond",
                &["set the metadata `pipemill.restart` to 17, but has emitted a record", AUTHOR],
            )
        },
        plugin(
            "unknown-host-metadata",
            &["set the metadata `pipemill.resume`; keys that begin with `pipemill.`", AUTHOR],
        ),
        // What it does with blocks, and in several calls.
        plugin("more-of-nothing", &["emitted and consumed nothing", AUTHOR]),
        Case {
            records: bytes(1),
            ..plugin("rest-too-far", &["consumed 16 bytes of a chunk of 15", AUTHOR])
        },
        plugin("unknown-codec", &["the codec `rar", "known are deflate, zlib", AUTHOR]),
        plugin("decompress-outside", &["a block at 16, outside its chunk", AUTHOR]),
        plugin("read-outside", &["a block at 16, outside its chunk", AUTHOR]),
        plugin("read-pieces-outside", &["a block at 16, outside its chunk", AUTHOR]),
        plugin("read-pieces-mixed", &["whose pieces are not in order, or overlap", AUTHOR]),
        plugin("read-at-open", &["decompressed a block outside of `decode`", AUTHOR]),
        plugin("decompress-at-open", &["decompressed a block outside of `decode`", AUTHOR]),
        // What it says of its plan.
        plugin("plan-panic", &["has no plan: ", "I lost the plan", AUTHOR]),
        case("plan-spin", Limit, &[SPUN, "raise `limits.call_timeout`"]),
        case("plan-refuse", Refused, &["the decoder refuses it: no", "plan for you", "`options`"]),
        plugin("plan-endless", &["has no plan after 32 steps", AUTHOR]),
        plugin("plan-nothing", &["wants 0 ranges in a step of a plan", AUTHOR]),
        plugin("plan-many-ranges", &["wants 65 ranges in a step of a plan", AUTHOR]),
        plugin("plan-outside", &["wants 2 bytes from byte 15 of an object of 16 bytes", AUTHOR]),
        plugin("plan-overflow", &["wants 2 bytes from byte 18446744073709551615", AUTHOR]),
        plugin("plan-part-outside", &["wants 0 bytes from byte 17 of an object of 16", AUTHOR]),
        plugin("plan-large", &["has a plan of 9437248 bytes; expected at most 8388608", AUTHOR]),
        plugin("plan-many-parts", &["has a plan of 8960000 bytes; expected at most", AUTHOR]),
        plugin("plan-huge", &["has no plan: ", AUTHOR]),
        plugin(
            "plan-count-of-nothing",
            &["says that part 0 of its plan has 2 records, and the part has no bytes", AUTHOR],
        ),
        Case {
            records: [b"<", &INPUT[..4]].concat().chunks(1).map(<[u8]>::to_vec).collect(),
            ..plugin(
                "plan-count-more",
                &["says that part 0 of its plan has 6 records, and has found 5 in it", AUTHOR],
            )
        },
        Case {
            records: [b"<", &INPUT[..8]].concat().chunks(1).map(<[u8]>::to_vec).collect(),
            ..plugin(
                "plan-count-fewer",
                &["says that part 1 of its plan has 3 records, and has found 4 in it", AUTHOR],
            )
        },
        Case {
            records: [b"<", &INPUT[..8]].concat().chunks(1).map(<[u8]>::to_vec).collect(),
            ..plugin(
                "plan-count-last",
                &["says that part 1 of its plan has 5 records, and has found 4 in it", AUTHOR],
            )
        },
        // What it says of errors.
        plugin("bad-at-open", &["reported bad bytes outside of `decode`", AUTHOR]),
        plugin("bad-outside", &["bad bytes from 15 to 17 in a chunk of 16", AUTHOR]),
        plugin("bad-of-nothing", &["bad bytes from 1 to 1 in a chunk of 16", AUTHOR]),
        Case {
            records: vec![b"012".to_vec()],
            ..plugin("bad-inside-record", &["an error at 2, inside a record that it emitted"])
        },
        plugin("bad-and-on", &["went on after an error that it was to return", AUTHOR]),
        plugin("bad-and-done", &["went on after an error that it was to return", AUTHOR]),
        plugin(
            "error-behind-chunk",
            &["reports an error at 17, beyond its chunk of 16 bytes", AUTHOR],
        ),
        Case {
            records: vec![b"012".to_vec()],
            ..plugin(
                "error-inside-record",
                &[
                    "reports an error at 1, inside a record that it emitted and that ends at 3",
                    AUTHOR,
                ],
            )
        },
        plugin("error-goes-back", &["wants to go on at 0, not after its error at 15", AUTHOR]),
        case(
            "control-characters",
            Decode,
            &["byte offset 0, record 0", "alert", "second", "see `on_error`"],
        ),
        case("long-message", Decode, &["lalala", "…"]),
    ]
}

fn channel(name: &str, misdeed: &str, source: &str, on_error: &str) -> String {
    // What ends by itself is far from its limit on a slow machine, too.
    let time = if misdeed.contains("spin") { TIME } else { Duration::from_secs(60) };
    channel_with_time(name, misdeed, source, on_error, time)
}

fn channel_with_time(
    name: &str,
    misdeed: &str,
    source: &str,
    on_error: &str,
    time: Duration,
) -> String {
    // Its list is that long.
    let max_record = if misdeed == "list-spin-schema" { "1MiB" } else { "64KiB" };
    format!(
        r#"
[[channel]]
name = "{name}"
source = {source}
decoder = "{BAD_PLUGIN}"
options = {{ do = "{misdeed}" }}
on_error = "{on_error}"
max_record = "{max_record}"
[channel.ring]
slots = 4
slot_size = "64KiB"
[channel.limits]
memory = "32MiB"
call_timeout = "{time:?}"
output = "1MiB"
"#
    )
}

/// All of them run in one host, with a good channel that is half read before them and read to its
/// end after them.
#[test]
fn every_misdeed_ends_its_own_stream() {
    let place = TestDir::new();
    let input = place.write("input", INPUT);
    let fifo = place.fifo("good_0");
    let mut config = good(&place);
    for case in cases() {
        config += &channel(case.misdeed, case.misdeed, &format!("{{ file = {input:?} }}"), "fail");
    }
    let host = Host::start(&pipemill!(), &place, &config);
    let mut good = host.connect("good");
    let mut writer = File::options().write(true).open(&fifo).expect("the host reads it");
    writer.write_all(b"before\n").expect("the host reads it");

    let mut wrong = Vec::new();
    for case in cases() {
        let read = host.read(case.misdeed);
        if let Err(what) = check(&case, &read) {
            wrong.push(format!("{}: {what}", case.misdeed));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    writer.write_all(b"behind\n").expect("the host still reads it");
    drop(writer);
    let records = consumer::read(&mut good).well();
    assert_eq!(records, [b"before", b"behind"]);
    // The exit code is that of the channel that failed first: of a refusal, or of another failure.
    let ended = host.wait();
    assert!(matches!(ended.code, Some(64 | 65)), "{:?}", ended.code);
    assert!(!ended.stderr.chars().any(|c| c.is_control() && c != '\n'), "{:?}", ended.stderr);
}

fn check(case: &Case, read: &consumer::Read) -> Result<(), String> {
    let report = match &read.error {
        Some(pipemill_ring::reader::ReaderError::Failed(report)) => report,
        other => {
            return Err(format!(
                "expected a failure, found {other:?} and {} records",
                read.records.len()
            ));
        }
    };
    let message = &report.message;
    if report.kind != case.kind {
        return Err(format!("expected kind {:?}, found {:?}: {message}", case.kind, report.kind));
    }
    if let Some(missing) = case.says.iter().find(|word| !message.contains(**word)) {
        return Err(format!("expected {missing:?} in {message}"));
    }
    for part in [&format!("channel `{}`", case.misdeed), "epoch 0", "bad_plugin.wasm"] {
        if !message.contains(part) {
            return Err(format!("expected {part:?} in {message}"));
        }
    }
    if message.chars().any(char::is_control) || message.len() > 4_000 {
        return Err(format!("not fit for a terminal: {message:?}"));
    }
    if read.records != case.records {
        let (expected, found) = (case.records.len(), read.records.len());
        return Err(format!("expected {expected} records before it, found {found} or others"));
    }
    Ok(())
}

/// Parts of any kind are shown as they are asked for; what is read for a plan has a limit.
#[test]
fn odd_plans_are_followed_as_far_as_they_go() {
    let place = TestDir::new();
    place.write("input", INPUT);
    place.write("large", [b'x'; 64 << 10]);
    let cat = |misdeed: &str, input: &str| {
        let option = format!("do={misdeed}");
        let mut command = Command::new(pipemill!());
        command.current_dir(place.folder()).args(["cat", "--output", "raw", "-d", BAD_PLUGIN]);
        command.args(["-o", &option, input]);
        finish(&mut command)
    };
    assert_eq!(cat("plan-odd", "input").with_code(0).stdout, b"<89abcdef012345672345");
    assert_eq!(cat("plan-count", "input").with_code(0).stdout, b"<01234567");
    assert_eq!(cat("plan-empty", "input").with_code(0).stdout, b"");
    cat("plan-much", "large").with_code(65).says(&["wants to see", "expected at most 33554432"]);
}

/// Companions lie beside their object, whatever a decoder wants, and its plan has nothing else.
#[test]
fn companions_have_the_limits_of_plans() {
    let place = TestDir::new();
    place.write("a.bin", INPUT);
    place.write("a.idx", b"UVWXYZ");
    let cat = |misdeed: &str| {
        let option = format!("do={misdeed}");
        let mut command = Command::new(pipemill!());
        command.current_dir(place.folder()).args(["cat", "--output", "raw", "-d", BAD_PLUGIN]);
        command.args(["-o", &option, "a.bin"]);
        finish(&mut command)
    };
    assert_eq!(cat("beside-odd").with_code(0).stdout, b"VWXY2301UVW8XYZ");
    for (misdeed, texts) in [
        ("companions-panic", &["I lost my companions"][..]),
        ("companions-spin", &["CPU time"]),
        ("companions-refuse", &["refuses to start: no", "companions for you", "`options`"]),
        ("companions-above", &["by the end `/../../etc/passwd`", "without `/`"]),
        ("companions-dots", &["by the end `..`", "not only dots"]),
        ("companions-itself", &["can't tell which of them it is of"]),
        ("companions-many", &["wants 5 companions of an object; 4 are possible"]),
        ("companions-long", &["expected 1 to 64 bytes"]),
        ("companions-huge", &[BAD_PLUGIN]),
        ("beside-outside", &["wants 4 bytes from byte 3 of companion 1", "which has 6 bytes"]),
        ("beside-overflow", &["wants 2 bytes from byte 18446744073709551615 of companion 1"]),
        ("beside-unknown", &["of companion 2 of an object that has 1 companions"]),
        ("beside-part-outside", &["wants 0 bytes from byte 7 of companion 1"]),
        ("beside-part-unknown", &["of companion 4294967295 of an object that has 1 companions"]),
        ("beside-whole", &["can't be read at any place", "`.idx` in place of `.bin`"]),
    ] {
        let done = cat(misdeed);
        assert_ne!(done.code, Some(0), "{misdeed}");
        done.says(texts);
    }
}

/// The misdeeds of decoders that fail after the stream has started.
const FAILURES: [&str; 5] = ["emit-then-trap", "spin", "alloc", "resync-too-much", "resync-spins"];

/// The reports or records of channels of two objects, each with a decoder that fails.
fn two_objects_each(policy: &str) -> ([consumer::Read; 5], String) {
    let place = TestDir::new();
    place.write("input/a", INPUT);
    place.write("input/b", INPUT);
    let source = format!("{{ folder = {:?} }}", place.path("input"));
    // Keeps the host up until all are connected.
    let mut config = good(&place);
    for misdeed in FAILURES {
        config += &channel(misdeed, misdeed, &source, "skip").replace("max_record", policy);
    }
    let host = Host::start(&pipemill!(), &place, &config);
    let readers = FAILURES.map(|misdeed| host.connect(misdeed));
    let read = readers.map(|mut reader| consumer::read(&mut reader));
    drop(File::options().write(true).open(place.fifo("good_0")).expect("the host reads it"));
    (read, host.wait().with_code(65).stderr)
}

/// `on_error = "skip"` is for bad input. That a decoder fails is not the input's fault.
#[test]
fn skip_does_not_skip_failures_of_the_decoder() {
    let ([trapped, spun, hoarded, lost, searched], _) = two_objects_each("max_record");
    assert_eq!(trapped.records, bytes(3));
    assert!(trapped.report().message.contains("three were enough"), "{trapped:?}");
    assert!(trapped.report().message.contains("see `on_plugin_error`"), "{trapped:?}");
    assert!(spun.report().message.contains(SPUN), "{spun:?}");
    assert!(hoarded.report().message.contains("its limit is 33554432"), "{hoarded:?}");
    assert!(lost.report().message.contains("searched 16 of 15 bytes"), "{lost:?}");
    assert!(searched.report().message.contains(SPUN), "{searched:?}");
}

/// With `on_plugin_error = "skip-object"`, a decoder that fails takes the rest of its object with it. A
/// channel without any record fails all the same.
#[test]
fn objects_with_failures_of_the_decoder_can_be_skipped() {
    let policy = "on_plugin_error = \"skip-object\"\nmax_record";
    let ([trapped, others @ ..], log) = two_objects_each(policy);
    assert_eq!(trapped.well(), [bytes(3), bytes(3)].concat());
    for (read, misdeed) in others.iter().zip(&FAILURES[1..]) {
        let message = &read.report().message;
        assert!(message.contains("no record was delivered"), "{misdeed}: {message}");
    }
    for misdeed in FAILURES {
        let skipped = |line: &&str| {
            line.contains("warn: skipped") && line.contains(&format!("`{misdeed}`, epoch"))
        };
        let lines: Vec<_> = log.lines().filter(skipped).collect();
        // While searching, the error that was searched from is skipped, too.
        let each = if misdeed.starts_with("resync") { 2 } else { 1 };
        assert_eq!(lines.len(), 2 * each, "{misdeed}: {lines:#?}");
    }
}

/// Only `cat` asks a decoder where its records start.
#[test]
fn starts_that_are_not_in_order_are_refused() {
    let place = TestDir::new();
    place.write("input", INPUT);
    for (misdeed, says) in [
        ("start-too-late", "record 1 of the call starts at 2, but it has a field at 1"),
        ("starts-go-back", "record 1 of the call starts at 1, before the one before it at 2"),
    ] {
        let option = format!("do={misdeed}");
        let mut command = Command::new(pipemill!());
        command.current_dir(place.folder()).args(["cat", "-d", BAD_PLUGIN, "-o", &option, "input"]);
        finish(&mut command).with_code(65).says(&[says, AUTHOR]);
    }
}

/// The operator's log is not the decoder's.
#[test]
fn a_flood_of_log_lines_is_cut_off() {
    let place = TestDir::new();
    let input = place.write("input", INPUT);
    let config = channel("flood", "log-flood", &format!("{{ file = {input:?} }}"), "fail");
    let host = Host::start(&pipemill!(), &place, &config);
    assert_eq!(host.read("flood").well().len(), INPUT.len());
    let ended = host.wait().with_code(0).says(&["has logged 200 lines; the rest is left out"]);
    let flood = ended.stderr.lines().filter(|line| line.contains("flood") && line.contains("xxx"));
    let lengths: Vec<_> = flood.map(str::len).collect();
    assert_eq!(lengths.len(), 200);
    assert!(lengths.iter().all(|length| *length < 1_200), "{lengths:?}");
}

/// However many objects it has.
#[test]
fn a_flood_over_many_objects_is_cut_off() {
    let place = TestDir::new();
    for number in 0..12 {
        place.write(&format!("in/{number}"), INPUT);
    }
    let config =
        channel("flood", "log-flood", &format!("{{ folder = {:?} }}", place.text("in")), "fail");
    let host = Host::start(&pipemill!(), &place, &config);
    assert_eq!(host.read("flood").well().len(), 12 * INPUT.len());
    let notice = "decoder has logged 1000 lines within an hour; the rest of the hour is left out";
    let ended = host.wait().with_code(0).says(&[notice]);
    let flood = ended.stderr.lines().filter(|line| line.contains("flood") && line.contains("xxx"));
    assert_eq!(flood.count(), 1_000);
}

/// What is no decoder for this host is refused before anything starts, by every command.
#[test]
fn a_file_that_is_no_decoder_is_refused() {
    let place = TestDir::new();
    let wasi = r#"(component (import "wasi:cli/environment@0.2.0" (instance
        (export "get-environment" (func (result (list (tuple string string))))))))"#;
    let core_wasi = r#"(module (import "wasi_snapshot_preview1" "fd_write"
        (func (param i32 i32 i32 i32) (result i32))))"#;
    let newer = r#"(component (import "pipemill:decoder/host@0.2.0" (instance)))"#;
    let cases = [
        (
            "wasi",
            component(wasi),
            &["requires `wasi:cli/environment@0.2.0`", "no files, clock"][..],
        ),
        (
            "newer",
            component(newer),
            &["was made for `pipemill:decoder/host@0.2.0`", "0.1.0: rebuild"],
        ),
        ("none", component("(component)"), &["exports no `pipemill:decoder/decoder@0.1.0`"]),
        (
            "core",
            component("(module)"),
            &[
                "to find export of interface `pipemill:decoder/decoder@0.1.0`",
                "`pipemill plugin build`",
            ],
        ),
        ("core-wasi", component(core_wasi), &["wasi_snapshot_preview1", "wasm32-unknown-unknown"]),
        ("text", b"#!/bin/sh".to_vec(), &["text.wasm", "not WebAssembly", "found 23 21 2f 62"]),
        ("empty", Vec::new(), &["empty.wasm", "not WebAssembly", "found nothing"]),
    ];
    for (name, wasm, says) in cases {
        let plugin = place.write(&format!("{name}.wasm"), wasm);
        let config = channel("x", "nothing", "{ stdin = true }", "fail");
        let config = config.replace(BAD_PLUGIN, plugin.to_str().expect("UTF-8"));
        let mut run = pipemill_tests::host::command(&pipemill!(), &place, &config);
        finish(&mut run).with_code(64).says(says).says(&["channel `x`", "pipemill.toml:6:"]);
        let mut cat = Command::new(pipemill!());
        finish(cat.arg("cat").arg("--decoder").arg(&plugin).arg("-")).with_code(64).says(says);
        let mut plugins = Command::new(pipemill!());
        finish(plugins.args(["plugin", "list"]).arg(&plugin)).with_code(64).says(says);
    }
}

fn component(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("the text is right")
}

/// A small input that decompresses to much: the sandbox's limits hold for what the host makes of it.
#[test]
fn bombs_stay_within_the_limits() {
    let place = TestDir::new();
    let mut bomb = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    (0..64).for_each(|_| bomb.write_all(&[0; 1 << 20]).expect("memory"));
    // The decoder gets it in one piece.
    let input = place.write("input", bomb.finish().expect("memory"));
    let source = format!("{{ file = {input:?} }}");
    let cases = ["inflate-a-bomb", "skip-bombs-for-ever"];
    let mut config = String::new();
    for misdeed in cases {
        let time = if misdeed == cases[1] { TIME } else { Duration::from_secs(60) };
        config += &channel_with_time(misdeed, misdeed, &source, "fail", time);
    }
    let host = Host::start(&pipemill!(), &place, &config);
    let [full, spun] = cases.map(|misdeed| host.read(misdeed));
    assert!(full.report().message.contains("the payload is full"), "{full:?}");
    assert!(spun.report().message.contains(SPUN), "{spun:?}");
    host.wait().with_code(65);
}

/// A decoder that has always one record more holds up nobody: the run ends when it is asked to.
#[test]
fn a_decoder_that_never_ends_its_chunk_is_stopped() {
    let place = TestDir::new();
    let input = place.write("input", INPUT);
    let source = format!("{{ file = {input:?} }}");
    let host =
        Host::start(&pipemill!(), &place, &channel("more", "more-for-ever", &source, "fail"));
    let mut reader = host.connect("more");
    for _ in 0..3 {
        let Ok(Event::Batch(batch)) = reader.next() else { panic!("a batch") };
        assert!(consumer::records(&batch).iter().all(|record| record == b"x"));
    }
    host.process.signal(Signal::SIGTERM);
    host.wait().with_code(143);
}
