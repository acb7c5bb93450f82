//! Looks for the start of a row from a place on of which nobody knows whether it is in quotes.
//!
//! Three readers follow the bytes: as if the place were the start of a field, inside of a field
//! without quotes, and inside of quotes. **They meet** where all are in the same state, which is so
//! after a few fields of most files: a quote opens a field only at its start, so text after a quote
//! brings a wrong reader back. From there on, the next row is as good as certain. **If they
//! don't**, one of them is chosen after [`VIEW`] bytes: the one that has read the fewest odd
//! things, such as rows with other numbers of columns. Both are guesses. The caller must compare a
//! guess with where a reader comes to from the start.

use pipemill_plugin::Resync;

use crate::dialect::{Dialect, FieldState};

/// Bytes after which a reader is chosen if they have not met.
const VIEW: usize = 64 << 10;
/// The things that the place may be, the most likely first.
const FIRST: [FieldState; 3] = [FieldState::Start, FieldState::Plain, FieldState::Quoted];

/// A search in one object.
#[derive(Debug)]
pub(crate) struct Search {
    /// Bytes of the header that the decoder is shown before.
    pub(crate) header: u64,
    /// The reader that is right, once that was decided and as long as it has found no row.
    chosen: Option<Reader>,
}

impl Search {
    /// A search after a header of this many bytes.
    pub(crate) fn new(header: u64) -> Self {
        Self { header, chosen: None }
    }

    /// Goes on in these bytes, which come after those that were consumed. `columns` is the number of
    /// columns, if rows have one.
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
        // A few bytes without quotes may lie inside of quotes.
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

    /// The result: the row that starts after the byte at `line_end`, or else nothing in `read`
    /// bytes.
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

/// Follows the rows, and notes what is odd about them. Like [`Dialect::row`], but byte by byte.
#[derive(Debug, Clone)]
struct Reader {
    place: Place,
    /// Bytes of the row so far; not 0 in the row of which only the end was seen.
    length: usize,
    /// Fields of the row that have ended; `None` if only the end of it was seen.
    fields: Option<usize>,
    /// The number of columns, if rows have one. Without, that of the first whole row.
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

    /// Reads a byte. Whether a row starts after it.
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
                // Text after a closing quote, and a quote inside of text.
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
        // A blank line is no row.
        if let Some(fields) = self.fields.filter(|_| is_row && self.length > 1) {
            let columns = *self.columns.get_or_insert(fields + 1);
            self.odd += u32::from(columns != fields + 1);
        }
        (self.place, self.length, self.fields) = (Place::Field(FieldState::Start), 0, Some(0));
        true
    }
}
