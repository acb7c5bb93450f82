//! The rules that split text into rows and fields, and the reference reader: a state machine that
//! reads one row byte by byte. This file defines the format. `scan.rs` and `fast_path.rs` must give
//! the same result, faster.

/// The bytes that have a meaning according to the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) delimiter: u8,
    pub(crate) quote: Option<u8>,
    pub(crate) escape: Option<u8>,
    /// Whether two quotes in a quoted field mean one quote.
    pub(crate) double_quote: bool,
    pub(crate) comment: Option<u8>,
    /// Whether a CR without LF ends a row.
    pub(crate) lone_cr: bool,
    /// Whether the point of numbers is a comma.
    pub(crate) decimal_comma: bool,
    /// Whether text may follow a closing quote: so when nobody reads the fields and only the ends
    /// of rows matter.
    pub(crate) text_after_quote: bool,
}

/// A field of a row: a range of the chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Whether the range is the field as it is written, with its quotes and escapes:
    /// [`Dialect::unescape`] makes the value. If not, the range is the value.
    pub(crate) raw: bool,
}

impl Cell {
    #[inline(always)]
    pub(crate) fn new(start: usize, end: usize, raw: bool) -> Self {
        // The value fits: the interface has no larger offsets, either.
        Self { start: start as u32, end: end as u32, raw }
    }
    #[inline(always)]
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// How a row ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RowEnd {
    /// The row ends at `end`, without its line end. The next line starts at `next`.
    Whole { end: usize, next: usize },
    /// The line is blank or a comment, so it is not a row. `end` and `next` are as for `Whole`.
    NoRow { end: usize, next: usize },
    /// The chunk ends before the row does.
    Cut,
    /// The input ends inside the quoted field whose quote is at `quote`.
    Unclosed { quote: usize },
    /// The input ends after the escape at `escape`.
    Dangling { escape: usize },
    /// Text follows a closing quote: `text` is its first byte that is not blank.
    AfterQuote { text: usize },
}

/// Number of LFs.
pub(crate) fn count_lf(bytes: &[u8]) -> u64 {
    // A group of 192 bytes has a count that fits into a u8. That lets the compiler vectorize the
    // loop.
    let count = |group: &[u8]| group.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>();
    bytes.chunks(192).map(|group| u64::from(count(group))).sum()
}

/// The state of the reader within a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldState {
    /// At the first byte.
    Start,
    /// In a field without quotes, or in text after a closing quote.
    Plain,
    /// Between the quotes.
    Quoted,
    /// After a quote in a quoted field: it closed the field, or is the first of two.
    Closed,
}

impl Dialect {
    #[inline(always)]
    pub(crate) fn ends_line(&self, byte: u8) -> bool {
        byte == b'\n' || (self.lone_cr && byte == b'\r')
    }

    /// Offset of the first line end at or after `at`, in quotes or not.
    pub(crate) fn line_end(&self, chunk: &[u8], at: usize) -> Option<usize> {
        chunk[at..].iter().position(|byte| self.ends_line(*byte)).map(|i| at + i)
    }

    /// Number of line ends in `bytes`. `after_cr` says whether the byte before them is a CR, and is
    /// set to whether their last byte is one: with `lone_cr`, CR LF is one line end.
    pub(crate) fn count_lines(&self, bytes: &[u8], after_cr: &mut bool) -> u64 {
        if !self.lone_cr {
            return count_lf(bytes);
        }
        let mut lines = 0;
        for byte in bytes {
            lines += u64::from(*byte == b'\r' || (*byte == b'\n' && !*after_cr));
            *after_cr = *byte == b'\r';
        }
        lines
    }

    /// Reads the row that starts at `start`, and puts its fields into `cells`. With `end`, no byte
    /// follows the chunk.
    pub(crate) fn row(
        &self,
        chunk: &[u8],
        start: usize,
        end: bool,
        cells: &mut Vec<Cell>,
    ) -> RowEnd {
        cells.clear();
        if self.comment.is_some() && chunk.get(start).copied() == self.comment {
            return match self.line_end(chunk, start) {
                Some(at) => RowEnd::NoRow { end: self.trim_cr(chunk, start, at), next: at + 1 },
                None if end => RowEnd::NoRow { end: chunk.len(), next: chunk.len() },
                None => RowEnd::Cut,
            };
        }
        let mut reader = RowReader {
            field: start,
            state: FieldState::Start,
            raw: false,
            quote: start,
            escaped_to: start,
        };
        let mut at = start;
        while let Some(&byte) = chunk.get(at) {
            if reader.state == FieldState::Closed
                && let Some(text) = self.text_after_quote(chunk, at)
            {
                return RowEnd::AfterQuote { text };
            }
            if Some(byte) == self.escape && self.escapes(reader.state) {
                if at + 1 == chunk.len() {
                    return if end { RowEnd::Dangling { escape: at } } else { RowEnd::Cut };
                }
                at += 2;
                reader.escaped(at);
                continue;
            }
            let is_quote = Some(byte) == self.quote;
            match reader.state {
                FieldState::Quoted if is_quote => reader.state = FieldState::Closed,
                FieldState::Quoted => {}
                FieldState::Start if is_quote => {
                    (reader.state, reader.quote) = (FieldState::Quoted, at);
                }
                FieldState::Closed if is_quote && self.double_quote => {
                    (reader.state, reader.raw) = (FieldState::Quoted, true);
                }
                _ if byte == self.delimiter => {
                    cells.push(reader.cell(at));
                    reader.next_field(at + 1);
                }
                _ if self.ends_line(byte) => return self.end_row(chunk, start, at, &reader, cells),
                // The CR of a line end. Any other CR after a closing quote is text.
                FieldState::Closed
                    if byte == b'\r' && chunk.get(at + 1).is_none_or(|next| *next == b'\n') => {}
                // Blanks after a closing quote are part of the field.
                _ => {
                    reader.raw |= reader.state == FieldState::Closed;
                    reader.state = FieldState::Plain;
                }
            }
            at += 1;
        }
        if !end {
            return RowEnd::Cut;
        }
        if reader.state == FieldState::Quoted {
            return RowEnd::Unclosed { quote: reader.quote };
        }
        self.end_row(chunk, start, at, &reader, cells)
    }

