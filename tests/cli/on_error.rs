//! Bad input: what `pipemill cat` and `run` deliver before and after it, and what becomes of the bad
//! bytes.

use std::path::Path;

use pipemill_tests::host::Host;
use pipemill_tests::inputs::{tfrecord, unbase64};
use pipemill_tests::pipemill;
use pipemill_tests::test_dir::TestDir;
use serde_json::Value;

use super::run;

/// A hundred records of 30 bytes; some bytes of the 20th and of the 70th are changed.
fn damaged() -> (Vec<u8>, Vec<Vec<u8>>) {
    let payloads: Vec<_> = (0..100u8).map(|n| vec![n; 30]).collect();
    let mut bytes = tfrecord(&payloads);
    for record in [20, 70] {
        bytes[record * 46 + 12 + 7] ^= 0x55;
    }
    (bytes, payloads)
}

#[test]
fn all_good_records_before_an_error_are_printed() {
    let place = TestDir::new();
    let (bytes, payloads) = damaged();
    place.write("in", bytes);
    let ended = run(&place, &["cat", "-d", "tfrecord", "--output", "raw", "in"]).with_code(65);
    assert_eq!(ended.stdout, payloads[..20].concat());
    ended.says(&[
        "object in, byte offset 920, record 20, decoder tfrecord",
        "CRC-32C",
        "[bytes there:",
        "`--on-error`",
    ]);
}

#[test]
fn skip_prints_all_other_records() {
    let place = TestDir::new();
    let (bytes, payloads) = damaged();
    place.write("in", bytes);
    let args = ["cat", "-d", "tfrecord", "--output", "raw", "--on-error", "skip", "in"];
    let ended = run(&place, &args).with_code(0);
    let good = [&payloads[..20], &payloads[21..70], &payloads[71..]].concat();
    assert_eq!(ended.stdout, good.concat());
    ended.says(&["skipped 46 bytes", "byte offset 920, record 20", "byte offset 3220, record 69"]);
}

#[test]
fn the_quarantine_has_the_bytes_that_were_passed_over() {
    let place = TestDir::new();
    let (bytes, _) = damaged();
    let input = place.write("in", &bytes);
    let args = [
        "cat",
        "-d",
        "tfrecord",
        "--output",
        "count",
        "--on-error",
        "quarantine",
        "--quarantine",
        "bad",
    ];
    // It runs twice, because the second run appends.
    for _ in 0..2 {
        let ended = run(&place, &[&args[..], &["in"]].concat()).with_code(0);
        assert_eq!(ended.text(), "records=98 bytes=2940\n");
    }
    let text = std::fs::read_to_string(place.path("bad")).expect("it was written");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let offsets: Vec<_> =
        lines.iter().map(|line| line["offset"].as_u64().expect("a number")).collect();
    assert_eq!(offsets, [920, 3220, 920, 3220]);
    for line in lines {
        let at = line["offset"].as_u64().expect("a number") as usize;
        assert_eq!(line["length"], 46);
        assert_eq!(unbase64(line["bytes"].as_str().expect("text")), &bytes[at..at + 46]);
        assert_eq!((line["channel"].as_str(), line["object"].as_str()), (Some("cat"), Some("in")));
        assert!(line["reason"].as_str().is_some_and(|reason| reason.contains("CRC-32C")), "{line}");
        assert!(line.get("truncated").is_none());
    }
    assert_eq!(std::fs::read(input).expect("it is there"), bytes);
}

#[test]
fn too_many_bad_places_are_an_error_all_the_same() {
    let place = TestDir::new();
    let (bytes, payloads) = damaged();
    place.write("in", bytes);
    let args = [
        "cat",
        "-d",
        "tfrecord",
        "--output",
        "raw",
        "--on-error",
        "skip",
        "--max-errors",
        "1",
        "in",
    ];
    let ended = run(&place, &args).with_code(65);
    assert_eq!(ended.stdout, [&payloads[..20], &payloads[21..70]].concat().concat());
    ended.says(&[
        "decode error number 2 of the epoch, more than `max_errors` = 1 allows",
        "byte offset 3220",
    ]);
}

#[test]
fn a_quarantine_that_cant_be_written_is_an_error() {
    let place = TestDir::new();
    place.write("in", damaged().0);
    let args =
        ["cat", "-d", "tfrecord", "--on-error", "quarantine", "--quarantine", "/nowhere/bad", "in"];
    let ended = run(&place, &args).with_code(65);
    ended.says(&["the quarantine /nowhere/bad can't be written", "check `--quarantine`"]);
}

