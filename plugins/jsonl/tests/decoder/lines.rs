//! Ends of lines, lines that are skipped, and the field `line`.

use pipemill_jsonl::Jsonl;
use pipemill_plugin::testing::{Setup, decode_whole};
use pipemill_plugin::{Field, Scalar};

use crate::outcome;

fn lines(validate: bool, text: &str) -> Vec<String> {
    let setup = Setup::new(&[("validate", if validate { "true" } else { "false" })]);
    let (records, errors) = outcome(&setup, text.as_bytes());
    assert_eq!(errors, []);
    let line = |record: Vec<Option<Vec<u8>>>| {
        String::from_utf8(record[0].clone().expect("never absent")).expect("from text")
    };
    records.into_iter().map(line).collect()
}

#[test]
fn line_ends() {
    for validate in [true, false] {
        let lines = |text| lines(validate, text);
        assert_eq!(lines(""), [""; 0]);
        assert_eq!(lines("1"), ["1"]);
        assert_eq!(lines("1\n"), ["1"]);
        assert_eq!(lines("{}\r\n[]\r"), ["{}", "[]"]);
        assert_eq!(lines(" 1 \n\t\"a\"\t\nnull"), [" 1 ", "\t\"a\"\t", "null"]);
    }
    assert_eq!(lines(false, "not\njson\r\r\n"), ["not", "json\r"]);
}

#[test]
fn blank_lines_and_byte_order_mark() {
    for validate in [true, false] {
        let lines = |text| lines(validate, text);
        assert_eq!(lines("\n\r\n \t \n1\n\n2\n \n\r"), ["1", "2"]);
        assert_eq!(lines("\u{feff}1\n2"), ["1", "2"]);
        assert_eq!(lines("\u{feff}"), [""; 0]);
        assert_eq!(lines("\u{feff}\n\n"), [""; 0]);
    }
    assert_eq!(lines(false, "1\n\u{feff}2"), ["1", "\u{feff}2"]);
    let outcome = decode_whole::<Jsonl>(&Setup::new(&[]), "\u{feff}1\n2\n\u{feff}3\n".as_bytes());
    assert_eq!(outcome.starts, [3, 5]);
    assert_eq!(outcome.errors[0].0, 7);
    // A part of a byte order mark is text.
    assert_eq!(decode_whole::<Jsonl>(&Setup::new(&[]), b"\xef\xbb").errors.len(), 1);
}

#[test]
fn checked_lines_are_text() {
    let schema = |options| decode_whole::<Jsonl>(&Setup::new(options), b"").schema;
    assert_eq!(schema(&[]), Some(vec![Field::new("line", Scalar::Utf8)]));
    assert_eq!(schema(&[("validate", "false")]), Some(vec![Field::bytes("line")]));
}
