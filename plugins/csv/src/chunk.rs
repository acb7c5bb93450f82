//! A chunk with its position in the object, for rows that are read one by one and for errors that
//! name their line.

use std::ops::Range;

use pipemill_plugin::{DecodeError, Resume};

use crate::dialect::{Cell, Dialect, RowEnd, count_lf};
use crate::quote_hint;

/// Number of bytes of a value that a message shows.
const MAX_SHOWN: usize = 40;

/// A chunk, the rules for its rows, and its position in the object.
pub(crate) struct Chunk<'a> {
    pub(crate) bytes: &'a [u8],
    /// Whether no byte follows the chunk.
    pub(crate) end: bool,
    pub(crate) dialect: Dialect,
    /// Largest row in bytes, without its line end.
    pub(crate) max_record: u64,
    /// Number of the line that the chunk starts in, from 1. 0 if decoding began inside the object,
    /// because the lines before it were not counted.
    pub(crate) line: u64,
    /// Whether the byte before the chunk is a CR.
    pub(crate) after_cr: bool,
}

/// The count of LFs in a part of the chunk. The scanner and the fast path count them as they go, so
/// that line numbers need no second pass over the bytes. It has no meaning with `lone_cr`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LineCount {
    /// The bytes before this offset are counted.
    pub(crate) to: usize,
    /// Number of LFs in these bytes.
    pub(crate) lines: u64,
}

impl LineCount {
    /// Number of LFs before `at`. The cost is proportional to the distance of `at` and `to`.
    pub(crate) fn up_to(self, bytes: &[u8], at: usize) -> u64 {
        if at < self.to {
            self.lines - count_lf(&bytes[at..self.to])
        } else {
            self.lines + count_lf(&bytes[self.to..at])
        }
    }
}

/// The result of [`Chunk::next_row`].
pub(crate) enum NextRow {
    /// The row, without its line end. The next line starts at `next`.
    Whole { row: Range<usize>, next: usize },
    /// The chunk ends before the row does. All lines before this offset are blank lines or
    /// comments.
    Cut(usize),
}

