//! The errors of a line and their messages. After each one, decoding goes on at the next line.

use std::ops::Range;

use pipemill_parsing::field_spec::{display_type, type_name};
use pipemill_plugin::{DecodeError, Resume};

use crate::convert::{FieldError, WantedField};
use crate::syntax_error::SyntaxError;

/// How many bytes of the input a message shows.
const MAX_SHOWN: usize = 24;

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
    let message = format!(
        "expected {}, found {} at +{}; the line is not JSON",
        error.expected,
        shown(&chunk[error.at..line.end]),
        error.at - line.start
    );
    DecodeError::skippable(line.start, message, next as u64)
}

/// The line has no value for a wanted field.
#[cold]
pub(crate) fn invalid_field(
    chunk: &[u8],
    line: &Range<usize>,
    next: usize,
    wanted: &WantedField,
    error: FieldError,
) -> DecodeError {
    let WantedField { name, pointer, .. } = wanted;
    let expected = display_type(wanted.scalar, wanted.array.as_slice());
    let at = |range: &Range<usize>| range.start - line.start;
    let found = |range: &Range<usize>| shown(&chunk[range.clone()]);
    let mark = "mark it with `?` if lines may lack it";
    let why = match &error {
        FieldError::Missing => format!("found no such value; {mark}"),
        FieldError::Null(range) => format!("found null at +{}; {mark}", at(range)),
        FieldError::Type(range) => format!("found {} at +{}", found(range), at(range)),
        FieldError::OutOfRange(range) => {
            format!("found {} at +{}, which is out of its range", found(range), at(range))
        }
        FieldError::Count(count) => format!(
            "found {count} numbers; set fields to \"{pointer}:{}[]\" if they may be any number",
            type_name(wanted.scalar)
        ),
    };
    let message = format!("field `{name}` at {pointer:?}: expected {expected}, {why}");
    DecodeError::skippable(line.start, message, next as u64)
}

/// The bytes for a message: escaped and shortened.
fn shown(text: &[u8]) -> String {
    match text {
        [] => "the end of the line".to_owned(),
        text if text.len() > MAX_SHOWN => format!("`{}…`", text[..MAX_SHOWN].escape_ascii()),
        text => format!("`{}`", text.escape_ascii()),
    }
}
