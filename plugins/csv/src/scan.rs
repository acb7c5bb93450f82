//! The fast way through a chunk, 64 bytes at a time, for rows that keep to the rules; where one does
//! not, `dialect.rs` looks at that row. What is done with the rows is not known here: see [`Rows`].

use std::ops::{ControlFlow, Range};

use pipemill_plugin::DecodeError;

use crate::chunk::{Chunk, Counted, NextRow};
use crate::dialect::Cell;
use crate::simd::{Block, prefix_xor};

/// What is done with rows and their fields.
pub(crate) trait Rows {
    /// Whether the fields matter, or only where rows end.
    const FIELDS: bool;
    /// The next field of the row.
    fn field(&mut self, cell: Cell);
    /// The row is whole; the next one starts at `next`.
    fn row(&mut self, row: Range<usize>, next: usize) -> Result<(), DecodeError>;
    /// The fields since the last row are not good: they come again.
    fn again(&mut self);
    /// A faster way of its own through the rows from `start` on. Answers where it came to: to the start
    /// of a row.
    fn straight(&mut self, start: usize, counted: &mut Counted) -> usize {
        let _ = counted;
        start
    }
    /// Whether that is to be tried, behind a row.
    #[inline(always)]
    fn straight_is_due(&self) -> bool {
        false
    }
}

/// Goes through the rows that lie whole in the chunk from `start` on; at the end of the input, the
/// last one needs no line end. Answers how far it came: to the start of a row, or to the end.
pub(crate) fn scan<R: Rows>(
    chunk: &Chunk,
    start: usize,
    cells: &mut Vec<Cell>,
    counted: &mut Counted,
    rows: &mut R,
) -> Result<usize, DecodeError> {
    let mut at = start;
    loop {
        at = rows.straight(at, counted);
        if chunk.dialect.escape.is_none() {
            let stop = blocks(chunk, at, counted, rows)?;
            rows.again();
            at = match stop {
                Stop::End(row) if !chunk.end => return chunk.check_cut(row).map(|()| row),
                Stop::End(row) | Stop::Odd(row) => row,
            };
            if rows.straight_is_due() {
                continue;
            }
        }
        let next = match chunk.next_row(at, cells)? {
            NextRow::Whole { row, next } => {
                if R::FIELDS {
                    cells.iter().for_each(|cell| rows.field(*cell));
                }
                rows.row(row, next)?;
                next
            }
            NextRow::Cut(row) => return Ok(row),
        };
        at = next;
    }
}

/// Why the fast way stopped.
enum Stop {
    /// The chunk ended; the row that starts here did not.
    End(usize),
    /// The row that starts here needs a careful look, or the straight way is due.
    Odd(usize),
}

/// The fast way, from a row's start. It knows no escapes, and takes comments for odd.
fn blocks<R: Rows>(
    chunk: &Chunk,
    start: usize,
    counted: &mut Counted,
    rows: &mut R,
) -> Result<Stop, DecodeError> {
    let mut scan = Scan { chunk, start, row: start, field: start, inside: 0, doubled: 0, quote: 0 };
    if scan.starts_comment() {
        return Ok(Stop::Odd(start));
    }
    let (mut base, mut lines) = (start, counted.up_to(chunk.bytes, start));
    let stop = loop {
        let Some(block) = chunk.bytes[base..].first_chunk::<64>() else { break None };
        let marks = scan.marks::<R>(base, block, !0);
        if scan.block(base, &marks, rows)?.is_break() {
            break Some(Stop::Odd(scan.row));
        }
        lines += u64::from(marks.lines.count_ones());
        base += 64;
    };
    *counted = Counted { to: base, lines };
    if let Some(stop) = stop {
        return Ok(stop);
    }
    let rest = &chunk.bytes[base..];
    if !rest.is_empty() {
        let mut block = [0; 64];
        block[..rest.len()].copy_from_slice(rest);
        let marks = scan.marks::<R>(base, &block, !0 >> (64 - rest.len()));
        if scan.block(base, &marks, rows)?.is_break() {
            return Ok(Stop::Odd(scan.row));
        }
    }
    Ok(Stop::End(scan.row))
}

/// A scan on its way. Everything before a block is known when the block is looked at.
struct Scan<'a> {
    chunk: &'a Chunk<'a>,
    /// Where the scan started.
    start: usize,
    /// Where the row starts.
    row: usize,
    /// Where the field starts.
    field: usize,
    /// All bits set inside of a quoted field, else none.
    inside: u64,
    /// Where the second quote of the last doubled one stands; 0 before the first.
    doubled: usize,
    /// Behind the last quote before the block; 0 before the first.
    quote: usize,
}

/// What stands where in a block.
struct Marks {
    /// Delimiters and line ends, or with rows alone line ends, outside of quotes and up to the first
    /// thing that is odd.
    ends: u64,
    /// Line ends.
    lines: u64,
    quotes: u64,
    /// Second quotes of doubled ones.
    doubled: u64,
    odd: bool,
}

