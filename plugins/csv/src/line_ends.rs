//! Refuses an object whose lines end at CR, by its first row: without `lone_cr`, that row may be
//! the whole object.

use std::ops::Range;

use pipemill_plugin::DecodeError;

use crate::chunk::{Chunk, shown};
use crate::dialect::Cell;
use crate::names::not_utf8;

/// Checks the first row, whose fields are `cells`. A header has no CR outside of quotes. A record
/// may have one in a text, so there must be more evidence of lines.
pub(crate) fn check(
    chunk: &Chunk,
    row: &Range<usize>,
    cells: &[Cell],
    is_header: bool,
) -> Result<(), DecodeError> {
    let is_quoted = |cell: &Cell| {
        let before = (cell.start as usize).checked_sub(1).map(|at| chunk.bytes[at]);
        cell.raw || before.is_some() && before == chunk.dialect.quote
    };
    let cr = |cell: &Cell| cell.range().find(|at| chunk.bytes[*at] == b'\r');
    let Some(at) = cells.iter().filter(|cell| !is_quoted(cell)).find_map(cr) else {
        return Ok(());
    };
    if !is_header && !are_lines(chunk, row) {
        return Ok(());
    }
    let row = row.start;
    if is_header && let Err(error) = str::from_utf8(&chunk.bytes[row..at]) {
        // This may be compressed bytes, for example: their apparent line ends mean nothing.
        let message = not_utf8("the header", &chunk.bytes[row..at], error.valid_up_to());
        return Err(chunk.refused(row, message));
    }
    let (what, hint) = match is_header {
        true => ("header", "; if it is a part of a name, put the name in quotes"),
        false => ("first row", ""),
    };
    Err(chunk.refused(
        row,
        format_args!(
            "the {what} has a CR without LF after {} bytes, {}; if lines end at CR in this file, set \
             lone_cr = true{hint}",
            at - row,
            shown(&chunk.bytes[row..at])
        ),
    ))
}

/// Whether the parts of the row between CRs look like rows: they have the same number of fields, at
/// least two; or the row is the whole object and ends without LF.
fn are_lines(chunk: &Chunk, row: &Range<usize>) -> bool {
    let parts =
        chunk.bytes[row.clone()].split(|byte| *byte == b'\r').filter(|part| !part.is_empty());
    let is_delimiter = |byte: &&u8| **byte == chunk.dialect.delimiter;
    let delimiters: Vec<_> = parts.map(|part| part.iter().filter(is_delimiter).count()).collect();
    let [first, rest @ ..] = delimiters.as_slice() else { return false };
    let is_all = chunk.end && row.end == chunk.bytes.len();
    !rest.is_empty() && (is_all || *first > 0 && rest.iter().all(|count| count == first))
}