#[test]
fn a_record_larger_than_allowed_is_an_error_or_skipped() {
    let place = TestDir::new();
    place.write("in", tfrecord(&[vec![1; 10], vec![2; 5_000], vec![3; 10]]));
    let args = ["cat", "-d", "tfrecord", "--output", "raw", "--max-record", "4KiB", "in"];
    let ended = run(&place, &args).with_code(65);
    assert_eq!(ended.stdout, [1; 10]);
    ended.says(&["record 1", "5000", "4096"]);
    let skipped = run(&place, &[&args[..], &["--on-error", "skip"]].concat()).with_code(0);
    assert_eq!(skipped.stdout, [[1; 10], [3; 10]].concat());
}

fn lines_of(file: &Path) -> usize {
    std::fs::read_to_string(file).expect("it was written").lines().count()
}

/// Three epochs with errors in two places each. `max_errors` counts each epoch separately.
#[test]
fn a_place_is_counted_once_an_epoch_and_kept_once_a_run() {
    let place = TestDir::new();
    let input = place.write("in", damaged().0);
    let config = |max_errors: u32| {
        let quarantine = place.path(&format!("bad-{max_errors}"));
        format!(
            "[[channel]]\nname = 'train'\nsource = {{ file = {input:?}, epochs = 3 }}\n\
             decoder = 'tfrecord'\non_error = 'quarantine'\nquarantine = {quarantine:?}\n\
             max_errors = {max_errors}\n"
        )
    };
    let host = Host::start(&pipemill!(), &place, &config(2));
    assert_eq!(host.read("train").well().len(), 3 * 98);
    host.wait().with_code(0);
    assert_eq!(lines_of(&place.path("bad-2")), 2);

    let host = Host::start(&pipemill!(), &place, &config(1));
    let report = host.read("train").report().clone();
    assert!(report.message.contains("decode error number 2 of the epoch"), "{}", report.message);
    assert_eq!((report.epoch, report.record), (Some(0), Some(69)));
    host.wait().with_code(65);
}

#[test]
fn the_log_shows_ten_errors_and_the_number_of_the_others() {
    let place = TestDir::new();
    let payloads: Vec<_> = (0..100u8).map(|n| vec![n; 30]).collect();
    let mut bytes = tfrecord(&payloads);
    (0..99).for_each(|record| bytes[record * 46 + 12] ^= 1);
    place.write("in", bytes);
    let args = ["cat", "-d", "tfrecord", "--output", "count", "--on-error", "skip", "in"];
    let ended = run(&place, &args).with_code(0).says(&["skipped 89 more errors; see --on-error"]);
    assert_eq!(ended.stderr.matches("skipped 46 bytes").count(), 10);
    let kept = ["--on-error", "quarantine", "--quarantine", "bad"];
    let ended = run(&place, &[&args[..5], &kept, &["in"]].concat()).with_code(0);
    ended.says(&["skipped 89 more errors; see bad"]);
    assert_eq!(lines_of(&place.path("bad")), 99);
}

/// A decoder that does not fit the input at all delivers nothing, and says so.
#[test]
fn skipping_all_of_the_input_is_an_error() {
    let place = TestDir::new();
    place.write("in", "this is no tar archive\n".repeat(1000));
    let args = ["cat", "-d", "webdataset", "-o", "fields=jpg", "--on-error", "skip", "in"];
    let ended = run(&place, &args).with_code(65);
    ended.says(&["no record was delivered", "expected a tar header", "fits the input"]);
    place.write("empty", "");
    run(&place, &["cat", "-d", "csv", "--on-error", "skip", "empty"]).with_code(0);
}

/// An option that does not fit the input is not the input's fault.
#[test]
fn what_a_decoder_refuses_is_not_skipped() {
    let place = TestDir::new();
    place.write("one.csv", "a,b\n1,2\n");
    place.write("two.csv", "a,c\n1,2\n");
    let args = ["cat", "-d", "csv", "-o", "header=true", "-o", "columns=b", "--on-error", "skip"];
    let ended = run(&place, &[&args[..], &["one.csv", "two.csv"]].concat()).with_code(64);
    assert_eq!(ended.text().lines().count(), 1);
    ended.says(&["object two.csv", "there is no column `b`", "correct the decoder's `options`"]);
}
