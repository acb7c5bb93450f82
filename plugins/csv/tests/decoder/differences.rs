//! The intended differences from Python's `csv`, with their reasons. `docs/decoders.md` lists them,
//! too.

use pipemill_csv::Csv;
use pipemill_plugin::testing::{Outcome, Setup, decode_whole, open};
use serde_json::{Value, json};

use crate::python::{PythonResult, Rows, python, rows};

/// The rows that the decoder and Python read in a text.
fn both(options: &[(&str, &str)], dialect: Value, text: &str) -> (Outcome, PythonResult) {
    let read = python(&[dialect], &[(0, text.as_bytes().to_vec())]).remove(0);
    (decode_whole::<Csv>(&Setup::new(options), text.as_bytes()), read)
}

fn table(rows: &[&[&str]]) -> Rows {
    rows.iter().map(|row| row.iter().map(|field| field.to_string()).collect()).collect()
}

/// A file that was cut short must not look complete. Python reports it only with `strict=True`.
#[test]
fn open_quote() {
    let (outcome, python) = both(&[], json!({}), "a,b\nc,\"d\n");
    assert_eq!(python.rows, table(&[&["a", "b"], &["c", "d\n"]]));
    assert_eq!((python.strict, python.strict_error), (1, Some("unexpected end of data".into())));
    assert_eq!((rows(&outcome), outcome.errors.len()), (table(&[&["a", "b"]]), 1));
}

/// The same; and Python appends an LF that is not in the file.
#[test]
fn escape_at_the_end() {
    let (outcome, python) = both(&[("escape", "\\")], json!({"escapechar": "\\"}), "a,b\\");
    assert_eq!(python.rows, table(&[&["a", "b\n"]]));
    assert_eq!(python.strict_error, Some("unexpected end of data".into()));
    assert_eq!((outcome.records.len(), outcome.errors.len()), (0, 1));
}

/// After an escaped line end, strict Python reports a last row without a line end as cut. But
/// nothing is missing, and other last rows need no line end, either.
#[test]
fn escaped_line_end_in_the_last_row() {
    let (outcome, python) = both(&[("escape", "\\")], json!({"escapechar": "\\"}), "a\\\nb");
    assert_eq!((python.strict, python.strict_error), (0, Some("unexpected end of data".into())));
    assert_eq!(python.rows, table(&[&["a\nb"]]));
    assert_eq!((rows(&outcome), outcome.errors), (python.rows, vec![]));
}

/// Files with CR line ends are rare, and a CR in a text must not split a row. With `lone_cr` the
/// decoder does the same as Python.
#[test]
fn cr_alone() {
    let (outcome, python) = both(&[], json!({}), "a\rb\nc\rd\n");
    assert_eq!(python.rows, table(&[&["a"], &["b"], &["c"], &["d"]]));
    assert_eq!(rows(&outcome), table(&[&["a\rb"], &["c\rd"]]));
    let (outcome, python) = both(&[("lone_cr", "true")], json!({}), "a\rb\n\"c\"\rd\n");
    assert_eq!(rows(&outcome), python.rows);
    // The last one of several CRs belongs to the line end.
    let (outcome, python) = both(&[], json!({"by_lf": true}), "a\r\r\nb\n");
    assert_eq!(python.rows, table(&[&["a"], &["b"]]));
    assert_eq!(rows(&outcome), table(&[&["a\r"], &["b"]]));
}

/// A row without fields is not a record: it would be ragged, and files often end with blank lines.
#[test]
fn blank_lines() {
    let (outcome, python) = both(&[], json!({}), "\na\r\n\r\n\"\"\n");
    assert_eq!(python.rows, table(&[&[], &["a"], &[], &[""]]));
    assert_eq!(rows(&outcome), table(&[&["a"], &[""]]));
}

/// In Python, the encoding "utf-8-sig" removes it. The decoder reads bytes, without an encoding.
#[test]
fn byte_order_mark() {
    let (outcome, python) = both(&[], json!({"keep_bom": true}), "\u{feff}a\n\u{feff}b\n");
    assert_eq!(python.rows, table(&[&["ï»¿a"], &["ï»¿b"]]));
    assert_eq!(rows(&outcome), table(&[&["a"], &["ï»¿b"]]));
}

