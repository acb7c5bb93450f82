//! Comparison with CPython's `csv`: ten thousand nasty files, field by field. `differences.rs` has
//! the intended differences.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use pipemill_csv::Csv;
use pipemill_plugin::testing::{Outcome, Setup, decode_whole};
use serde_json::Value;

use crate::files::{Marks, Random, file};

pub type Rows = Vec<Vec<String>>;

/// The rows that Python reads in a text.
#[derive(Debug)]
pub struct PythonResult {
    /// The rows. Bytes are characters of Latin-1.
    pub rows: Rows,
    /// The error that ended them.
    pub error: Option<String>,
    /// The number of rows with `strict=True`.
    pub strict: usize,
    /// The error that ended them with `strict=True`.
    pub strict_error: Option<String>,
}

/// The rows that Python reads in each text. A case is the index of a dialect of `read.py`, and the
/// text. One process reads all cases.
pub fn python(dialects: &[Value], cases: &[(usize, Vec<u8>)]) -> Vec<PythonResult> {
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
    // It writes only after the end of its input, so this can't deadlock.
    child.stdin.take().expect("is piped").write_all(&input).expect("Python reads");
    let output = child.wait_with_output().expect("Python ends");
    assert!(output.status.success(), "{program} failed");
    let results: Vec<Value> = serde_json::from_slice(&output.stdout).expect("it writes JSON");
    assert_eq!(results.len(), cases.len());
    results.into_iter().map(python_result).collect()
}

fn python_result(mut value: Value) -> PythonResult {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    PythonResult {
        rows: serde_json::from_value(value["rows"].take()).expect("rows"),
        error: text(&value["error"]),
        strict: value["strict"].as_u64().expect("a number") as usize,
        strict_error: text(&value["strict_error"]),
    }
}

/// The rows that the decoder reads. Bytes are characters of Latin-1.
pub fn rows(outcome: &Outcome) -> Rows {
    let latin1 = |field: &Vec<u8>| field.iter().map(|byte| char::from(*byte)).collect();
    outcome.records.iter().map(|row| row.iter().flatten().map(latin1).collect()).collect()
}

/// Dialects: our options, the arguments of Python's reader, and the bytes with a meaning
/// (delimiter, quote, escape, comment; a blank means none).
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

/// Compares the rows of a file. Returns the kind of the case.
fn compare(options: &[(&str, &str)], text: &[u8], mut python: PythonResult) -> &'static str {
    // Python reads each byte as one character.
    let options = &[options, &[("types", "bytes")]].concat()[..];
    let outcome = decode_whole::<Csv>(&Setup::new(options), text);
    let found = rows(&outcome);
    let context = || {
        let options: Vec<_> = options.iter().filter(|(name, _)| *name != "names").collect();
        format!("{} with {options:?}", text.escape_ascii())
    };
    let escape =
        options.iter().find(|(name, _)| *name == "escape").map_or(0, |(_, e)| e.as_bytes()[0]);
    let blank = |rows: &[Vec<String>]| rows.iter().filter(|row| row.is_empty()).count();
    // Blank lines are rows for Python.
    let strict = python.strict - blank(&python.rows[..python.strict]);
    python.rows.retain(|row| !row.is_empty());
    let cut = match outcome.errors.as_slice() {
        [] => false,
        [(_, _, message)] if message.contains("found the end of the input") => true,
        // The first row looks like several lines.
        [(_, _, message)] if message.contains("set lone_cr = true") => return "a CR alone",
        [(_, _, message)] if message.contains("after a closing quote") => {
            // The rows before it are the same.
            let python: Vec<_> = python.rows.into_iter().filter(|row| !row.is_empty()).collect();
            let some = python.len().min(found.len());
            assert_eq!(found[..some], python[..some], "{}", context());
            return "text after a quote";
        }
        errors => panic!("{errors:?} in {}", context()),
    };
    let end_of_data = python.strict_error.as_deref() == Some("unexpected end of data");
    match (python.error.as_deref(), python.strict_error.as_deref()) {
        (Some(error), _) if error.starts_with("new-line character seen") => {
            // A CR without LF, which is text for the decoder. The rows before it are the same.
            let some = python.rows.len().min(found.len());
            assert!(cut || some == python.rows.len(), "{}", context());
            assert_eq!(found[..some], python.rows[..some], "{}", context());
            return "a CR alone";
        }
        (Some(error), _) => panic!("Python: {error} in {}", context()),
        // Without `strict`, Python reads the cut row as a row.
        (None, _) if cut => {
            python.rows.pop();
        }
        _ => {}
    }
    assert_eq!(found, python.rows, "{}", context());
    match python.strict_error.as_deref() {
        None => {
            assert!(!cut, "Python finds the end: {}", context());
            assert_eq!(found.len(), strict, "{}", context());
            "whole"
        }
        Some(_) if end_of_data && cut => {
            assert_eq!(found.len(), strict, "{}", context());
            "cut"
        }
        Some(_) if end_of_data => {
            let escaped = |pair: &[u8]| pair[0] == escape && matches!(pair[1], b'\r' | b'\n');
            assert!(text.windows(2).any(escaped), "Python misses the end: {}", context());
            "an escaped line end"
        }
        Some(error) if error.contains("expected after") => "blanks after a quote",
        Some(error) => panic!("Python: {error} in {}", context()),
    }
}

#[test]
fn same_as_python() {
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
                // Python reads CR CR LF as one line end.
                text.dedup_by(|b, a| (*a, *b) == (b'\r', b'\r'));
            }
            (dialect, text)
        })
        .collect();
    let pythons: Vec<Value> =
        DIALECTS.iter().map(|(_, python, _)| serde_json::from_str(python).expect("JSON")).collect();
    let mut seen = BTreeMap::new();
    for ((dialect, text), result) in cases.iter().zip(python(&pythons, &cases)) {
        let mut options =
            BTreeMap::from([("lone_cr", "true"), ("flexible", "true"), ("names", &names)]);
        options
            .extend(DIALECTS[*dialect].0.split_terminator(' ').filter_map(|o| o.split_once('=')));
        // Python before 3.11 refuses NUL.
        let what = if result.error.as_deref() == Some("line contains NUL") {
            "NUL"
        } else {
            compare(&options.into_iter().collect::<Vec<_>>(), text, result)
        };
        *seen.entry(what).or_insert(0) += 1;
    }
    for (what, least) in
        [("whole", 4_000), ("cut", 500), ("text after a quote", 500), ("a CR alone", 100)]
    {
        assert!(seen.get(what) >= Some(&least), "{what}: {seen:?}");
    }
}
