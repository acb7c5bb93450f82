//! Finds rows that were merged by quotes which are part of the text: each line of such a row is a
//! row itself.
//!
//! Quotes exist for text with line ends, so more evidence is needed. Each line, if quotes have no
//! meaning, must have as many fields as the table has columns. Tabs rarely occur in text by chance.
//! Other delimiters do: with them, there must be three columns or more, and the values of each line
//! must have the types of the columns, one of which must be numbers or booleans.

use std::ops::Range;

use pipemill_parsing::numbers::trimmed;
use pipemill_plugin::{DecodeError, Scalar};

use crate::guess::parse_boolean;
use crate::layout::Layout;
use crate::quote_hint;
use crate::row_context::RowContext;
use pipemill_parsing::numbers::Number;

/// Refuses a row that seems to be several rows.
#[cold]
pub(crate) fn check(
    context: &RowContext,
    layout: &Layout,
    row: &Range<usize>,
) -> Result<(), DecodeError> {
    let (chunk, columns) = (context.chunk, layout.names.len());
    let text = &chunk.bytes[row.clone()];
    let delimiter = chunk.dialect.delimiter;
    let least = if delimiter == b'\t' { 2 } else { 3 };
    if columns < least || !chunk.dialect.quote.is_some_and(|quote| text.contains(&quote)) {
        return Ok(());
    }
    let fields = |line: &[u8]| line.iter().filter(|byte| **byte == delimiter).count() + 1;
    let is_row = |line: &[u8]| {
        fields(line) == columns && (delimiter == b'\t' || has_types(context, layout, line))
    };
    let lines = || text.split(|byte| *byte == b'\n');
    // Line ends may also be carriage returns alone.
    if lines().count() < 2 || !lines().all(is_row) {
        return Ok(());
    }
    let hint = quote_hint::of_open_quote(&chunk.dialect, text);
    Err(chunk.refused(
        row.start,
        format_args!(
            "found {} lines in one row, because of its quotes, and each of them has the {columns} \
             fields of a row{hint}",
            lines().count()
        ),
    ))
}

/// Whether the values of a line have the types of their columns, and one is a number or a boolean.
fn has_types(context: &RowContext, layout: &Layout, line: &[u8]) -> bool {
    let delimiter = context.chunk.dialect.delimiter;
    let values: Vec<_> = line.split(|byte| *byte == delimiter).map(trimmed).collect();
    let is_null = |text: &[u8]| text.is_empty() || context.null.iter().any(|word| word == text);
    let mut is_typed = false;
    let fits = |(column, scalar): (usize, Scalar)| {
        let text = values[column].strip_suffix(b"\r").unwrap_or(values[column]);
        let fits = match scalar {
            Scalar::Bytes | Scalar::Utf8 => return true,
            Scalar::Boolean => parse_boolean(text).is_some(),
            Scalar::Int32 | Scalar::Int64 => i64::parse(text).is_some(),
            _ => f64::parse(text).is_some(),
        };
        is_typed |= fits;
        fits || is_null(text)
    };
    layout.picks.iter().map(|pick| (pick.column, pick.scalar)).all(fits) && is_typed
}
