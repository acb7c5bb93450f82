//! Against CPython's `csv`: ten thousand nasty files, field by field. Where we differ on purpose is in
//! `differences.rs`.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use pipemill_csv::Csv;
use pipemill_plugin::testing::{Outcome, Setup, decode_whole};
use serde_json::Value;

use crate::files::{Marks, Random, file};

pub type Rows = Vec<Vec<String>>;

/// What Python reads in a text.
#[derive(Debug)]
pub struct Answer {
    /// The rows, and what error ended them. Bytes are characters of Latin-1.
    pub rows: Rows,
    pub error: Option<String>,
    /// How many of them there are with `strict=True`, and what error ended them.
    pub strict: usize,
    pub strict_error: Option<String>,
}

/// What Python reads in each text, by dialects of `read.py`. One process reads all of them.
pub fn python(dialects: &[Value], cases: &[(usize, Vec<u8>)]) -> Vec<Answer> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/decoder/read.py");
    let program = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut child = Command::new(&program)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program} is needed for this test: {error}"));
    let mut input = format!("{}\n", Value::from(dialects)).into_bytes();
    for (dialect, text) in cases {
        input.extend((*dialect as u32).to_le_bytes());
        input.extend((text.len() as u32).to_le_bytes());
        input.extend(text);
    }
    // It answers behind the end of its input, so this can't lock up.
    child.stdin.take().expect("is piped").write_all(&input).expect("Python reads");
    let output = child.wait_with_output().expect("Python ends");
    assert!(output.status.success(), "{program} failed");
    let answers: Vec<Value> = serde_json::from_slice(&output.stdout).expect("it answers JSON");
    assert_eq!(answers.len(), cases.len());
    answers.into_iter().map(answer).collect()
}

fn answer(mut value: Value) -> Answer {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Answer {
        rows: serde_json::from_value(value["rows"].take()).expect("rows"),
        error: text(&value["error"]),
        strict: value["strict"].as_u64().expect("a number") as usize,
        strict_error: text(&value["strict_error"]),
    }
}

/// The rows that we read. Bytes are characters of Latin-1.
pub fn rows(outcome: &Outcome) -> Rows {
    let latin1 = |field: &Vec<u8>| field.iter().map(|byte| char::from(*byte)).collect();
    outcome.records.iter().map(|row| row.iter().flatten().map(latin1).collect()).collect()
}

