//! The scanner: reads rows 64 bytes at a time, with one bit per byte.
//!
//! # Advice for the next person
//!
//! **The idea** is that of simdjson. For each block of 64 bytes the vector instructions in
//! `simd.rs` give one `u64` for each byte that has a meaning: bit i is set if byte i is a
//! delimiter, a line end or a quote. The prefix XOR of the quotes has a bit set for each byte
//! inside quotes. The delimiters and line ends outside quotes are the ends of fields; the loop in
//! [`Scanner::emit_ends`] goes from one set bit to the next, so its cost depends on the number of
//! fields, not of bytes.
//!
//! **Doubled quotes.** To the prefix XOR, two quotes that mean one are a closing quote and an
//! opening quote. That is right for finding ends. Only the second of them is remembered
//! ([`BlockMasks::doubled`]), because a field that has one is raw.
//!
//! **What the scanner leaves to others.** It assumes that a quote opens or closes a field, or is
//! one of two. If a quote opens in the middle of a field, or text follows a closing quote, this
//! assumption is wrong, and so is every bit after it. The scanner then returns
//! [`StopReason::Fallback`] with the start of the row, and [`scan`] lets the reference reader in
//! `dialect.rs` read that one row. The same happens for a row that starts like a comment. A dialect
//! with an escape is never scanned.
//!
//! **Invariants.**
//! - All state of [`Scanner`] is about the bytes before the block, so a block can be read
//!   independently.
//! - A row is passed to the sink only when its line end was seen. Fields of a row that is left to
//!   the reference reader are removed by [`RowSink::discard_row`].
//! - The scanner and the reference reader must agree on every input. Prefer a fallback to a special
//!   case: a rare row costs little.
//! - No branch may depend on which fields are quoted, because such a branch can't be predicted. See
//!   [`Scanner::cell`].
//!
//! **Changing it.** `scanner_and_reference_agree` in `tests/decoder/splits.rs` compares both
//! readers on random input; to force the reference reader, it sets an escape byte that never
//! occurs. The tests in `python.rs` and `crate_csv.rs` compare the result with two other readers.
//! Measure outside the sandbox with the first command, and inside with the second:
//!
//! ```text
//! cargo run --release -p pipemill-csv --example speed
//! pipemill plugin bench csv --data FILE
//! ```

use std::ops::{ControlFlow, Range};

use pipemill_plugin::DecodeError;

use crate::chunk::{Chunk, LineCount, NextRow};
use crate::dialect::Cell;
use crate::simd::{Block, prefix_xor};

/// Receives the rows of a chunk and their fields, and emits records.
pub(crate) trait RowSink {
    /// Whether fields are wanted. If not, `field` is never called.
    const FIELDS: bool;
    /// Receives the next field of the row.
    fn field(&mut self, cell: Cell);
    /// Ends the row. `row` is its bytes without the line end; the next line starts at `next`.
    fn row(&mut self, row: Range<usize>, next: usize) -> Result<(), DecodeError>;
    /// Removes the fields of the unfinished row: they will come again.
    fn discard_row(&mut self);
    /// Refuses a row over several lines that seems to be several rows. It is called before
    /// [`row`](Self::row).
    fn check_lines(&mut self, row: &Range<usize>) -> Result<(), DecodeError> {
        let _ = row;
        Ok(())
    }
    /// Emits the rows from `start` on as long as the sink has a faster way to read them. Returns
    /// why and where it stopped.
    fn fast_path(&mut self, start: usize, counted: &mut LineCount) -> StopReason {
        let _ = counted;
        StopReason::Fallback(start)
    }
    /// Whether to try the fast path before the next row.
    #[inline(always)]
    fn fast_path_due(&self) -> bool {
        false
    }
}

