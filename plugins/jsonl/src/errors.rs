//! What can be wrong with a line, in words. Decoding goes on at the next line.

use std::ops::Range;

use pipemill_parsing::field_spec as field_list;
use pipemill_plugin::{DecodeError, Resume};

use crate::convert::{Wanted, Wrong};
use crate::walk::Fault;

/// Bytes of the input that a message shows.
const SHOWN: usize = 24;

/// The line at `start` is longer than the channel takes.
#[cold]
pub(crate) fn too_long(start: usize, max: usize, resume: Resume) -> DecodeError {
    // How long it is can't be said: its end need not be in view.
    let message = format!(
        "line is longer than max_record ({max} bytes); raise max_record if lines may be that long"
    );
    DecodeError { offset: start, message, resume }
}

/// The line is not JSON.
#[cold]
pub(crate) fn no_json(chunk: &[u8], line: &Range<usize>, next: usize, fault: Fault) -> DecodeError {
    let message = format!(
        "expected {}, found {} at +{}; the line is not JSON",
        fault.expected,
        shown(&chunk[fault.at..line.end]),
        fault.at - line.start
    );
    DecodeError::skippable(line.start, message, next as u64)
}

/// The line has no value that can be the field.
#[cold]
pub(crate) fn no_value(
    chunk: &[u8],
    line: &Range<usize>,
    next: usize,
    wanted: &Wanted,
    wrong: Wrong,
) -> DecodeError {
    let Wanted { name, pointer, .. } = wanted;
    let kind = kind(wanted);
    let at = |range: &Range<usize>| range.start - line.start;
    let found = |range: &Range<usize>| shown(&chunk[range.clone()]);
    let mark = "mark it with `?` if lines may lack it";
    let found = match &wrong {
        Wrong::Missing => format!("expected {kind}, found no such value; {mark}"),
        Wrong::Null(range) => format!("expected {kind}, found null at +{}; {mark}", at(range)),
        Wrong::Type(range) => format!("expected {kind}, found {} at +{}", found(range), at(range)),
        Wrong::Range(range) => format!(
            "expected {kind}, found {} at +{}, which is out of its range",
            found(range),
            at(range)
        ),
        Wrong::Count(count) => format!(
            "expected {kind}, found {count} numbers; set fields to \"{pointer}:{}[]\" if they may be \
             any number",
            field_list::name(wanted.scalar)
        ),
    };
    let message = format!("field `{name}` at {pointer:?}: {found}");
    DecodeError::skippable(line.start, message, next as u64)
}

/// The type as the option has it.
fn kind(wanted: &Wanted) -> String {
    field_list::shown(wanted.scalar, wanted.array.as_slice())
}

/// Text of the input, shortened.
fn shown(text: &[u8]) -> String {
    match text {
        [] => "the end of the line".to_owned(),
        text if text.len() > SHOWN => format!("`{}…`", text[..SHOWN].escape_ascii()),
        text => format!("`{}`", text.escape_ascii()),
    }
}
