//! Compares runs, and shows records and errors in messages.

use pipemill_types::Field;

use crate::decode_run::{DecodeRun, INPUT_ENDS, Record, RunError};
use pipemill_types::record_json as json;

/// The first difference between two runs of one input, which has `size` bytes. `reference` is the
/// expected run, and `is` introduces it, as in "in one piece it is". With `skip`, errors were
/// skipped.
pub(super) fn difference(
    reference: &DecodeRun,
    run: &DecodeRun,
    (size, skip): (usize, bool),
    is: &str,
) -> Option<String> {
    let fields = reference.fields();
    let (a, b) = (&reference.records, &run.records);
    let without_records = a.is_empty() && b.is_empty();
    if reference.schema != run.schema && !without_records {
        let (a, b) = (show_fields(fields), show_fields(run.fields()));
        return Some(format!("its fields are {b}; {is} {a}"));
    }
    if let Some(at) = (0..a.len().max(b.len())).find(|at| a.get(*at) != b.get(*at)) {
        let (a, b) = (show(fields, a.get(at)), show(fields, b.get(at)));
        return Some(format!("record {at} is {b}; {is} {a}"));
    }
    if reference.metadata != run.metadata && !without_records {
        let (a, b) = (show_metadata(reference), show_metadata(run));
        return Some(format!("its metadata is {b}; {is} {a}"));
    }
    let (a, b) = (&reference.errors, &run.errors);
    let key = |error: &RunError| {
        let place = skip.then(|| place_after(error, size));
        // The host says how many bytes are missing, which depends on the bytes that were passed.
        let message =
            if error.message.starts_with(INPUT_ENDS) { INPUT_ENDS } else { &error.message };
        (error.offset, message.to_owned(), place)
    };
    let differs = |at: &usize| a.get(*at).map(key) != b.get(*at).map(key);
    let at = (0..a.len().max(b.len())).find(differs)?;
    let shown = |error: Option<&RunError>| match error {
        None => "none".to_owned(),
        Some(error) if skip => {
            format!("{error}, and decoding goes on at {}", place_after(error, size))
        }
        Some(error) => error.to_string(),
    };
    let number = if at == 0 { "the error".to_owned() } else { format!("error number {}", at + 1) };
    Some(format!("{number} is {}; {is} {}", shown(b.get(at)), shown(a.get(at))))
}

/// The place at which decoding continued after an error, at most the end of the input.
fn place_after(error: &RunError, size: usize) -> u64 {
    error.resumed.place().unwrap_or(u64::MAX).min(size as u64)
}

/// Number of characters of a record that a message shows.
const MAX_SHOWN: usize = 300;

/// A record for a message: its fields, shortened, and its start.
pub(super) fn show(fields: &[Field], record: Option<&Record>) -> String {
    let Some(record) = record else { return "none".to_owned() };
    let mut text = format!("{:.MAX_SHOWN$}", fields_as_json(fields, record));
    if text.len() >= MAX_SHOWN {
        text.push('…');
    }
    format!("{text} from byte {}", record.start)
}

/// Names and types of fields, for a message.
pub(super) fn show_fields(fields: &[Field]) -> String {
    let shown: Vec<_> = fields.iter().map(|field| format!("{field:?}")).collect();
    format!("{:.MAX_SHOWN$}", shown.join(", "))
}

/// The facts that the decoder reported about the input, as a JSON object.
pub(super) fn show_metadata(run: &DecodeRun) -> String {
    format!("{:.MAX_SHOWN$}", serde_json::json!(run.metadata).to_string())
}

/// The fields of a record as a JSON object, as `pipemill cat` prints them.
pub(super) fn fields_as_json(fields: &[Field], record: &Record) -> String {
    let pairs = fields.iter().zip(&record.fields).map(|(field, value)| {
        let mut text = Vec::new();
        match value {
            // Writing to a Vec can't fail.
            Some(value) => drop(json::print(&mut text, field, value)),
            None => text.extend(b"null"),
        }
        format!(
            "{}:{}",
            serde_json::Value::from(field.name.as_str()),
            String::from_utf8_lossy(&text)
        )
    });
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}

/// The first words of a message, without numbers: they are the same for all errors of a kind.
pub(super) fn words(message: &str, count: usize) -> String {
    let words = message.split(|c: char| !c.is_alphabetic()).filter(|word| word.len() > 2);
    words.take(count).collect::<Vec<_>>().join(" ")
}
