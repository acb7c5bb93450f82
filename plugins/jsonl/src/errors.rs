//! The errors of a line and their messages. After each one, decoding continues at the next line.

use std::ops::Range;

use pipemill_parsing::json::{FieldError, JsonField, SyntaxError};
use pipemill_plugin::{DecodeError, Resume};

/// The line at `start` is longer than `max_record`.
#[cold]
pub(crate) fn too_long(start: usize, max: usize, resume: Resume) -> DecodeError {
    // The message can't contain its length, because its end may not have arrived.
    let message = format!(
        "line is longer than max_record ({max} bytes); raise max_record if lines may be that long"
    );
    DecodeError { offset: start, message, resume }
}

/// The line is not valid JSON.
#[cold]
pub(crate) fn invalid_json(
    chunk: &[u8],
    line: &Range<usize>,
    next: usize,
    error: SyntaxError,
) -> DecodeError {
    let what = error.describe(chunk, line, "the end of the line");
    let is_cut = error.is_at_end(line) && next == chunk.len() && !chunk.ends_with(b"\n");
    let why = if is_cut {
        "the last line is not JSON, it may be cut short"
    } else {
        "the line is not JSON"
    };
    DecodeError::skippable(line.start, format!("{what}; {why}"), next as u64)
}

/// The line has no value for a wanted field.
#[cold]
pub(crate) fn invalid_field(
    chunk: &[u8],
    line: &Range<usize>,
    next: usize,
    wanted: &JsonField,
    error: FieldError,
) -> DecodeError {
    let JsonField { name, selector: pointer, .. } = wanted;
    // The elements of an array have numbers as keys.
    let names_element = pointer.starts_with(|c: char| c != '/')
        || pointer[1.min(pointer.len())..].starts_with(|c: char| c.is_ascii_digit());
    let is_array = chunk[line.clone()].trim_ascii_start().starts_with(b"[");
    let what = match error {
        FieldError::Missing if is_array && !names_element => {
            "the line is an array; if its elements are the records, `jq -c '.[]'` makes lines of \
             them"
                .to_owned()
        }
        _ => wanted.describe(&error, chunk, line.start, "lines"),
    };
    DecodeError::skippable(
        line.start,
        format!("field `{name}` at {pointer:?}: {what}"),
        next as u64,
    )
}
