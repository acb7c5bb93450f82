//! A chunk and what line of the object it starts with: careful rows, and errors that say where.

use std::ops::Range;

use pipemill_plugin::{DecodeError, Resume};

use crate::dialect::{Cell, Dialect, Row, count_lf};

/// Bytes of a value that a message shows.
const SHOWN: usize = 40;

/// A chunk on its way.
pub(crate) struct Chunk<'a> {
    pub(crate) bytes: &'a [u8],
    /// Whether no byte follows it.
    pub(crate) end: bool,
    pub(crate) dialect: Dialect,
    /// Largest row, in bytes, its line end left out.
    pub(crate) max_record: u64,
    /// Number of the line that the chunk starts in, from 1.
    pub(crate) line: u64,
    /// Whether a CR stands before the chunk.
    pub(crate) after_cr: bool,
}

/// LFs counted on the way through a chunk, so that it need not be gone through for that alone. Means
/// nothing with `lone_cr`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    /// In the bytes before this place,
    pub(crate) to: usize,
    /// there are this many.
    pub(crate) lines: u64,
}

impl Counted {
    /// How many there are before `at`, which is best a place nearby.
    pub(crate) fn up_to(self, bytes: &[u8], at: usize) -> u64 {
        if at < self.to {
            self.lines - count_lf(&bytes[at..self.to])
        } else {
            self.lines + count_lf(&bytes[self.to..at])
        }
    }
}

/// The first row from a place on.
pub(crate) enum NextRow {
    /// It lies here; the one behind it starts at `next`.
    Whole { row: Range<usize>, next: usize },
    /// It starts here or later, and does not lie whole in the chunk.
    Cut(usize),
}

impl Chunk<'_> {
    /// Looks for a row from `at` on, past blank lines and comments, and leaves its fields in `cells`.
    pub(crate) fn next_row(
        &self,
        mut at: usize,
        cells: &mut Vec<Cell>,
    ) -> Result<NextRow, DecodeError> {
        loop {
            if at == self.bytes.len() {
                return Ok(NextRow::Cut(at));
            }
            match self.dialect.row(self.bytes, at, self.end, cells) {
                Row::Whole { end, next } => {
                    self.check_length(at..end)?;
                    return Ok(NextRow::Whole { row: at..end, next });
                }
                Row::Nothing { end, next } => {
                    self.check_length(at..end)?;
                    at = next;
                }
                Row::Cut => return self.check_cut(at).map(|()| NextRow::Cut(at)),
                Row::Unclosed { quote } => {
                    self.check_length(at..self.bytes.len())?;
                    let opened = self.line(quote);
                    return Err(self.fatal(at, format_args!(
                        "expected a closing quote for the one opened in line {opened}, found the end \
                         of the input"
                    )));
                }
                Row::Dangling { escape } => {
                    self.check_length(at..self.bytes.len())?;
                    let line = self.line(escape);
                    return Err(self.fatal(at, format_args!(
                        "expected a byte behind the escape in line {line}, found the end of the input"
                    )));
                }
            }
        }
    }

    /// The line in which `at` stands.
    pub(crate) fn line(&self, at: usize) -> u64 {
        let mut after_cr = self.after_cr;
        self.line + self.dialect.count_lines(&self.bytes[..at], &mut after_cr)
    }

    /// An error of the row that starts at `row`; the next one starts at `next`.
    #[cold]
    pub(crate) fn error(
        &self,
        row: usize,
        what: impl std::fmt::Display,
        next: usize,
    ) -> DecodeError {
        DecodeError::skippable(row, format!("line {}{what}", self.line(row)), next as u64)
    }

    /// An error of the row that starts at `row`, behind which no row can be found.
    #[cold]
    pub(crate) fn fatal(&self, row: usize, what: impl std::fmt::Display) -> DecodeError {
        DecodeError::fatal(row, format!("line {}: {what}", self.line(row)))
    }

    /// Refuses a row that is larger than a record may be.
    #[inline(always)]
    pub(crate) fn check_length(&self, row: Range<usize>) -> Result<(), DecodeError> {
        if row.len() as u64 <= self.max_record { Ok(()) } else { Err(self.too_long(row.start)) }
    }

    /// Refuses a row that is larger than a record may be, even though its end is not in view: the
    /// line end may take two bytes.
    pub(crate) fn check_cut(&self, row: usize) -> Result<(), DecodeError> {
        let seen = (self.bytes.len() - row) as u64;
        if seen <= self.max_record.saturating_add(1) { Ok(()) } else { Err(self.too_long(row)) }
    }

    /// The next row is looked for behind the next line end, quoted or not: the row may be so long
    /// because a quote was never closed.
    #[cold]
    fn too_long(&self, row: usize) -> DecodeError {
        let from = row + self.max_record as usize;
        let resume = match self.dialect.line_end(self.bytes, from) {
            Some(at) => Resume::At(at as u64 + 1),
            None => Resume::Scan(from as u64),
        };
        let message = format!(
            "line {}: the row is larger than max_record ({} bytes); a quote may have been left open",
            self.line(row),
            self.max_record
        );
        DecodeError { offset: row, message, resume }
    }
}

/// A value for a message: escaped and shortened.
pub(crate) fn shown(value: &[u8]) -> String {
    match value.get(..SHOWN) {
        Some(head) if value.len() > SHOWN => format!("\"{}…\"", head.escape_ascii()),
        _ => format!("\"{}\"", value.escape_ascii()),
    }
}
