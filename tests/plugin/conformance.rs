//! `plugin test` finds what is wrong with a plugin, shrinks the input that shows it, and prints a
//! command that shows it again. The built-in decoders pass.

use std::process::Command;

use pipemill_tests::BAD_PLUGIN;
use pipemill_tests::inputs::{recordio, tfrecord};
use pipemill_tests::process::Process;
use pipemill_tests::test_dir::TestDir;

use super::{plugin, run};

/// 40 letters.
const LETTERS: &str = "abcdefghijklmnopqrstabcdefghijklmnopqrst";

#[test]
fn the_built_in_decoders_pass() {
    let place = TestDir::new();
    let payloads: Vec<_> = (0..20u8).map(|n| vec![n; usize::from(n) * 3]).collect();
    place.write("small.tfrecord", tfrecord(&payloads));
    place.write("small.rec", recordio(&payloads));
    place.write("small.csv", "id,text\n1,\"a \"\"b\"\"\"\n2,\"c\nd\"\r\n3,e\n");
    place.write("numbers.csv", "1,2.5,3\n4,,-6e3\n");
    place.write("small.txt", "one\r\ntwo\n\nfour");
    let large: Vec<_> = (0..2_000u32).map(|n| n.to_le_bytes().repeat(10)).collect();
    place.write("large.tfrecord", tfrecord(&large));
    let tried: [&[&str]; 6] = [
        &["tfrecord", "--data", "small.tfrecord", "--data", "large.tfrecord"],
        &["recordio", "--data", "small.rec"],
        &["csv", "--data", "small.csv", "-o", "header=true"],
        &["csv", "--data", "numbers.csv", "-o", "emit=dense", "-o", "empty=nan"],
        &["lines", "--data", "small.txt", "-o", "utf8=true"],
        &["lines", "--data", "small.txt", "-o", "skip_blank=true"],
    ];
    for args in tried {
        let tested = plugin(&place, &[&["test"], args, &["--cases", "60"]].concat()).with_code(0);
        let text = tested.text();
        for what in ["the data as it is", "in any pieces", "cut off", "damaged input"] {
            assert!(text.contains(what), "{args:?}: {text}");
        }
    }
}

/// Tests the decoder that misbehaves, then repeats what the report says; gives both reports.
fn found(misdeed: &str, input: &str) -> (String, String) {
    let place = TestDir::new();
    place.write("data", input);
    let option = format!("do={misdeed}");
    // As many cases as there are, however long they take.
    let time = ["--time", "1h"];
    let tested = plugin(
        &place,
        &[&["test", BAD_PLUGIN, "-o", &option, "--data", "data"][..], &time].concat(),
    );
    let report = tested.with_code(65).text();
    let again = report.lines().map(str::trim).find(|line| line.starts_with("pipemill plugin test"));
    let Some(again) = again else { return (report, String::new()) };
    let pipemill = pipemill_tests::pipemill!();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(again.replacen("pipemill", "\"$PIPEMILL\"", 1)).env("PIPEMILL", pipemill);
    let repeated = Process::start(shell.current_dir(place.folder())).wait().with_code(65);
    (report, repeated.text())
}

#[track_caller]
fn is_found(misdeed: &str, input: &str, says: &str) {
    let (report, again) = found(misdeed, input);
    assert!(report.contains(says), "{misdeed}: {report}");
    assert!(again.contains(says), "{misdeed}, repeated: {again}\n{report}");
}

#[test]
fn a_decoder_that_depends_on_the_pieces_is_found() {
    is_found("record-a-chunk", LETTERS, "in pieces it gives something else");
}

#[test]
fn a_record_invented_at_a_cut_is_found() {
    is_found("invent-at-end", LETTERS, "that the whole input does not have");
}

#[test]
fn a_record_lost_with_the_end_is_found() {
    is_found(
        "forget-at-end",
        LETTERS,
        "shown together with its end, the input gives something else",
    );
}

#[test]
fn a_decoder_that_fails_on_damaged_input_is_found_with_the_smallest_input() {
    let (report, again) = found("fall-over-percent", LETTERS);
    assert!(report.contains("no failure on damaged input: the decoder failed"), "{report}");
    // Shrunk to the one byte.
    assert!(report.contains("--hex '25'"), "{report}");
    assert!(again.contains("100 %"), "{again}");
}

#[test]
fn a_value_that_does_not_fit_its_type_is_found() {
    let place = TestDir::new();
    place.write("data", [0xff, 0xfe]);
    for (misdeed, says) in [
        ("no-text-schema", "field `text`: is declared utf8, but holds other bytes"),
        ("no-boolean-schema", "field `flag`: is declared boolean, but holds the byte"),
        ("short-number-schema", "1 bytes in field `number`; its type and shape want 4"),
    ] {
        let option = format!("do={misdeed}");
        let tested = plugin(&place, &["test", BAD_PLUGIN, "-o", &option, "--data", "data"]);
        let report = tested.with_code(65).text();
        assert!(report.contains(says), "{misdeed}: {report}");
    }
}

#[test]
fn a_decoder_that_hangs_or_breaks_its_contract_is_found() {
    for (misdeed, says) in [
        ("spin", "of CPU time in one call"),
        ("alloc", "bytes of memory; its limit is"),
        ("panic", "I was told to panic"),
        ("consume-too-much", "broke its contract: consumed 41 bytes of a chunk of 40"),
        ("bad-need", "but got no further"),
    ] {
        let (report, _) = found(misdeed, LETTERS);
        assert!(report.contains("FAIL  the data as it is"), "{misdeed}: {report}");
        assert!(report.contains(says), "{misdeed}: {report}");
    }
}

#[test]
fn records_are_compared_with_those_expected() {
    let place = TestDir::new();
    place.write("data", "one\ntwo\n");
    let printed = run(&place, &["cat", "-d", "lines", "-o", "utf8=true", "data"]).with_code(0);
    let test = |expect: &str| {
        place.write("expect.jsonl", expect);
        let args = ["test", "lines", "-o", "utf8=true", "--data", "data", "--cases", "10"];
        plugin(&place, &[&args[..], &["--expect", "expect.jsonl"]].concat())
    };
    let passed = test(&printed.text()).with_code(0).text();
    assert!(passed.contains("records as expected: 2 compared"), "{passed}");
    test("{\"fields\":{\"line\":\"one\"}}\n{\"offset\":4}\n").with_code(0);
    let other = test("{\"fields\":{\"line\":\"one\"}}\n{\"fields\":{\"line\":\"three\"}}\n");
    let other = other.with_code(65).text();
    assert!(other.contains("record 1: `fields` is {\"line\":\"two\"}; expected"), "{other}");
    let fewer = test("{\"fields\":{\"line\":\"one\"}}\n").with_code(65).text();
    assert!(fewer.contains("there are 2 records; expected 1"), "{fewer}");
    let more = test("{}\n{}\n{}\n").with_code(65).text();
    assert!(more.contains("record 2 is missing: there are 2"), "{more}");
    test("[not json\n").with_code(64).says(&["expect.jsonl: line 1"]);
}

#[test]
fn a_last_record_cut_short_is_told_or_refused() {
    let place = TestDir::new();
    place.write("data", "one\ntwo\n");
    let args = ["test", "lines", "--data", "data", "--cases", "10"];
    let output = plugin(&place, &args).with_code(0).text();
    assert!(output.contains("at 4 of them the end of the input ends a record"), "{output}");
    let strict = plugin(&place, &[&args[..], &["--strict-end"]].concat()).with_code(65).text();
    assert!(strict.contains("silently cuts the last record short"), "{strict}");
}