/// Passes the rows that are completely in the chunk, from `start` on, to the sink. At the end of
/// the input the last row needs no line end. Returns where it stopped: at the start of a row, or at
/// the end.
pub(crate) fn scan<R: RowSink>(
    chunk: &Chunk,
    start: usize,
    cells: &mut Vec<Cell>,
    counted: &mut LineCount,
    sink: &mut R,
) -> Result<usize, DecodeError> {
    let mut at = start;
    loop {
        let mut stop = sink.fast_path(at, counted);
        if let StopReason::Fallback(row) = stop
            && chunk.dialect.escape.is_none()
        {
            stop = scan_blocks(chunk, row, counted, sink)?;
            sink.discard_row();
        }
        at = match stop {
            // A row that is too long may have another fault, which the reference reader finds.
            StopReason::ChunkEnd(row) if !chunk.end && chunk.check_cut(row).is_ok() => {
                return Ok(row);
            }
            StopReason::ChunkEnd(row) => row,
            StopReason::Fallback(row) if sink.fast_path_due() => {
                at = row;
                continue;
            }
            StopReason::Fallback(row) => row,
        };
        let next = match chunk.next_row(at, cells)? {
            NextRow::Whole { row, next } => {
                if R::FIELDS {
                    if chunk.bytes[row.clone()].contains(&b'\n') {
                        sink.check_lines(&row)?;
                    }
                    cells.iter().for_each(|cell| sink.field(*cell));
                }
                sink.row(row, next)?;
                next
            }
            NextRow::Cut(row) => return Ok(row),
        };
        at = next;
    }
}

/// The reason why the scanner or a fast path stopped. The offset is the start of the row to
/// continue with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The chunk ends before the row does.
    ChunkEnd(usize),
    /// The row is left to another reader: to the scanner after a fast path, otherwise to the
    /// reference reader or the fast path.
    Fallback(usize),
}

/// Scans the rows from `start` on, which is the start of a row.
#[inline(never)]
fn scan_blocks<R: RowSink>(
    chunk: &Chunk,
    start: usize,
    counted: &mut LineCount,
    sink: &mut R,
) -> Result<StopReason, DecodeError> {
    let mut scanner = Scanner {
        chunk,
        row: start,
        field: start,
        before: b'\n',
        in_quotes: 0,
        last_doubled: 0,
        after_quote: 0,
        last_inner_line: 0,
    };
    if scanner.starts_comment() {
        return Ok(StopReason::Fallback(start));
    }
    let (mut base, mut lines) = (start, counted.up_to(chunk.bytes, start));
    let stop = loop {
        let Some(block) = chunk.bytes[base..].first_chunk::<64>() else { break None };
        let masks = scanner.masks::<R>(block, !0);
        if scanner.block(base, &masks, sink)?.is_break() {
            break Some(StopReason::Fallback(scanner.row));
        }
        scanner.before = block[63];
        lines += u64::from(masks.lines.count_ones());
        base += 64;
    };
    *counted = LineCount { to: base, lines };
    if let Some(stop) = stop {
        return Ok(stop);
    }
    let rest = &chunk.bytes[base..];
    if !rest.is_empty() {
        let mut block = [0; 64];
        block[..rest.len()].copy_from_slice(rest);
        let masks = scanner.masks::<R>(&block, !0 >> (64 - rest.len()));
        if scanner.block(base, &masks, sink)?.is_break() {
            return Ok(StopReason::Fallback(scanner.row));
        }
    }
    Ok(StopReason::ChunkEnd(scanner.row))
}

/// The state of the scanner between two blocks.
struct Scanner<'a> {
    chunk: &'a Chunk<'a>,
    /// The start of the current row.
    row: usize,
    /// The start of the current field.
    field: usize,
    /// The byte before the block; LF at the start of a row.
    before: u8,
    /// All bits set inside a quoted field, otherwise no bit.
    in_quotes: u64,
    /// Offset of the last second quote of two that mean one; 0 if there is none.
    last_doubled: usize,
    /// The offset after the last quote before the block; 0 if there is none.
    after_quote: usize,
    /// The offset after the last line end in quotes; 0 if there is none.
    last_inner_line: usize,
}

