//! The fast way through a chunk, 64 bytes at a time, for rows that keep to the rules; where one does
//! not, `dialect.rs` looks at that row. What is done with the rows is not known here: see [`Rows`].

use std::ops::{ControlFlow, Range};

use pipemill_plugin::DecodeError;

use crate::chunk::{Chunk, NextRow};
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
}

/// Goes through the rows that lie whole in the chunk from `start` on; with `end`, the last one needs
/// no line end. Answers how far it came: to the start of a row, or to the end.
pub(crate) fn scan<R: Rows>(
    chunk: &Chunk,
    start: usize,
    end: bool,
    cells: &mut Vec<Cell>,
    rows: &mut R,
) -> Result<usize, DecodeError> {
    let mut at = start;
    loop {
        if chunk.dialect.escape.is_none() {
            let stop = blocks(chunk, at, rows)?;
            rows.again();
            at = match stop {
                Stop::End(row) if !end => return chunk.check_cut(row).map(|()| row),
                Stop::End(row) | Stop::Odd(row) => row,
            };
        }
        let next = match chunk.next_row(at, end, cells)? {
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
    /// The row that starts here needs a careful look.
    Odd(usize),
}

/// The fast way, from a row's start. It knows no escapes, and takes comments for odd.
fn blocks<R: Rows>(chunk: &Chunk, start: usize, rows: &mut R) -> Result<Stop, DecodeError> {
    let mut scan = Scan { chunk, start, row: start, field: start, inside: 0, doubled: 0 };
    if scan.starts_comment() {
        return Ok(Stop::Odd(start));
    }
    let mut base = start;
    while let Some(block) = chunk.bytes[base..].first_chunk::<64>() {
        if scan.block(base, block, !0, rows)?.is_break() {
            return Ok(Stop::Odd(scan.row));
        }
        base += 64;
    }
    let rest = &chunk.bytes[base..];
    if !rest.is_empty() {
        let mut block = [0; 64];
        block[..rest.len()].copy_from_slice(rest);
        if scan.block(base, &block, !0 >> (64 - rest.len()), rows)?.is_break() {
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
}

/// What stands where in a block.
struct Marks {
    /// Delimiters and line ends, or with rows alone line ends, outside of quotes and up to the first
    /// thing that is odd.
    ends: u64,
    /// Line ends.
    lines: u64,
    /// Second quotes of doubled ones.
    doubled: u64,
    odd: bool,
}

impl Scan<'_> {
    fn starts_comment(&self) -> bool {
        let comment = self.chunk.dialect.comment;
        comment.is_some() && self.chunk.bytes.get(self.row).copied() == comment
    }

    /// Hands over what ends in the block at `base`. Of its bytes those are real whose bits are set.
    #[inline(always)]
    fn block<R: Rows>(
        &mut self,
        base: usize,
        block: &[u8; 64],
        real: u64,
        rows: &mut R,
    ) -> Result<ControlFlow<()>, DecodeError> {
        let marks = self.marks::<R>(base, block, real);
        let mut ends = marks.ends;
        while ends != 0 {
            let bit = ends.trailing_zeros();
            ends &= ends - 1;
            let at = base + bit as usize;
            let is_line = !R::FIELDS || marks.lines >> bit & 1 == 1;
            let end = if is_line { self.trim_cr(at) } else { at };
            // A row that holds nothing is none.
            if !is_line || end > self.row {
                if R::FIELDS {
                    let Some(cell) = self.cell(end, marks.doubled & !(!0 << bit), base) else {
                        return Ok(ControlFlow::Break(()));
                    };
                    rows.field(cell);
                    self.field = at + 1;
                }
                if !is_line {
                    continue;
                }
                self.chunk.check_length(self.row..end)?;
                rows.row(self.row..end, at + 1)?;
            }
            (self.row, self.field) = (at + 1, at + 1);
            if self.starts_comment() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if marks.doubled != 0 {
            self.doubled = base + marks.doubled.ilog2() as usize;
        }
        Ok(if marks.odd { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
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
        let bytes = Block::load(block);
        let mut lines = bytes.eq(b'\n');
        if dialect.lone_cr {
            lines |= bytes.eq(b'\r');
        }
        let lines = lines & real;
        let quotes = dialect.quote.map_or(0, |quote| bytes.eq(quote)) & real;
        let plain = quotes | self.inside == 0;
        if plain && !R::FIELDS {
            return Marks { ends: lines, lines, doubled: 0, odd: false };
        }
        let ends = bytes.eq(dialect.delimiter) & real | lines;
        if plain {
            return Marks { ends, lines, doubled: 0, odd: false };
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
        Marks { ends, lines, doubled, odd: odd != 0 }
    }

    /// The field that ends before `end`, of a block at `base` with these second quotes of doubled ones
    /// before that; `None` if it is odd.
    #[inline(always)]
    fn cell(&self, end: usize, doubled: u64, base: usize) -> Option<Cell> {
        let (start, quote) = (self.field, self.chunk.dialect.quote);
        if end == start || Some(self.chunk.bytes[start]) != quote {
            return Some(Cell::new(start, end, false));
        }
        // Its last byte is the closing quote, or else text stands behind that.
        if end - start < 2 || Some(self.chunk.bytes[end - 1]) != quote {
            return None;
        }
        let last = doubled.checked_ilog2().map_or(self.doubled, |bit| base + bit as usize);
        Some(if last > start {
            Cell::new(start, end, true)
        } else {
            Cell::new(start + 1, end - 1, false)
        })
    }
}
