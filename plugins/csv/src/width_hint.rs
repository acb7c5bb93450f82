//! Hints for rows with a wrong number of fields: the likely meaning, and the option that reads it.
//! `flexible` is named only if it loses nothing.

use std::ops::Range;

use crate::delimiter_hint;
use crate::layout::Layout;
use crate::quote_hint;
use crate::row_context::RowContext;

/// Largest number of lines above a table.
const MAX_PREAMBLE: u64 = 50;

/// The hint for a row that has `found` fields.
#[cold]
pub(crate) fn of_row(
    context: &RowContext,
    layout: &Layout,
    found: usize,
    row: &Range<usize>,
) -> String {
    let (chunk, expected) = (context.chunk, layout.names.len());
    let bytes = &chunk.bytes[row.clone()];
    let quotes = quote_hint::of_row(&chunk.dialect, bytes, expected);
    if !quotes.is_empty() {
        return quotes;
    }
    let delimiter = delimiter_hint::of_row(&chunk.dialect, bytes, expected, layout.are_named);
    if !delimiter.is_empty() {
        return delimiter;
    }
    if found < expected {
        return "; set flexible = true to take such rows".to_owned();
    }
    if context.first_record == Some(row.start) && found == expected + 1 && !layout.are_named {
        return row_names(&layout.names);
    }
    match chunk.line(row.start) {
        Some(line @ 2..=MAX_PREAMBLE) if expected == 1 => preamble(line - 1),
        _ => "; a delimiter in a value needs quotes around the value; flexible = true would leave \
              out the fields beyond"
            .to_owned(),
    }
}

/// The hint for a header that has one name less than the rows have fields.
pub(crate) fn row_names(names: &[String]) -> String {
    let hint = "the first column may have no name, as in R's files";
    if names.len() > 20 || names.iter().any(|name| name.contains([',', '"'])) {
        return format!("; {hint}: give {} names by `names`", names.len() + 1);
    }
    let first = ["row", "row_name", "row_number"]
        .into_iter()
        .find(|first| !names.iter().any(|name| name == first));
    format!("; {hint}: set names = \"{},{}\"", first.unwrap_or("column_0"), names.join(","))
}

/// The hint for an object whose first lines have fewer fields than its rows.
pub(crate) fn preamble(lines: u64) -> String {
    let stand = if lines == 1 { "line stands" } else { "lines stand" };
    format!("; if the first {lines} {stand} above the table, set skip_rows = {lines}")
}
