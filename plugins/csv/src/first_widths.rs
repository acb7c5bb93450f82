//! With `flexible`, fields beyond those of the first row are left out. If all examined rows
//! after it have such fields, the first row does not define the columns, and the object is refused.

use pipemill_plugin::DecodeError;

use crate::chunk::{Chunk, NextRow};
use crate::dialect::Cell;
use crate::settings::{Header, Settings};
use crate::{names, width_hint};

/// Number of rows that are examined.
const ROWS: usize = 6;

/// Examines the first rows, from `start` on. Returns whether all of them were seen; otherwise more
/// bytes are needed.
///
/// # Errors
/// The first rows have fewer fields than each of the others.
pub(crate) fn check(
    chunk: &Chunk,
    start: usize,
    settings: &Settings,
    cells: &mut Vec<Cell>,
) -> Result<bool, DecodeError> {
    // The start of each row, and its number of fields.
    let (mut at, mut rows, mut first) = (start, Vec::new(), Vec::new());
    while rows.len() < ROWS {
        match chunk.next_row(at, cells) {
            Ok(NextRow::Whole { next, .. }) if (next - start) as u64 > chunk.max_record => break,
            Ok(NextRow::Whole { row, next }) => {
                if rows.is_empty() {
                    first.clone_from(cells);
                }
                rows.push((row.start, cells.len()));
                at = next;
            }
            Ok(NextRow::Cut(_)) if chunk.end => break,
            Ok(NextRow::Cut(_)) if (chunk.bytes.len() - start) as u64 <= chunk.max_record => {
                return Ok(false);
            }
            // A row that can't be read is reported when it is decoded.
            Ok(NextRow::Cut(_)) | Err(_) => break,
        }
    }
    match rows_above(&rows) {
        Some(above) => Err(refusal(chunk, settings, &rows, above, &first)),
        None => Ok(true),
    }
}

/// The number of rows above those that have more fields than the first; they are one row, or lines
/// with one field.
fn rows_above(rows: &[(usize, usize)]) -> Option<usize> {
    let (_, columns) = *rows.first()?;
    let above = rows.iter().take_while(|(_, width)| *width <= columns).count();
    let (_, rest) = rows.split_at(above);
    let are_wider = rest.len() >= 2 && rest.iter().all(|(_, width)| *width > columns);
    (are_wider && (above == 1 || columns == 1)).then_some(above)
}

fn refusal(
    chunk: &Chunk,
    settings: &Settings,
    rows: &[(usize, usize)],
    above: usize,
    first: &[Cell],
) -> DecodeError {
    let ((row, columns), (next, found)) = (rows[0], rows[above]);
    let least = rows[above..].iter().map(|(_, width)| *width).min().unwrap_or(found);
    let hint = match names::of_header(chunk, first) {
        Ok(names) if settings.header != Header::No && columns > 1 && least == columns + 1 => {
            width_hint::row_names(&names)
        }
        _ => match chunk.line(next) {
            Some(line) if columns == 1 => width_hint::preamble(line - 1),
            _ => String::new(),
        },
    };
    chunk.refused(
        row,
        format_args!(
            "the first row has {columns} fields, and later ones at least {least}: flexible = true \
             would leave the others out{hint}; `names` with a name for each field keeps all of them",
        ),
    )
}