impl Scan<'_> {
    fn starts_comment(&self) -> bool {
        let comment = self.chunk.dialect.comment;
        comment.is_some() && self.chunk.bytes.get(self.row).copied() == comment
    }

    /// Hands over what ends in the block at `base`.
    #[inline(always)]
    fn block<R: Rows>(
        &mut self,
        base: usize,
        marks: &Marks,
        rows: &mut R,
    ) -> Result<ControlFlow<()>, DecodeError> {
        // Where no quote stands, none has to be looked for in each field.
        if marks.quotes == 0 && self.quote <= self.field {
            return self.ends::<R, false>(base, marks, rows);
        }
        let flow = self.ends::<R, true>(base, marks, rows)?;
        if let Some(bit) = marks.doubled.checked_ilog2() {
            self.doubled = base + bit as usize;
        }
        if let Some(bit) = marks.quotes.checked_ilog2() {
            self.quote = base + bit as usize + 1;
        }
        Ok(if marks.odd { ControlFlow::Break(()) } else { flow })
    }

    /// Goes from end to end in the block. `QUOTED` says whether a field may be.
    #[inline(always)]
    fn ends<R: Rows, const QUOTED: bool>(
        &mut self,
        base: usize,
        marks: &Marks,
        rows: &mut R,
    ) -> Result<ControlFlow<()>, DecodeError> {
        let mut ends = marks.ends;
        while ends != 0 {
            let bit = ends.trailing_zeros();
            ends &= ends - 1;
            let at = base + bit as usize;
            let is_line = !R::FIELDS || marks.lines >> bit & 1 == 1;
            let end = if is_line { self.trim_cr(at) } else { at };
            // A row that holds nothing is none.
            if !is_line || end > self.row {
                if R::FIELDS && QUOTED {
                    let Some(cell) = self.cell(end, marks.doubled & !(!0 << bit), base) else {
                        return Ok(ControlFlow::Break(()));
                    };
                    rows.field(cell);
                } else if R::FIELDS {
                    rows.field(Cell::new(self.field, end, false));
                }
                if !is_line {
                    self.field = at + 1;
                    continue;
                }
                self.chunk.check_length(self.row..end)?;
                rows.row(self.row..end, at + 1)?;
            }
            (self.row, self.field) = (at + 1, at + 1);
            if rows.straight_is_due() || self.starts_comment() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// `at`, or the place of the CR right before it, which belongs to the line end then.
    #[inline(always)]
    fn trim_cr(&self, at: usize) -> usize {
        let cr = at > self.row && self.chunk.bytes[at - 1] == b'\r' && !self.chunk.dialect.lone_cr;
        at - usize::from(cr)
    }

    #[inline(always)]
    fn marks<R: Rows>(&mut self, base: usize, block: &[u8; 64], real: u64) -> Marks {
        let dialect = &self.chunk.dialect;
        let bytes = Block::<4>::load(block);
        let mut lines = bytes.eq(b'\n');
        if dialect.lone_cr {
            lines |= bytes.eq(b'\r');
        }
        let lines = lines & real;
        let quotes = dialect.quote.map_or(0, |quote| bytes.eq(quote)) & real;
        let plain = quotes | self.inside == 0;
        let ends = if plain && !R::FIELDS { 0 } else { bytes.eq(dialect.delimiter) & real } | lines;
        if plain {
            return Marks { ends, lines, quotes: 0, doubled: 0, odd: false };
        }
        self.quoted::<R>(base, quotes, ends, lines)
    }

    /// The marks of a block in which there are quotes, or that starts in a quoted field. Takes each
    /// quote as one that opens or closes a field, or as one of two that stand for one, and is odd
    /// where one opens that is not at the start of a field.
    #[inline(always)]
    fn quoted<R: Rows>(&mut self, base: usize, quotes: u64, ends: u64, lines: u64) -> Marks {
        let dialect = &self.chunk.dialect;
        let within = prefix_xor(quotes) ^ self.inside;
        let opens = quotes & within;
        let before = if base == self.start { b'\n' } else { self.chunk.bytes[base - 1] };
        let after_end = before == dialect.delimiter || dialect.ends_line(before);
        let after_quote = Some(before) == dialect.quote;
        // What stands before an opening quote is outside of quotes: a quote there is a closing one.
        let doubled = opens & (quotes << 1 | u64::from(after_quote));
        let mut good = ends << 1 | u64::from(after_end);
        if dialect.double_quote {
            good |= doubled;
        }
        let odd = opens & !good;
        // The bits below the lowest odd one; all, if there is none.
        let known = (odd & odd.wrapping_neg()).wrapping_sub(1);
        self.inside = ((within as i64) >> 63) as u64;
        let ends = (if R::FIELDS { ends } else { lines }) & !within & known;
        Marks { ends, lines, quotes, doubled, odd: odd != 0 }
    }

    /// The field that ends before `end`, of a block at `base` with these second quotes of doubled ones
    /// before that; `None` if it is odd.
    #[inline(always)]
    fn cell(&self, end: usize, doubled: u64, base: usize) -> Option<Cell> {
        let (start, bytes) = (self.field, self.chunk.bytes);
        // Only called where a quote was seen. What ends a field is no quote: an empty one is plain.
        let quote = self.chunk.dialect.quote?;
        let quoted = bytes[start] == quote;
        // The last byte is the closing quote, or else text stands behind that. No branch but this
        // one, which is hardly ever taken: which fields are quoted can't be foretold.
        if quoted & ((end - start < 2) | (bytes[end.max(1) - 1] != quote)) {
            return None;
        }
        let last = doubled.checked_ilog2().map_or(self.doubled, |bit| base + bit as usize);
        let raw = quoted & (last > start);
        let inner = usize::from(quoted & !raw);
        Some(Cell::new(start + inner, end - inner, raw))
    }
}
