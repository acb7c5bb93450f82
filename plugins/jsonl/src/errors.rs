//! The errors of a line and their messages. After each one, decoding goes on at the next line.

use std::ops::Range;

use pipemill_parsing::json::{FieldError, JsonField, SyntaxError};
use pipemill_plugin::{DecodeError, Resume};

/// The line at `start` is longer than `max_record`.
#[cold]
pub(crate) fn too_long(start: usize, max: usize, resume: Resume) -> DecodeError {
    // The message can't name its length, because its end may not be in view.
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
    DecodeError::skippable(line.start, format!("{what}; the line is not JSON"), next as u64)
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
    let what = wanted.describe(&error, chunk, line.start, "lines");
    DecodeError::skippable(
        line.start,
        format!("field `{name}` at {pointer:?}: {what}"),
        next as u64,
    )
}
