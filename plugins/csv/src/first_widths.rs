//! With `flexible`, fields beyond those of the first row are left out. If all rows after the first have
//! such fields, the first row is not what tells the columns: then the object is refused.

use pipemill_plugin::DecodeError;

use crate::chunk::{Chunk, NextRow};
use crate::dialect::Cell;
use crate::settings::{Header, Settings};
use crate::{names, width_hint};

/// Rows that are looked at.
const ROWS: usize = 3;

/// Looks at the first rows, from `start` on. Whether they were all seen, or more bytes are needed.
///
/// # Errors
/// The first row has fewer fields than each of the others.
pub(crate) fn check(
    chunk: &Chunk,
    start: usize,
    settings: &Settings,
    cells: &mut Vec<Cell>,
) -> Result<bool, DecodeError> {
    let (mut at, mut first, mut least) = (start, None, usize::MAX);
    for _ in 0..ROWS {
        match chunk.next_row(at, cells) {
            Ok(NextRow::Whole { row, next }) => {
                if (next - start) as u64 > chunk.max_record {
                    break;
                }
                if first.is_some() {
                    least = least.min(cells.len());
                } else {
                    first = Some((row.start, cells.clone()));
                }
                at = next;
            }
            Ok(NextRow::Cut(_)) if chunk.end => break,
            Ok(NextRow::Cut(_)) => {
                let seen = (chunk.bytes.len() - start) as u64;
                if seen <= chunk.max_record {
                    return Ok(false);
                }
                break;
            }
            // The row is reported when it is decoded.
            Err(_) => break,
        }
    }
    let Some((row, first)) = first else { return Ok(true) };
    if least == usize::MAX || least <= first.len() {
        return Ok(true);
    }
    let hint = match names::of_header(chunk, &first) {
        Ok(names) if settings.header != Header::No && least == names.len() + 1 => {
            width_hint::row_names(&names)
        }
        _ => match chunk.line(row) {
            Some(line) if first.len() == 1 => width_hint::preamble(line),
            _ => String::new(),
        },
    };
    Err(chunk.refused(
        row,
        format_args!(
            "the first row has {} fields, and each of the next ones at least {least}: flexible = true \
             would leave the others out{hint}; `names` with a name for each field keeps all of them",
            first.len(),
        ),
    ))
}