    /// The position of text that follows a closing quote directly before `at`: the first byte that
    /// is not blank, if it does not end the field. It is `None` also if that byte is not in the
    /// chunk.
    fn text_after_quote(&self, chunk: &[u8], at: usize) -> Option<usize> {
        if self.text_after_quote || self.double_quote && Some(chunk[at]) == self.quote {
            return None;
        }
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t') && *byte != self.delimiter;
        let blanks = chunk[at..].iter().take_while(|byte| is_blank(byte)).count();
        let (text, rest) = (at + blanks, &chunk[at + blanks..]);
        match rest {
            [] | [b'\r'] | [b'\r', b'\n', ..] => None,
            [byte, ..] if *byte == self.delimiter || self.ends_line(*byte) => None,
            _ => Some(text),
        }
    }

    /// Whether the escape byte escapes in this state. As in Python's `csv`, it is text directly
    /// after a closing quote if two quotes mean one.
    pub(crate) fn escapes(&self, state: FieldState) -> bool {
        state != FieldState::Closed || !self.double_quote
    }

    /// `at`, or the offset of a CR directly before it, which then belongs to the line end.
    fn trim_cr(&self, chunk: &[u8], from: usize, at: usize) -> usize {
        at - usize::from(at > from && chunk[at - 1] == b'\r' && !self.lone_cr)
    }

    /// Ends the row at `at`, which is its line end or the end of the input.
    fn end_row(
        &self,
        chunk: &[u8],
        start: usize,
        at: usize,
        reader: &RowReader,
        cells: &mut Vec<Cell>,
    ) -> RowEnd {
        let next = chunk.len().min(at + 1);
        let end = self.trim_cr(chunk, reader.field.max(reader.escaped_to), at);
        if end == start {
            return RowEnd::NoRow { end, next };
        }
        cells.push(reader.cell(end));
        RowEnd::Whole { end, next }
    }

    /// Appends the value of a field that is written as `raw`.
    pub(crate) fn unescape(&self, raw: &[u8], value: &mut Vec<u8>) {
        let mut state = FieldState::Start;
        let mut bytes = raw.iter().copied();
        while let Some(byte) = bytes.next() {
            if Some(byte) == self.escape && self.escapes(state) {
                value.extend(bytes.next());
                if state != FieldState::Quoted {
                    state = FieldState::Plain;
                }
                continue;
            }
            let is_quote = Some(byte) == self.quote;
            match state {
                FieldState::Start if is_quote => state = FieldState::Quoted,
                FieldState::Quoted if is_quote => state = FieldState::Closed,
                _ => {
                    value.push(byte);
                    state = match state {
                        FieldState::Quoted => FieldState::Quoted,
                        FieldState::Closed if is_quote && self.double_quote => FieldState::Quoted,
                        _ => FieldState::Plain,
                    };
                }
            }
        }
    }
}

/// The state of the reader within a row.
struct RowReader {
    /// Start of the field.
    field: usize,
    state: FieldState,
    /// Whether the value of the field differs from its bytes: it has escapes or doubled quotes, or
    /// text after a closing quote.
    raw: bool,
    /// Start of the last quoted field.
    quote: usize,
    /// The end of the last escape. An escaped CR is text, so it never belongs to a line end.
    escaped_to: usize,
}

impl RowReader {
    fn escaped(&mut self, next: usize) {
        self.raw = true;
        self.escaped_to = next;
        if self.state != FieldState::Quoted {
            self.state = FieldState::Plain;
        }
    }

    fn next_field(&mut self, start: usize) {
        (self.field, self.state, self.raw) = (start, FieldState::Start, false);
    }

    /// The field that ends at `end`.
    fn cell(&self, end: usize) -> Cell {
        if self.state == FieldState::Closed && !self.raw {
            Cell::new(self.field + 1, end - 1, false)
        } else {
            Cell::new(self.field, end, self.raw)
        }
    }
}
