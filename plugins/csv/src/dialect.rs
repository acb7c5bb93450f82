//! How text is cut into rows and fields, and the careful way through one row, byte by byte. This is
//! what defines the format; `scan.rs` gives the same answers faster.

/// The bytes that mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) delimiter: u8,
    pub(crate) quote: Option<u8>,
    pub(crate) escape: Option<u8>,
    /// Whether two quotes in a quoted field stand for one.
    pub(crate) double_quote: bool,
    pub(crate) comment: Option<u8>,
    /// Whether a CR alone ends a row.
    pub(crate) lone_cr: bool,
}

/// A field: a part of the chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Whether the part is what stands in the file, quotes and all, and the value has to be made of it
    /// by [`Dialect::unescape`]. Else the part is the value.
    pub(crate) raw: bool,
}

impl Cell {
    #[inline(always)]
    pub(crate) fn new(start: usize, end: usize, raw: bool) -> Self {
        // A span holds no more than 32 bits either: chunks are smaller than 4 GiB.
        Self { start: start as u32, end: end as u32, raw }
    }
    #[inline(always)]
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// What stands at the start of a row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Row {
    /// A row up to `end`, its line end excluded; the next one starts at `next`.
    Whole { end: usize, next: usize },
    /// The same of a line that is no row: blank, or a comment.
    Nothing { end: usize, next: usize },
    /// The chunk ends before the row does.
    Cut,
    /// The input ends in a quoted field that opened here.
    Unclosed { quote: usize },
    /// The input ends behind an escape, which stands here.
    Dangling { escape: usize },
}

/// How many LFs there are.
pub(crate) fn count_lf(bytes: &[u8]) -> u64 {
    // In lots that a byte counts: this keeps the inner loop in registers.
    let lot = |lot: &[u8]| lot.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>();
    bytes.chunks(192).map(|bytes| u64::from(lot(bytes))).sum()
}

/// Where in a field the next byte stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Plain,
    Quoted,
    /// Behind a quote in a quoted field: it closed the field, or is the first of two.
    Closed,
}

impl Dialect {
    #[inline(always)]
    pub(crate) fn ends_line(&self, byte: u8) -> bool {
        byte == b'\n' || (self.lone_cr && byte == b'\r')
    }

    /// Index of the first line end at or behind `at`, whatever stands around it.
    pub(crate) fn line_end(&self, chunk: &[u8], at: usize) -> Option<usize> {
        chunk[at..].iter().position(|byte| self.ends_line(*byte)).map(|i| at + i)
    }

    /// How many lines end in these bytes. `after_cr` says whether a CR stood before them, and then
    /// whether one ends them: with `lone_cr`, CR LF is one line end.
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

    /// Looks at the row that starts at `start`, and leaves its fields in `cells`.
    pub(crate) fn row(&self, chunk: &[u8], start: usize, end: bool, cells: &mut Vec<Cell>) -> Row {
        cells.clear();
        if self.comment.is_some() && chunk.get(start).copied() == self.comment {
            return match self.line_end(chunk, start) {
                Some(at) => Row::Nothing { end: self.trim_cr(chunk, start, at), next: at + 1 },
                None if end => Row::Nothing { end: chunk.len(), next: chunk.len() },
                None => Row::Cut,
            };
        }
        let mut walk =
            Walk { field: start, state: State::Start, raw: false, quote: start, kept: start };
        let mut at = start;
        while let Some(&byte) = chunk.get(at) {
            if Some(byte) == self.escape && self.escapes(walk.state) {
                if at + 1 == chunk.len() {
                    return if end { Row::Dangling { escape: at } } else { Row::Cut };
                }
                at += 2;
                walk.escaped(at);
                continue;
            }
            let is_quote = Some(byte) == self.quote;
            match walk.state {
                State::Quoted if is_quote => walk.state = State::Closed,
                State::Quoted => {}
                State::Start if is_quote => (walk.state, walk.quote) = (State::Quoted, at),
                State::Closed if is_quote && self.double_quote => {
                    (walk.state, walk.raw) = (State::Quoted, true);
                }
                _ if byte == self.delimiter => {
                    cells.push(walk.cell(at));
                    walk.next_field(at + 1);
                }
                _ if self.ends_line(byte) => return self.end_row(chunk, start, at, &walk, cells),
                // The CR of a line end. Any other behind a closing quote is text.
                State::Closed
                    if byte == b'\r' && chunk.get(at + 1).is_none_or(|next| *next == b'\n') => {}
                // Text behind a closing quote is part of the field, and quotes in it are text too.
                _ => {
                    walk.raw |= walk.state == State::Closed;
                    walk.state = State::Plain;
                }
            }
            at += 1;
        }
        if !end {
            return Row::Cut;
        }
        if walk.state == State::Quoted {
            return Row::Unclosed { quote: walk.quote };
        }
        self.end_row(chunk, start, at, &walk, cells)
    }

    /// Whether an escape means something here. As for Python, it is text right behind a closing quote,
    /// where two quotes stand for one.
    fn escapes(&self, state: State) -> bool {
        state != State::Closed || !self.double_quote
    }

    /// `at`, or the place of the CR right before it, which belongs to the line end then.
    fn trim_cr(&self, chunk: &[u8], from: usize, at: usize) -> usize {
        at - usize::from(at > from && chunk[at - 1] == b'\r' && !self.lone_cr)
    }

    /// The row whose line end stands at `at`, or which the end of the input ends there.
    fn end_row(
        &self,
        chunk: &[u8],
        start: usize,
        at: usize,
        walk: &Walk,
        cells: &mut Vec<Cell>,
    ) -> Row {
        let next = chunk.len().min(at + 1);
        let end = self.trim_cr(chunk, walk.field.max(walk.kept), at);
        if end == start {
            return Row::Nothing { end, next };
        }
        cells.push(walk.cell(end));
        Row::Whole { end, next }
    }

    /// Appends the value of a field that stands in the file as `raw`.
    pub(crate) fn unescape(&self, raw: &[u8], value: &mut Vec<u8>) {
        let mut state = State::Start;
        let mut bytes = raw.iter().copied();
        while let Some(byte) = bytes.next() {
            if Some(byte) == self.escape && self.escapes(state) {
                value.extend(bytes.next());
                if state != State::Quoted {
                    state = State::Plain;
                }
                continue;
            }
            let is_quote = Some(byte) == self.quote;
            match state {
                State::Start if is_quote => state = State::Quoted,
                State::Quoted if is_quote => state = State::Closed,
                _ => {
                    value.push(byte);
                    state = match state {
                        State::Quoted => State::Quoted,
                        State::Closed if is_quote && self.double_quote => State::Quoted,
                        _ => State::Plain,
                    };
                }
            }
        }
    }
}

/// The way through a row, so far.
struct Walk {
    /// Where the field starts.
    field: usize,
    state: State,
    /// Whether its value is other than a part of the chunk.
    raw: bool,
    /// Where its quote opened, if it has one.
    quote: usize,
    /// Behind the last escaped byte, which is no line end even if it looks like one.
    kept: usize,
}

impl Walk {
    fn escaped(&mut self, next: usize) {
        self.raw = true;
        self.kept = next;
        if self.state != State::Quoted {
            self.state = State::Plain;
        }
    }

    fn next_field(&mut self, start: usize) {
        (self.field, self.state, self.raw) = (start, State::Start, false);
    }

    /// The field, which ends before `end`.
    fn cell(&self, end: usize) -> Cell {
        if self.state == State::Closed && !self.raw {
            Cell::new(self.field + 1, end - 1, false)
        } else {
            Cell::new(self.field, end, self.raw)
        }
    }
}