/// Fields have names and batches have columns. A row with another number of fields is usually
/// damaged.
#[test]
fn ragged() {
    let (outcome, python) = both(&[], json!({}), "a,b\nc\n");
    assert_eq!(python.rows, table(&[&["a", "b"], &["c"]]));
    assert_eq!((rows(&outcome), outcome.errors.len()), (table(&[&["a", "b"]]), 1));
    let (outcome, _) = both(&[("flexible", "true")], json!({}), "a,b\nc\n");
    assert_eq!(outcome.records[1], [Some(b"c".to_vec()), None]);
}

/// Python appends it to the field, without `strict=True`. The decoder refuses it: the quotes are
/// part of the text, or backslashes are escapes, and rows may have been merged. Blanks are
/// appended.
#[test]
fn text_after_a_closing_quote() {
    let (outcome, python) = both(&[], json!({}), "\"a\"b,\"c\"\n");
    assert_eq!((python.strict, python.strict_error), (0, Some("',' expected after '\"'".into())));
    assert_eq!(python.rows, table(&[&["ab", "c"]]));
    assert!(outcome.records.is_empty() && outcome.refused, "{outcome:?}");
    let (outcome, python) = both(&[], json!({}), "\"a\",\"c\" \n");
    assert_eq!((python.strict, python.strict_error), (0, Some("',' expected after '\"'".into())));
    assert_eq!(rows(&outcome), table(&[&["a", "c "]]));
    assert_eq!(rows(&outcome), python.rows);
}

/// Python limits fields to 131072 characters. The decoder limits rows, by `max_record`.
#[test]
fn long_fields() {
    let text = format!("a\n{}\n", "b".repeat(131_073));
    let (outcome, python) = both(&[], json!({"limit": 131_072}), &text);
    assert_eq!(python.error, Some("field larger than field limit (131072)".into()));
    assert_eq!((python.rows.len(), outcome.records.len()), (1, 2));
    let mut setup = Setup::new(&[]);
    setup.max_record = 131_072;
    let outcome = decode_whole::<Csv>(&setup, text.as_bytes());
    assert_eq!((outcome.records.len(), outcome.errors.len()), (1, 1));
}

/// Python has no comments. With `comment`, a comment can start only where a row can start.
#[test]
fn comments() {
    let text = "#a\nb,\"\n#c\"\n";
    let (outcome, python) = both(&[("comment", "#")], json!({}), text);
    assert_eq!(python.rows, table(&[&["#a"], &["b", "\n#c"]]));
    assert_eq!(rows(&outcome), table(&[&["b", "\n#c"]]));
    let (outcome, _) = both(&[("flexible", "true"), ("names", "x,y")], json!({}), text);
    assert_eq!(rows(&outcome), python.rows);
}

/// Python accepts any character as delimiter or quote. The decoder reads bytes, so it accepts only
/// ASCII.
#[test]
fn delimiters_that_are_no_ascii() {
    let python = python(&[json!({"delimiter": "§"})], &[(0, "a§b\n".as_bytes().to_vec())]);
    assert_eq!(python[0].rows, table(&[&["a", "b"]]));
    let error = open::<Csv>(&Setup::new(&[("delimiter", "§")])).expect_err("not ASCII");
    assert!(error.contains("one byte of ASCII"), "{error}");
}

/// Python's `skipinitialspace=True` drops blanks before fields. The decoder has no such option:
/// blanks are text, except around numbers.
#[test]
fn blanks_before_fields() {
    let (outcome, python) = both(&[], json!({"skipinitialspace": true}), "a, b, \"c\"\n");
    assert_eq!(python.rows, table(&[&["a", "b", "c"]]));
    assert_eq!(rows(&outcome), table(&[&["a", " b", " \"c\""]]));
    let options = [("types", "int32")];
    let outcome = decode_whole::<Csv>(&Setup::new(&options), b"1, 2 , \t3\n");
    let numbers = [1i32, 2, 3].map(|number| Some(number.to_le_bytes().to_vec()));
    assert_eq!(outcome.records, [numbers]);
}
