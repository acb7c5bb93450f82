//! The author's expectations of an input: its records, as `pipemill cat` prints them, and its
//! errors, as `pipemill cat --on-error quarantine` writes them.

use serde_json::Value;

use super::compare::{fields_as_json, show};
use crate::decode_run::{DecodeRun, RunError};

/// The expected records of an input: one JSON object per record, as `pipemill cat` prints it. Keys
/// that an object leaves out are not compared. An object whose only key is `metadata` has the
/// facts about the input.
#[derive(Debug, Clone)]
pub struct Expected {
    records: Vec<Value>,
    metadata: Option<Value>,
}

/// The expected errors of an input: one JSON object per error, with the keys `offset`, `length`
/// (bytes that are skipped) and `message` or `reason` (a part of the message). Keys that an object
/// leaves out are not compared.
#[derive(Debug, Clone)]
pub struct ExpectedErrors(Vec<Value>);

/// Parses JSON lines of objects. Empty lines are ignored. An error has the line's number, from 1.
fn parse_lines(text: &str) -> Result<Vec<Value>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            let value: Value = serde_json::from_str(line)
                .map_err(|error| format!("line {}: {error}", number + 1))?;
            match value.is_object() {
                true => Ok(value),
                false => Err(format!("line {}: expected an object, not {value:.100}", number + 1)),
            }
        })
        .collect()
}

impl Expected {
    /// Parses JSON lines.
    ///
    /// # Errors
    /// A line is not a JSON object. The error has the line's number, from 1.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (facts, records): (Vec<_>, Vec<_>) = parse_lines(text)?.into_iter().partition(|line| {
            line.as_object().is_some_and(|keys| keys.len() == 1 && keys.contains_key("metadata"))
        });
        let metadata = facts.into_iter().next_back().map(|mut line| line["metadata"].take());
        Ok(Self { records, metadata })
    }

    /// Number of the records.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Compares a run with the expectation.
    ///
    /// # Errors
    /// The error is one line with the first difference.
    pub(super) fn compare(&self, run: &DecodeRun) -> Result<(), String> {
        if let Some(expected) = &self.metadata {
            let found = serde_json::json!(run.metadata);
            if found != *expected {
                return Err(format!("the metadata is {found:.400}; expected {expected:.400}"));
            }
        }
        let fields = run.fields();
        for (index, wanted) in self.records.iter().enumerate() {
            let Some(record) = run.records.get(index) else {
                let count = run.records.len();
                return Err(format!(
                    "record {index} is missing: there are {count}; expected {wanted}"
                ));
            };
            let line = format!(
                "{{\"index\":{index},\"offset\":{},\"fields\":{}}}",
                record.start,
                fields_as_json(fields, record)
            );
            let found: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
            // The object's name depends on the path of the file.
            let keys = wanted.as_object().into_iter().flatten();
            for (key, value) in keys.filter(|(key, _)| *key != "object") {
                if found.get(key) != Some(value) {
                    let found = found.get(key).unwrap_or(&Value::Null);
                    return Err(format!(
                        "record {index}: `{key}` is {found:.400}; expected {value:.400}"
                    ));
                }
            }
        }
        match run.records.get(self.records.len()) {
            None => Ok(()),
            Some(record) => Err(format!(
                "there are {} records; expected {}; the first that is not expected is {}",
                run.records.len(),
                self.records.len(),
                show(fields, Some(record))
            )),
        }
    }
}

impl ExpectedErrors {
    /// Parses JSON lines.
    ///
    /// # Errors
    /// A line is not a JSON object. The error has the line's number, from 1.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse_lines(text).map(Self)
    }

    /// Number of the errors.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Compares the errors of a run with the expectation.
    ///
    /// # Errors
    /// The error is one line with the first difference.
    pub(super) fn compare(&self, run: &DecodeRun) -> Result<(), String> {
        for (index, wanted) in self.0.iter().enumerate() {
            let Some(error) = run.errors.get(index) else {
                let count = run.errors.len();
                return Err(format!(
                    "error {index} is missing: there are {count}; expected {wanted}"
                ));
            };
            if let Some(why) = problem_of(error, wanted) {
                return Err(format!("error {index}: {why}; it is {error}"));
            }
        }
        match run.errors.get(self.0.len()) {
            None => Ok(()),
            Some(error) => Err(format!(
                "there are {} errors; expected {}; the first that is not expected is {error}",
                run.errors.len(),
                self.0.len()
            )),
        }
    }
}

/// The reason why an error is not the expected one.
fn problem_of(error: &RunError, wanted: &Value) -> Option<String> {
    let number = |key: &str| wanted.get(key).and_then(Value::as_u64);
    let length = error.resumed.place().map(|place| place - error.offset);
    if let Some(offset) = number("offset").filter(|offset| *offset != error.offset) {
        return Some(format!("expected it at byte offset {offset}"));
    }
    if let Some(wanted) = number("length").filter(|wanted| Some(*wanted) != length) {
        let found = length.map_or("the run ends".to_owned(), |length| format!("{length} are"));
        return Some(format!("expected {wanted} bytes to be skipped, but {found}"));
    }
    let text = wanted.get("message").or(wanted.get("reason")).and_then(Value::as_str);
    let text = text.filter(|text| !error.message.contains(text))?;
    Some(format!("expected a message with {text:?}"))
}
