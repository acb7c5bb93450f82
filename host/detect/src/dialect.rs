//! How `csv` splits text into rows and fields, by the options that the user has given: detection
//! reads an object as the decoder will.

/// The options of `csv` that matter for rows and fields. Options with invalid values are ignored:
/// the decoder reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dialect {
    /// The delimiter, if it was given.
    pub(super) delimiter: Option<u8>,
    pub(super) quote: Option<u8>,
    pub(super) double_quote: bool,
    pub(super) escape: Option<u8>,
    pub(super) comment: Option<u8>,
    pub(super) lone_cr: bool,
    pub(super) flexible: bool,
    /// Number of lines above the table.
    pub(super) skip_rows: usize,
    /// Whether the first rows show if there is a header.
    pub(super) finds_header: bool,
}

impl Default for Dialect {
    fn default() -> Self {
        Self::of(&[])
    }
}

impl Dialect {
    /// The dialect for these options.
    pub(super) fn of(options: &[(String, String)]) -> Self {
        let value = |name: &str| {
            options.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
        };
        let byte = |name: &str, default: Option<u8>| match value(name) {
            None => default,
            Some("tab" | "\\t") => Some(b'\t'),
            Some(text) => match text.as_bytes() {
                [byte] => Some(*byte),
                _ => None,
            },
        };
        let is = |name: &str, wanted: &str| value(name) == Some(wanted);
        Self {
            delimiter: byte("delimiter", None),
            quote: byte("quote", Some(b'"')),
            double_quote: !is("double_quote", "false"),
            escape: byte("escape", None),
            comment: byte("comment", None),
            lone_cr: is("lone_cr", "true"),
            flexible: is("flexible", "true"),
            skip_rows: value("skip_rows").and_then(|lines| lines.parse().ok()).unwrap_or(0),
            finds_header: value("header").is_none_or(|header| header == "auto")
                && value("names").is_none(),
        }
    }
}

impl Dialect {
    fn ends_line(&self, byte: u8, next: Option<u8>) -> bool {
        byte == b'\n' || self.lone_cr && byte == b'\r' && next != Some(b'\n')
    }

    /// The bytes of the lines above the table.
    pub(super) fn skipped(&self, text: &[u8]) -> usize {
        let ends_line = |at: &usize| self.ends_line(text[*at], text.get(at + 1).copied());
        match self.skip_rows.checked_sub(1) {
            None => 0,
            Some(last) => {
                (0..text.len()).filter(ends_line).nth(last).map_or(text.len(), |at| at + 1)
            }
        }
    }
}

/// The rows of a text.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// The number of fields of each row.
    pub(super) widths: Vec<usize>,
    /// The number of lines before each row.
    pub(super) lines: Vec<usize>,
    /// The place of the first row.
    pub(super) first: std::ops::Range<usize>,
    /// Whether the text ends inside quotes.
    pub(super) is_open: bool,
    /// Whether text other than blanks follows a closing quote.
    pub(super) has_text_after_quote: bool,
}

impl Rows {
    /// The rows of a text with this delimiter. `whole` says that no byte follows; otherwise the
    /// last row, which may continue, is left out.
    pub(super) fn of(text: &[u8], whole: bool, delimiter: u8, dialect: &Dialect) -> Self {
        let mut rows = Self::default();
        let mut at = dialect.skipped(text);
        let mut lines = dialect.skip_rows;
        let mut row = Row { line: lines, ..Row::at(at) };
        while let Some(&byte) = text.get(at) {
            let next = text.get(at + 1).copied();
            at += 1;
            let ends_line = dialect.ends_line(byte, next);
            lines += usize::from(ends_line);
            if ends_line && row.state != State::Quoted {
                rows.end(&row, at - 1);
                row = Row { line: lines, ..Row::at(at) };
                continue;
            }
            let is_cr_of_line_end = byte == b'\r' && next.is_none_or(|next| next == b'\n');
            if is_cr_of_line_end && row.state != State::Quoted {
                continue;
            }
            if Some(byte) == dialect.escape && row.state != State::Comment {
                at += 1;
                row.bytes += 1;
                row.leave_start();
                continue;
            }
            rows.has_text_after_quote |= row.read(byte, next, &mut at, delimiter, dialect);
        }
        rows.is_open = row.state == State::Quoted;
        if whole && !rows.is_open {
            rows.end(&row, text.len());
        }
        rows
    }

    fn end(&mut self, row: &Row, end: usize) {
        // A blank line or a comment is not a row.
        if row.bytes == 0 {
            return;
        }
        if self.widths.is_empty() {
            self.first = row.start..end;
        }
        self.widths.push(row.fields);
        self.lines.push(row.line);
    }

    /// The number of fields that all rows have.
    pub(super) fn uniform(&self) -> Option<usize> {
        let (first, rest) = self.widths.split_first()?;
        rest.iter().all(|width| width == first).then_some(*first)
    }

    /// The number of columns, if these are at least two rows of a table with at least two columns.
    pub(super) fn table(&self) -> Option<usize> {
        self.uniform().filter(|columns| self.widths.len() >= 2 && *columns >= 2)
    }

    /// The number of rows above a table, and its columns: the rows from there on have the same
    /// number of fields, and all rows above have fewer.
    pub(super) fn above_table(&self) -> Option<(usize, usize)> {
        let columns = *self.widths.last().filter(|columns| **columns >= 2)?;
        let above = self.widths.iter().rposition(|width| *width != columns)? + 1;
        let is_table = self.widths.len() >= above + 2;
        let are_fewer = self.widths[..above].iter().all(|width| *width < columns);
        (is_table && are_fewer).then_some((above, columns))
    }
}

/// The state of the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the first byte of a field.
    Start,
    Plain,
    Quoted,
    /// After a closing quote.
    Closed,
    Comment,
}

/// The row that is being read.
struct Row {
    start: usize,
    line: usize,
    fields: usize,
    /// Bytes of the row, without its line end.
    bytes: usize,
    state: State,
}

impl Row {
    fn at(start: usize) -> Self {
        Self { start, line: 0, fields: 1, bytes: 0, state: State::Start }
    }

    fn leave_start(&mut self) {
        if self.state == State::Start {
            self.state = State::Plain;
        }
    }

    /// Reads a byte that neither ends a line nor escapes the next one. `at` is the offset after it,
    /// and advances past a quote that belongs to it. Returns whether it is text after a closing
    /// quote.
    fn read(
        &mut self,
        byte: u8,
        next: Option<u8>,
        at: &mut usize,
        delimiter: u8,
        dialect: &Dialect,
    ) -> bool {
        let is_quote = Some(byte) == dialect.quote;
        if self.bytes == 0 && self.state == State::Start && Some(byte) == dialect.comment {
            self.state = State::Comment;
        }
        match self.state {
            State::Comment => return false,
            State::Quoted if is_quote && dialect.double_quote && next == dialect.quote => *at += 1,
            State::Quoted if is_quote => self.state = State::Closed,
            State::Quoted => {}
            State::Start if is_quote => self.state = State::Quoted,
            _ if byte == delimiter => {
                self.fields += 1;
                self.state = State::Start;
            }
            State::Closed if matches!(byte, b' ' | b'\t') => {}
            State::Closed => {
                (self.state, self.bytes) = (State::Plain, self.bytes + 1);
                return true;
            }
            State::Start | State::Plain => self.state = State::Plain,
        }
        self.bytes += 1;
        false
    }
}