/// The masks of one block: bit i is for byte i.
struct BlockMasks {
    /// The ends to handle: delimiters and line ends outside quotes, up to the first quote that the
    /// scanner does not understand. If the sink does not want fields, only line ends.
    ends: u64,
    /// All line ends, in quotes or not.
    lines: u64,
    /// All quotes.
    quotes: u64,
    /// The second quotes of two that mean one.
    doubled: u64,
    /// The line ends in quotes.
    inner_lines: u64,
    /// Whether the block has a quote that the scanner does not understand.
    fallback: bool,
}

impl Scanner<'_> {
    fn starts_comment(&self) -> bool {
        let comment = self.chunk.dialect.comment;
        comment.is_some() && self.chunk.bytes.get(self.row).copied() == comment
    }

    /// Passes the fields and rows that end in the block at `base` to the sink. Breaks if a row is
    /// left to another reader.
    #[inline(always)]
    fn block<R: RowSink>(
        &mut self,
        base: usize,
        masks: &BlockMasks,
        sink: &mut R,
    ) -> Result<ControlFlow<()>, DecodeError> {
        // Without a quote in the block or in the current field, no field needs the test for quotes.
        if masks.quotes == 0 && self.after_quote <= self.field {
            return self.emit_ends::<R, false>(base, masks, sink);
        }
        let flow = self.emit_ends::<R, true>(base, masks, sink)?;
        if let Some(bit) = masks.doubled.checked_ilog2() {
            self.last_doubled = base + bit as usize;
        }
        if let Some(bit) = masks.inner_lines.checked_ilog2() {
            self.last_inner_line = base + bit as usize + 1;
        }
        if let Some(bit) = masks.quotes.checked_ilog2() {
            self.after_quote = base + bit as usize + 1;
        }
        Ok(if masks.fallback { ControlFlow::Break(()) } else { flow })
    }

    /// Handles each end in the block. `QUOTED` says whether a field may be quoted.
    #[inline(always)]
    fn emit_ends<R: RowSink, const QUOTED: bool>(
        &mut self,
        base: usize,
        masks: &BlockMasks,
        sink: &mut R,
    ) -> Result<ControlFlow<()>, DecodeError> {
        let mut ends = masks.ends;
        while ends != 0 {
            let bit = ends.trailing_zeros();
            ends &= ends - 1;
            let at = base + bit as usize;
            let is_line = !R::FIELDS || masks.lines >> bit & 1 == 1;
            let end = if is_line { self.trim_cr(at) } else { at };
            // A blank line is not a row.
            if !is_line || end > self.row {
                if R::FIELDS && QUOTED {
                    let Some(cell) = self.cell(end, masks.doubled & !(!0 << bit), base) else {
                        return Ok(ControlFlow::Break(()));
                    };
                    sink.field(cell);
                } else if R::FIELDS {
                    sink.field(Cell::new(self.field, end, false));
                }
                if !is_line {
                    self.field = at + 1;
                    continue;
                }
                self.chunk.check_length(self.row..end)?;
                if R::FIELDS && self.has_inner_line::<QUOTED>(masks, base, bit) {
                    sink.check_lines(&(self.row..end))?;
                }
                sink.row(self.row..end, at + 1)?;
            }
            (self.row, self.field) = (at + 1, at + 1);
            if sink.fast_path_due() || self.starts_comment() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Whether the row that ends at this bit of the block at `base` has a line end in quotes.
    #[inline(always)]
    fn has_inner_line<const QUOTED: bool>(
        &self,
        masks: &BlockMasks,
        base: usize,
        bit: u32,
    ) -> bool {
        let before = if QUOTED { masks.inner_lines & !(!0 << bit) } else { 0 };
        let last =
            before.checked_ilog2().map_or(self.last_inner_line, |bit| base + bit as usize + 1);
        last > self.row
    }

    /// `at`, or the offset of a CR directly before it, which then belongs to the line end.
    #[inline(always)]
    fn trim_cr(&self, at: usize) -> usize {
        let cr = at > self.row && self.chunk.bytes[at - 1] == b'\r' && !self.chunk.dialect.lone_cr;
        at - usize::from(cr)
    }

    /// The masks of a block. `real` has a bit set for each byte that is in the chunk.
    #[inline(always)]
    fn masks<R: RowSink>(&mut self, block: &[u8; 64], real: u64) -> BlockMasks {
        let dialect = &self.chunk.dialect;
        let bytes = Block::<4>::load(block);
        let mut lines = bytes.eq(b'\n');
        if dialect.lone_cr {
            lines |= bytes.eq(b'\r');
        }
        let lines = lines & real;
        let quotes = dialect.quote.map_or(0, |quote| bytes.eq(quote)) & real;
        let plain = quotes | self.in_quotes == 0;
        let ends = if plain && !R::FIELDS { 0 } else { bytes.eq(dialect.delimiter) & real } | lines;
        if plain {
            let (quotes, doubled, inner_lines, fallback) = (0, 0, 0, false);
            return BlockMasks { ends, lines, quotes, doubled, inner_lines, fallback };
        }
        self.quoted_masks::<R>(quotes, ends, lines)
    }

    /// The masks of a block that has quotes, or that starts inside a quoted field.
    #[inline(always)]
    fn quoted_masks<R: RowSink>(&mut self, quotes: u64, ends: u64, lines: u64) -> BlockMasks {
        let dialect = &self.chunk.dialect;
        // Set for each byte inside quotes, and for opening quotes, but not for closing quotes.
        let within = prefix_xor(quotes) ^ self.in_quotes;
        let opening = quotes & within;
        let after_end = self.before == dialect.delimiter || dialect.ends_line(self.before);
        let after_quote = Some(self.before) == dialect.quote;
        // The byte before an opening quote is outside quotes, so a quote there is a closing one.
        let doubled = opening & (quotes << 1 | u64::from(after_quote));
        let mut allowed = ends << 1 | u64::from(after_end);
        if dialect.double_quote {
            allowed |= doubled;
        }
        let not_allowed = opening & !allowed;
        // The bits below the lowest one of `not_allowed`; all bits if there is none.
        let known = (not_allowed & not_allowed.wrapping_neg()).wrapping_sub(1);
        self.in_quotes = ((within as i64) >> 63) as u64;
        let ends = (if R::FIELDS { ends } else { lines }) & !within & known;
        let (inner_lines, fallback) = (lines & within, not_allowed != 0);
        BlockMasks { ends, lines, quotes, doubled, inner_lines, fallback }
    }

    /// The current field, which ends at `end`. `doubled` is the mask of second quotes before `end`
    /// in the block at `base`. `None` if the field is left to the reference reader.
    #[inline(always)]
    fn cell(&self, end: usize, doubled: u64, base: usize) -> Option<Cell> {
        let (start, bytes) = (self.field, self.chunk.bytes);
        // There is a quote byte: this is called only if one was seen. An empty field is not quoted,
        // because the byte at its start is its end.
        let quote = self.chunk.dialect.quote?;
        let quoted = bytes[start] == quote;
        // If the last byte is not the closing quote, text follows the closing quote. This branch is
        // rarely taken. There is no branch on `quoted`, because it can't be predicted.
        if quoted & ((end - start < 2) | (bytes[end.max(1) - 1] != quote)) {
            return None;
        }
        let last = doubled.checked_ilog2().map_or(self.last_doubled, |bit| base + bit as usize);
        let raw = quoted & (last > start);
        let inner = usize::from(quoted & !raw);
        Some(Cell::new(start + inner, end - inner, raw))
    }
}
