//! Ends of lines, and the effect of each option.

use pipemill_lines::Lines;
use pipemill_plugin::testing::{Setup, decode_whole};
use pipemill_plugin::{Field, Scalar};

use crate::outcome;

fn lines(options: &[(&str, &str)], text: &str) -> Vec<String> {
    let (records, errors) = outcome(&Setup::new(options), text.as_bytes());
    assert_eq!(errors, []);
    records.into_iter().map(|line| String::from_utf8(line).expect("the input is UTF-8")).collect()
}

#[test]
fn line_ends() {
    assert_eq!(lines(&[], ""), [""; 0]);
    assert_eq!(lines(&[], "\n"), [""]);
    assert_eq!(lines(&[], "one"), ["one"]);
    assert_eq!(lines(&[], "one\n"), ["one"]);
    assert_eq!(lines(&[], "one\ntwo"), ["one", "two"]);
    assert_eq!(lines(&[], "\n\none\n\n"), ["", "", "one", ""]);
    assert_eq!(lines(&[], "one\r\ntwo\r\n"), ["one", "two"]);
    assert_eq!(lines(&[], "\r\n\r\n"), ["", ""]);
}

#[test]
fn other_crs_are_kept() {
    assert_eq!(lines(&[], "o\rne\r\r\ntwo\r"), ["o\rne\r", "two\r"]);
    assert_eq!(lines(&[("strip_cr", "false")], "one\r\n\r\ntwo\n"), ["one\r", "\r", "two"]);
}

#[test]
fn blank_lines() {
    let text = "\none\n\r\n \n\n\ntwo\n\n";
    assert_eq!(lines(&[("skip_blank", "true")], text), ["one", " ", "two"]);
    let options = [("skip_blank", "true"), ("strip_cr", "false")];
    assert_eq!(lines(&options, text), ["one", "\r", " ", "two"]);
    assert_eq!(lines(&[("skip_blank", "true")], "\n\n\n"), [""; 0]);
}

#[test]
fn utf8_changes_the_schema() {
    let text = "ä\nöü\n\u{1f600}\r\nß";
    assert_eq!(lines(&[], text), ["ä", "öü", "\u{1f600}", "ß"]);
    let schema = |options| decode_whole::<Lines>(&Setup::new(options), b"").schema;
    assert_eq!(schema(&[("utf8", "false")]), Some(vec![Field::bytes("line")]));
    assert_eq!(schema(&[]), Some(vec![Field::new("line", Scalar::Utf8)]));
}
