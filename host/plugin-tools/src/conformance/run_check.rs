//! The properties of every run of any input: the decoder does not fail, starts and errors are in
//! order, and values have the type of their field.

use pipemill_types::{ErrorKind, Field, Scalar, category, list_elements};

use crate::decode_run::{DecodeRun, INPUT_ENDS, PluginUnderTest, RunError};

/// Checks a run of an input of `size` bytes.
///
/// # Errors
/// The error is one line that says what does not hold.
pub(super) fn check_run(
    tested: &PluginUnderTest,
    run: &DecodeRun,
    size: usize,
) -> Result<(), String> {
    let of_decoder = |error: &&RunError| {
        matches!(error.kind, ErrorKind::Plugin | ErrorKind::Limit | ErrorKind::Host)
    };
    if let Some(error) = run.errors.iter().find(of_decoder) {
        return Err(format!("{} at byte offset {}", error.message, error.offset));
    }
    let mut before = 0;
    for (index, record) in run.records.iter().enumerate() {
        if record.start < before || record.start > size as u64 {
            let start = record.start;
            return Err(format!(
                "record {index} is said to begin at {start}; the one before it begins at {before}, \
                 and the input has {size} bytes"
            ));
        }
        before = record.start;
        for (field, value) in run.fields().iter().zip(&record.fields) {
            let problem = value.as_deref().and_then(|value| problem_of_value(field, value));
            if let Some(problem) = problem {
                return Err(format!("record {index}, field `{}`: {problem}", field.name));
            }
        }
    }
    if tested.has_blocks || run.has_blocks() {
        // Records and errors of a compressed block have the positions of the block.
        return Ok(());
    }
    check_errors(run)
}

/// Checks that no record was emitted beyond an error, or from skipped bytes.
fn check_errors(run: &DecodeRun) -> Result<(), String> {
    for error in &run.errors {
        let last = error.records.checked_sub(1).and_then(|last| run.records.get(last));
        let last = last.filter(|last| last.start >= error.offset);
        if let Some(last) = last.filter(|_| error.message.starts_with(INPUT_ENDS)) {
            return Err(format!(
                "a start is late: record {} is said to begin at byte {}, but the bytes from {} on \
                 were not consumed",
                error.records - 1,
                last.start,
                error.offset
            ));
        }
        if let Some(last) = last {
            return Err(format!(
                "emission beyond an error: record {} was emitted, which begins at {}, before the \
                 error at byte offset {} ({:?}) was reported; what an error says is bad must not \
                 be emitted",
                error.records - 1,
                last.start,
                error.offset,
                error.message
            ));
        }
        let next = run.records.get(error.records);
        if let (Some(next), Some(place)) = (next, error.resumed.place())
            && next.start < place
        {
            return Err(format!(
                "emission of skipped bytes: record {} begins at {}, but the error at byte offset \
                 {} ({:?}) goes on at {place}",
                error.records, next.start, error.offset, error.message
            ));
        }
    }
    Ok(())
}

/// The reason why the value does not have its field's type. A channel does not check this, because
/// it would have to read every byte.
fn problem_of_value(field: &Field, value: &[u8]) -> Option<String> {
    let not_utf8 = |text: &[u8]| {
        let error = std::str::from_utf8(text).err()?;
        Some(format!("is declared utf8, but holds other bytes: {error}"))
    };
    match field.scalar {
        Scalar::Utf8 if field.is_list() => list_elements(value).find_map(not_utf8),
        Scalar::Utf8 => not_utf8(value),
        _ if !field.categories.is_empty() && category(field, value).is_none() => {
            let count = field.categories.len();
            Some(format!("has {count} categories, but holds {value:02x?}, an index beyond them"))
        }
        Scalar::Boolean => value
            .iter()
            .find(|byte| **byte > 1)
            .map(|byte| format!("is declared boolean, but holds the byte {byte:02x}")),
        _ => None,
    }
}