impl Chunk<'_> {
    /// Reads the first row from `at` on, byte by byte. Skips blank lines and comments. Puts the
    /// fields of the row into `cells`.
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
                RowEnd::Whole { end, next } => {
                    self.check_length(at..end)?;
                    return Ok(NextRow::Whole { row: at..end, next });
                }
                RowEnd::NoRow { end, next } => {
                    self.check_length(at..end)?;
                    at = next;
                }
                RowEnd::Cut => return self.check_cut(at).map(|()| NextRow::Cut(at)),
                RowEnd::Unclosed { quote } => {
                    self.check_length(at..self.bytes.len())?;
                    let place = self.shown_line(quote);
                    let hint = quote_hint::of_open_quote(&self.dialect, &self.bytes[at..]);
                    return Err(self.fatal(at, format_args!(
                        "expected a closing quote for the one opened{place}, found the end of the \
                         input{hint}"
                    )));
                }
                RowEnd::AfterQuote { text } => {
                    self.check_length(at..text)?;
                    return Err(self.after_quote(at, text));
                }
                RowEnd::Dangling { escape } => {
                    self.check_length(at..self.bytes.len())?;
                    let place = match self.line(escape) {
                        Some(line) => format!("in line {line}"),
                        None => format!("{} bytes after the start of the row", escape - at),
                    };
                    return Err(self.fatal(
                        at,
                        format_args!(
                            "expected a byte after the escape {place}, found the end of the input"
                        ),
                    ));
                }
            }
        }
    }

    /// The position of text that follows a closing quote in the row at `row`, if there is such
    /// text.
    pub(crate) fn text_after_quote(&self, row: usize, cells: &mut Vec<Cell>) -> Option<usize> {
        match self.dialect.row(self.bytes, row, self.end, cells) {
            RowEnd::AfterQuote { text } => Some(text),
            _ => None,
        }
    }

    /// The refusal of a row in which the byte at `text` follows a closing quote.
    #[cold]
    fn after_quote(&self, row: usize, text: usize) -> DecodeError {
        let line = match self.line(text).filter(|line| Some(*line) != self.line(row)) {
            Some(line) => format!(" in line {line}"),
            None => String::new(),
        };
        // Only the bytes before the text are certainly in the chunk.
        let from = row.max((text + 1).saturating_sub(MAX_SHOWN));
        let more = if from > row { "…" } else { "" };
        let seen = self.bytes[from..=text].escape_ascii();
        let hint = quote_hint::of_text_after_quote(&self.dialect, &self.bytes[row..=text]);
        self.refused(
            row,
            format_args!(
                "expected a delimiter or a line end after a closing quote{line}, found text after \
                 it: \"{more}{seen}\"{hint}"
            ),
        )
    }

    /// The end of the row that starts at `row`, without its line end, if the next line starts at
    /// `next`.
    pub(crate) fn row_end(&self, row: usize, next: usize) -> usize {
        let text = self.bytes[row..next].strip_suffix(b"\n").unwrap_or(&self.bytes[row..next]);
        row + text.strip_suffix(b"\r").unwrap_or(text).len()
    }

    /// Number of the line that contains the offset `at`, from 1, if lines were counted.
    pub(crate) fn line(&self, at: usize) -> Option<u64> {
        let mut after_cr = self.after_cr;
        let lines = || self.dialect.count_lines(&self.bytes[..at], &mut after_cr);
        (self.line > 0).then(lines).map(|lines| self.line + lines)
    }

    /// The line that contains the offset `at`, for a message; empty if lines were not counted.
    fn shown_line(&self, at: usize) -> String {
        self.line(at).map_or(String::new(), |line| format!(" in line {line}"))
    }

    /// A message about the row at `row`, after the number of its line.
    fn at_line(&self, row: usize, separator: &str, message: impl std::fmt::Display) -> String {
        match self.line(row) {
            Some(line) => format!("line {line}{separator}{message}"),
            None => message.to_string(),
        }
    }

    /// An error of the row at `row`. The next row starts at `next`. `message` follows the line
    /// number and the separator.
    #[cold]
    pub(crate) fn error(
        &self,
        row: usize,
        separator: &str,
        message: impl std::fmt::Display,
        next: usize,
    ) -> DecodeError {
        DecodeError::skippable(row, self.at_line(row, separator, message), next as u64)
    }

    /// An error of the row at `row`, after which no row can be found.
    #[cold]
    pub(crate) fn fatal(&self, row: usize, message: impl std::fmt::Display) -> DecodeError {
        DecodeError::fatal(row, self.at_line(row, ": ", message))
    }

    /// The refusal of an input, at the row at `row`, that does not fit the options.
    #[cold]
    pub(crate) fn refused(&self, row: usize, message: impl std::fmt::Display) -> DecodeError {
        DecodeError::refused(row, self.at_line(row, ": ", message))
    }

    /// Refuses a row that is larger than `max_record`.
    #[inline(always)]
    pub(crate) fn check_length(&self, row: Range<usize>) -> Result<(), DecodeError> {
        if row.len() as u64 <= self.max_record { Ok(()) } else { Err(self.too_long(row.start)) }
    }

    /// Refuses a row that is larger than `max_record` although its end is not in the chunk. The
    /// last byte of the chunk may be the CR of its line end, so one more byte is allowed.
    pub(crate) fn check_cut(&self, row: usize) -> Result<(), DecodeError> {
        let seen = (self.bytes.len() - row) as u64;
        if seen <= self.max_record.saturating_add(1) { Ok(()) } else { Err(self.too_long(row)) }
    }

    /// The error of a row that is too long. Decoding continues after the next line end, even one in
    /// quotes: the row may be so long because a quote was never closed.
    #[cold]
    fn too_long(&self, row: usize) -> DecodeError {
        let from = row + self.max_record as usize;
        let resume = match self.dialect.line_end(self.bytes, from) {
            Some(at) => Resume::At(at as u64 + 1),
            None => Resume::Scan(from as u64),
        };
        let hint = quote_hint::of_long_row(&self.dialect, &self.bytes[row..from]);
        let message =
            format!("the row is larger than max_record ({} bytes); {hint}", self.max_record);
        let message = self.at_line(row, ": ", message);
        DecodeError { offset: row, message, resume }
    }
}

/// A value for a message: escaped and shortened.
pub(crate) fn shown(value: &[u8]) -> String {
    match value.get(..MAX_SHOWN) {
        Some(head) if value.len() > MAX_SHOWN => format!("\"{}…\"", head.escape_ascii()),
        _ => format!("\"{}\"", value.escape_ascii()),
    }
}

/// The value of a field: a part of the chunk, or in `buffer` for a raw field.
#[inline(always)]
pub(crate) fn value<'a>(chunk: &Chunk<'a>, cell: Cell, buffer: &'a mut Vec<u8>) -> &'a [u8] {
    let text = &chunk.bytes[cell.range()];
    if !cell.raw {
        return text;
    }
    buffer.clear();
    chunk.dialect.unescape(text, buffer);
    buffer
}
