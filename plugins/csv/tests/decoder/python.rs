//! Against Python's `csv`: on thousands of nasty texts, and where we differ on purpose.

use std::io::Write;
use std::process::{Command, Stdio};

use pipemill_csv::Csv;
use pipemill_plugin::testing::{Outcome, Setup, decode_whole};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::inputs::nasty;

type Rows = Vec<Vec<String>>;

/// Our options for each dialect of `nasty.py`. Python ends rows at every CR.
const DIALECTS: [&[(&str, &str)]; 5] = [
    &[],
    &[("escape", "\\")],
    &[("escape", "\\"), ("double_quote", "false")],
    &[("quote", "none")],
    &[("delimiter", "tab"), ("quote", "'")],
];

/// What Python reads.
fn python(cases: &[(usize, Vec<u8>)]) -> Vec<Rows> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/decoder/nasty.py");
    let mut child = Command::new("python3")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is needed for this test");
    let mut stdin = child.stdin.take().expect("is piped");
    for (dialect, text) in cases {
        let head = [(*dialect as u32).to_le_bytes(), (text.len() as u32).to_le_bytes()].concat();
        // It answers behind the end of its input, so this can't lock up.
        stdin.write_all(&[&head[..], text].concat()).expect("python3 reads");
    }
    drop(stdin);
    let output = child.wait_with_output().expect("python3 ends");
    assert!(output.status.success(), "python3 failed");
    serde_json::from_slice(&output.stdout).expect("it answers JSON")
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn ours(dialect: usize, more: &[(&str, &str)], text: &[u8]) -> Outcome {
    decode_whole::<Csv>(&Setup::new(&[DIALECTS[dialect], more].concat()), text)
}

/// Each row as the text it is. Row and field both, since a width that is learned hides nothing then.
fn rows(outcome: &Outcome, wide: usize) -> Rows {
    let row = |record: &Vec<Option<Vec<u8>>>| {
        assert!(record.len() <= wide, "more fields than there are columns");
        record.iter().flatten().map(|field| latin1(field)).collect()
    };
    outcome.records.iter().map(row).collect()
}

#[test]
fn the_same() {
    const WIDE: usize = 200;
    let names: Vec<_> = (0..WIDE).map(|column| format!("c{column}")).collect();
    let names = names.join(",");
    let more = [("lone_cr", "true"), ("flexible", "true"), ("names", names.as_str())];
    let mut runner = TestRunner::deterministic();
    let cases: Vec<(usize, Vec<u8>)> = (0..6_000)
        .map(|i| {
            let mut text = nasty().new_tree(&mut runner).expect("no filter").current();
            if i % 5 == 4 {
                let swap = |byte: &u8| match byte {
                    b',' => b'\t',
                    b'"' => b'\'',
                    other => *other,
                };
                text = text.iter().map(swap).collect();
            }
            // At the very start we skip it, see below.
            while text.starts_with(b"\xef\xbb\xbf") {
                text.drain(..3);
            }
            (i % 5, text)
        })
        .collect();
    let mut whole = 0;
    for ((dialect, text), mut expected) in cases.iter().zip(python(&cases)) {
        expected.retain(|row| !row.is_empty());
        let outcome = ours(*dialect, &more, text);
        if !outcome.errors.is_empty() {
            // Only ends of input that Python lets pass, see below: all rows but the last are there.
            assert!(outcome.errors[0].2.contains("found the end of the input"), "{outcome:?}");
            let good = outcome.records.len();
            assert!(good < expected.len(), "{}: {outcome:?}", text.escape_ascii());
            expected.truncate(good);
        } else {
            whole += 1;
        }
        let found = rows(&outcome, WIDE);
        assert_eq!(found, expected, "{} as {:?}", text.escape_ascii(), DIALECTS[*dialect]);
    }
    assert!(whole > 2_000, "only {whole} of the texts are read to their end");
}

/// What both read in a text.
fn both(dialect: usize, more: &[(&str, &str)], text: &str) -> (Outcome, Rows) {
    let read = python(&[(dialect, text.as_bytes().to_vec())]).remove(0);
    (ours(dialect, more, text.as_bytes()), read)
}

fn table(rows: &[&[&str]]) -> Rows {
    rows.iter().map(|row| row.iter().map(|field| field.to_string()).collect()).collect()
}

#[test]
fn open_quote() {
    let (outcome, python) = both(0, &[], "a,b\nc,\"d\n");
    assert_eq!(python, table(&[&["a", "b"], &["c", "d\n"]]));
    assert_eq!(rows(&outcome, 2), table(&[&["a", "b"]]));
    assert_eq!(outcome.errors.len(), 1);
}

#[test]
fn escape_at_the_end() {
    let (outcome, python) = both(1, &[], "a,b\\");
    assert_eq!(python, table(&[&["a", "b\n"]]));
    assert_eq!((outcome.records.len(), outcome.errors.len()), (0, 1));
}

#[test]
fn cr_alone() {
    let (outcome, python) = both(0, &[], "a\rb\n\"c\"\rd\n");
    assert_eq!(python, table(&[&["a"], &["b"], &["c"], &["d"]]));
    assert_eq!(rows(&outcome, 1), table(&[&["a\rb"], &["c\rd"]]));
}

#[test]
fn blank_lines() {
    let (outcome, python) = both(0, &[], "\na\r\n\r\n\"\"\n");
    assert_eq!(python, table(&[&[], &["a"], &[], &[""]]));
    assert_eq!(rows(&outcome, 1), table(&[&["a"], &[""]]));
}

#[test]
fn byte_order_mark() {
    let (outcome, python) = both(0, &[], "\u{feff}a\n\u{feff}b\n");
    assert_eq!(python, table(&[&["ï»¿a"], &["ï»¿b"]]));
    assert_eq!(rows(&outcome, 1), table(&[&["a"], &["ï»¿b"]]));
}

#[test]
fn ragged() {
    let (outcome, python) = both(0, &[], "a,b\nc\n");
    assert_eq!(python, table(&[&["a", "b"], &["c"]]));
    assert_eq!(rows(&outcome, 2), table(&[&["a", "b"]]));
    assert_eq!(outcome.errors.len(), 1);
    let (outcome, _) = both(0, &[("flexible", "true")], "a,b\nc\n");
    assert_eq!(outcome.records[1], [Some(b"c".to_vec()), None]);
}

/// Not differences: what the documentation says is "as there".
#[test]
fn as_there() {
    for text in ["\"a\"b\n", "\"a\"b\"c\",d\n", "a\"b\",\"c\n", "a,b\r", "\"a\"\r", " \"a\"\n"] {
        let (outcome, python) = both(0, &[], text);
        if outcome.errors.is_empty() {
            assert_eq!(rows(&outcome, 2), python, "{text:?}");
        }
    }
    for text in ["\\,,\"\\\"\"\n", "\\\"a\n", "a\\\nb\n", "\"a\"\\x\n"] {
        let (outcome, python) = both(1, &[], text);
        assert_eq!(rows(&outcome, 2), python, "{text:?}");
    }
}