/// Ways to write rows: our options, the arguments of Python's reader, and the bytes that mean something:
/// delimiter, quote, escape, comment, with a blank for none.
const DIALECTS: [(&str, &str, &str); 11] = [
    ("", "{}", ",\"  "),
    ("lone_cr=false", r#"{"by_lf": true}"#, ",\"  "),
    ("comment=#", r##"{"comment": "#"}"##, ",\" #"),
    ("escape=\\", r#"{"escapechar": "\\"}"#, ",\"\\ "),
    ("escape=\\ double_quote=false", r#"{"escapechar": "\\", "doublequote": false}"#, ",\"\\ "),
    ("double_quote=false", r#"{"doublequote": false}"#, ",\"  "),
    ("quote=none", r#"{"quoting": 3}"#, ",   "),
    (
        "quote=none escape=^ delimiter=|",
        r#"{"quoting": 3, "escapechar": "^", "delimiter": "|"}"#,
        "| ^ ",
    ),
    ("delimiter=tab quote='", r#"{"delimiter": "\t", "quotechar": "'"}"#, "\t'  "),
    (
        "delimiter=; quote=a comment=% lone_cr=false",
        r#"{"delimiter": ";", "quotechar": "a", "comment": "%", "by_lf": true}"#,
        ";a %",
    ),
    (
        "delimiter=: quote=' escape=\" comment=,",
        r#"{"delimiter": ":", "quotechar": "'", "escapechar": "\"", "comment": ","}"#,
        ":'\",",
    ),
];

fn marks(bytes: &str) -> Marks {
    let [delimiter, rest @ ..] = bytes.as_bytes() else { panic!("there is a delimiter") };
    let [quote, escape, comment] = [0, 1, 2].map(|at| Some(rest[at]).filter(|byte| *byte != b' '));
    Marks { delimiter: *delimiter, quote, escape, comment }
}

/// What is compared of a file.
fn compare(options: &[(&str, &str)], text: &[u8], mut python: Answer) -> &'static str {
    let outcome = decode_whole::<Csv>(&Setup::new(options), text);
    let found = rows(&outcome);
    let told = |option: &&(&str, &str)| option.0 != "names";
    let shown = || {
        let told: Vec<_> = options.iter().filter(told).collect();
        format!("{} with {told:?}", text.escape_ascii())
    };
    let escape =
        options.iter().find(|(name, _)| *name == "escape").map_or(0, |(_, e)| e.as_bytes()[0]);
    let blank = |rows: &[Vec<String>]| rows.iter().filter(|row| row.is_empty()).count();
    // Blank lines are rows for Python.
    let strict = python.strict - blank(&python.rows[..python.strict]);
    python.rows.retain(|row| !row.is_empty());
    let cut = match outcome.errors.as_slice() {
        [] => false,
        [(_, _, message)] if message.ends_with("found the end of the input") => true,
        errors => panic!("{errors:?} in {}", shown()),
    };
    let end_of_data = python.strict_error.as_deref() == Some("unexpected end of data");
    match (python.error.as_deref(), python.strict_error.as_deref()) {
        (Some(error), _) if error.starts_with("new-line character seen") => {
            // A CR without LF, which is text for us: what stood before it is the same.
            let some = python.rows.len().min(found.len());
            assert!(cut || some == python.rows.len(), "{}", shown());
            assert_eq!(found[..some], python.rows[..some], "{}", shown());
            return "a CR alone";
        }
        (Some(error), _) => panic!("Python: {error} in {}", shown()),
        // Not strict, it takes what was cut for a row, the last one.
        (None, _) if cut => {
            python.rows.pop();
        }
        _ => {}
    }
    assert_eq!(found, python.rows, "{}", shown());
    match python.strict_error.as_deref() {
        None => {
            assert!(!cut, "Python finds the end: {}", shown());
            assert_eq!(found.len(), strict, "{}", shown());
            "whole"
        }
        Some(_) if end_of_data && cut => {
            assert_eq!(found.len(), strict, "{}", shown());
            "cut"
        }
        Some(_) if end_of_data => {
            let escaped = |pair: &[u8]| pair[0] == escape && matches!(pair[1], b'\r' | b'\n');
            assert!(text.windows(2).any(escaped), "Python misses the end: {}", shown());
            "an escaped line end"
        }
        Some(error) if error.contains("expected after") => "text behind a quote",
        Some(error) => panic!("Python: {error} in {}", shown()),
    }
}

#[test]
fn the_same() {
    const WIDE: usize = 200;
    let names: Vec<_> = (0..WIDE).map(|column| format!("c{column}")).collect();
    let names = names.join(",");
    let mut random = Random::new(1);
    let cases: Vec<(usize, Vec<u8>)> = (0..10_000)
        .map(|number| {
            let dialect = number % DIALECTS.len();
            let (ours, _, bytes) = DIALECTS[dialect];
            let mut text = file(&mut random, marks(bytes), WIDE);
            if ours.contains("lone_cr=false") {
                // CR CR LF is one line end for Python.
                text.dedup_by(|b, a| (*a, *b) == (b'\r', b'\r'));
            }
            (dialect, text)
        })
        .collect();
    let pythons: Vec<Value> =
        DIALECTS.iter().map(|(_, python, _)| serde_json::from_str(python).expect("JSON")).collect();
    let mut seen = BTreeMap::new();
    for ((dialect, text), answer) in cases.iter().zip(python(&pythons, &cases)) {
        let mut options =
            BTreeMap::from([("lone_cr", "true"), ("flexible", "true"), ("names", &names)]);
        options
            .extend(DIALECTS[*dialect].0.split_terminator(' ').filter_map(|o| o.split_once('=')));
        // Before 3.11 it refuses NUL.
        let what = if answer.error.as_deref() == Some("line contains NUL") {
            "NUL"
        } else {
            compare(&options.into_iter().collect::<Vec<_>>(), text, answer)
        };
        *seen.entry(what).or_insert(0) += 1;
    }
    for (what, least) in
        [("whole", 4_000), ("cut", 500), ("text behind a quote", 500), ("a CR alone", 100)]
    {
        assert!(seen.get(what) >= Some(&least), "{what}: {seen:?}");
    }
}
