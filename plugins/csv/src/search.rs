//! Searches for the start of a row from a position that may be inside quotes.
//!
//! Three readers follow the bytes: as if the position were the start of a field, inside a field
//! without quotes, and inside quotes. **They meet** when all are in the same state, which happens
//! after a few fields of most files: a quote opens a field only at its start, so text after a quote
//! corrects a wrong reader. From there on, the next row is almost certain. **If they don't**, one
//! of them is chosen after [`VIEW`] bytes: the one that has read the fewest odd things, such as
//! rows with other numbers of columns. Both are guesses. The caller must compare a guess with the
//! position that a reader from the start reaches.

use pipemill_plugin::Resync;

use crate::dialect::{Dialect, FieldState};

/// Number of bytes after which a reader is chosen if they have not met.
const VIEW: usize = 64 << 10;
/// The possible states of the position, the most likely first.
const FIRST: [FieldState; 3] = [FieldState::Start, FieldState::Plain, FieldState::Quoted];

/// A search in one object.
#[derive(Debug)]
pub(crate) struct Search {
    /// Size of the header that the decoder gets first, in bytes.
    pub(crate) header: u64,
    /// The right reader, once it is known and until it has found a row.
    chosen: Option<Reader>,
}

impl Search {
    /// A search after a header of this many bytes.
    pub(crate) fn new(header: u64) -> Self {
        Self { header, chosen: None }
    }

    /// Continues in these bytes, which follow the consumed ones. `columns` is the number of
    /// columns, if rows have a fixed one.
    pub(crate) fn find(
        &mut self,
        dialect: &Dialect,
        columns: Option<usize>,
        chunk: &[u8],
        end: bool,
    ) -> Resync {
        if let Some(mut reader) = self.chosen.take() {
            let row = chunk.iter().position(|byte| reader.read(dialect, *byte));
            return self.row_of(reader, row, chunk.len());
        }
        let mut readers = FIRST.map(|state| Reader::new(state, columns));
        let mut rows = [None; FIRST.len()];
        let view = &chunk[..chunk.len().min(VIEW)];
        // A few bytes without quotes may be inside quotes.
        let is_whole_view = end || chunk.len() >= VIEW;
        let has_quotes = dialect.quote.is_some_and(|quote| view.contains(&quote));
        let are_lines = is_whole_view && !has_quotes;
        for (at, byte) in view.iter().enumerate() {
            for (reader, row) in readers.iter_mut().zip(&mut rows) {
                if reader.read(dialect, *byte) {
                    row.get_or_insert(at);
                }
            }
            let [first, others @ ..] = &readers;
            let met = others.iter().all(|other| other.place == first.place);
            if met || are_lines && rows[0] == Some(at) {
                let mut reader = first.clone();
                let later = |byte: &u8| reader.read(dialect, *byte);
                let row = match first.is_at_row() {
                    true => Some(at),
                    false => chunk[at + 1..].iter().position(later).map(|row| at + 1 + row),
                };
                return self.row_of(reader, row, chunk.len());
            }
        }
        if !is_whole_view {
            return Resync { consumed: 0, found: false };
        }
        let fewest = (0..FIRST.len()).min_by_key(|index| readers[*index].odd).unwrap_or(0);
        self.row_of(readers[fewest].clone(), rows[fewest], view.len())
    }

    /// The result: the row that starts after the byte at `line_end`, or that there is none in
    /// `read` bytes.
    fn row_of(&mut self, reader: Reader, line_end: Option<usize>, read: usize) -> Resync {
        match line_end {
            Some(at) => Resync { consumed: at + 1, found: true },
            None => {
                self.chosen = Some(reader);
                Resync { consumed: read, found: false }
            }
        }
    }
}

/// The position of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Field(FieldState),
    /// The next byte is text, in a field of this state.
    Escaped(FieldState),
    Comment,
}

/// Follows the rows, and counts odd things in them. Like [`Dialect::row`], but byte by byte.
#[derive(Debug, Clone)]
struct Reader {
    place: Place,
    /// Number of bytes of the row so far; not 0 in the row of which only the end was seen.
    length: usize,
    /// Number of fields of the row that have ended; `None` if only the end of it was seen.
    fields: Option<usize>,
    /// The number of columns, if rows have one. Otherwise, that of the first complete row.
    columns: Option<usize>,
    /// Number of odd things.
    odd: u32,
}

impl Reader {
    fn new(state: FieldState, columns: Option<usize>) -> Self {
        Self { place: Place::Field(state), length: 1, fields: None, columns, odd: 0 }
    }

    /// Whether the next byte starts a row.
    fn is_at_row(&self) -> bool {
        self.length == 0 && self.place == Place::Field(FieldState::Start)
    }

    /// Reads a byte. Returns whether a row starts after it.
    fn read(&mut self, dialect: &Dialect, byte: u8) -> bool {
        let ends_line = dialect.ends_line(byte);
        let state = match self.place {
            Place::Comment => return ends_line && self.end_row(false),
            Place::Escaped(state) => {
                self.length += 1;
                self.place = Place::Field(match state {
                    FieldState::Quoted => FieldState::Quoted,
                    _ => FieldState::Plain,
                });
                return false;
            }
            Place::Field(state) => state,
        };
        if self.length == 0 && Some(byte) == dialect.comment {
            self.place = Place::Comment;
            return false;
        }
        if Some(byte) == dialect.escape && dialect.escapes(state) {
            self.place = Place::Escaped(state);
            return false;
        }
        let is_quote = Some(byte) == dialect.quote;
        let next = match state {
            FieldState::Quoted if is_quote => FieldState::Closed,
            FieldState::Quoted => FieldState::Quoted,
            FieldState::Start if is_quote => FieldState::Quoted,
            FieldState::Closed if is_quote && dialect.double_quote => FieldState::Quoted,
            _ if byte == dialect.delimiter => {
                self.fields = self.fields.map(|fields| fields + 1);
                FieldState::Start
            }
            _ if ends_line => return self.end_row(true),
            FieldState::Closed if byte == b'\r' => FieldState::Closed,
            FieldState::Closed | FieldState::Plain => {
                // This is text after a closing quote, or a quote inside text.
                self.odd += u32::from(is_quote || state == FieldState::Closed);
                FieldState::Plain
            }
            FieldState::Start => FieldState::Plain,
        };
        self.length += 1;
        self.place = Place::Field(next);
        false
    }

    fn end_row(&mut self, is_row: bool) -> bool {
        // A blank line is not a row.
        if let Some(fields) = self.fields.filter(|_| is_row && self.length > 1) {
            let columns = *self.columns.get_or_insert(fields + 1);
            self.odd += u32::from(columns != fields + 1);
        }
        (self.place, self.length, self.fields) = (Place::Field(FieldState::Start), 0, Some(0));
        true
    }
}
