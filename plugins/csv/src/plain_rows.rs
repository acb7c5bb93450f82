//! The fast path that splits rows 64 bytes at a time, with no branch that depends on a field. The
//! fields are emitted unchanged, or converted by `typed_rows.rs`.
//!
//! # Advice for the next person
//!
//! **The idea.** The scanner goes from one end of a field to the next, and tests each field: is it
//! quoted, does the row end here? Here a few operations on the masks of 64 bytes answer that for
//! all fields in these bytes. They produce a mask of where values start and a mask of where they
//! end, without their quotes: one bit for each field, in the same order. [`write_places`] turns
//! bits into offsets, several at once, and the spans follow from the two lists of offsets. Only
//! line ends are handled one by one.
//!
//! **What it leaves to others.** It stops before a row that has doubled quotes, a quote in the middle
//! of a field, text after a closing quote, a wrong number of fields, or too many bytes, and before
//! blank lines, comments and repeated headers. The scanner reads that row, or reports it. Then the
//! caller tries again: see `backoff.rs`.
//!
//! **CR LF** costs some instructions for each block, so there are two versions of the code. The
//! version for LF stops at the first CR LF, and the other one continues.
//!
//! **Invariants.**
//! - A row that it emits is what the scanner and the reference reader would emit. It is always
//!   correct to stop before a row.
//! - From the first byte that is not in [`Masks::known`] on, the masks are wrong, so a row counts
//!   only when its line end is known.
//!
//! **Tried without success.** Rows that are emitted whole: the scanner is faster, because it has no
//! work per field. Looking at the line ends of many blocks at a time, so that no branch depends on
//! rows: it costs more than the branches.
//!
//! **Changing it.** `scanner_and_reference_agree` in `tests/decoder/splits.rs` compares it with the
//! reference reader; `plain_rows_take_the_fast_path` below asserts that it takes plain rows.
//! Measure as for `scan.rs`.

use crate::chunk::LineCount;
use crate::plain_masks::{Masks, Reader};
use crate::row_context::RowContext;
use crate::scan::StopReason;

/// Number of fields after which rows are emitted: their positions stay in the L1 cache.
const EMIT_FIELDS: usize = 1024;

/// Positions in the chunk of rows that were not emitted yet. It is kept to reuse its memory.
#[derive(Debug, Default)]
pub(crate) struct PlainRows {
    /// The start of each value.
    starts: Vec<u32>,
    /// The byte after each value.
    ends: Vec<u32>,
    /// The start of each row.
    rows: Vec<u32>,
    /// Whether a line has ended with CR LF.
    has_crlf: bool,
}

/// Receives the rows.
pub(crate) trait PlainSink {
    /// Whether this sink also accepts rows with line ends in quotes. Tabs rarely occur in text by
    /// chance: see `merged_rows.rs`.
    const TAKES_INNER_LINES: bool;
    /// Emits rows, all of the layout's width. Returns how many: the next one is left to the
    /// scanner.
    fn rows(&mut self, context: &mut RowContext, places: &Places) -> usize;
}

/// The positions of complete rows in the chunk, and of the values of their fields.
pub(crate) struct Places<'a> {
    /// The start of each row.
    pub(crate) rows: &'a [u32],
    /// The start of each value.
    pub(crate) starts: &'a [u32],
    /// The byte after each value.
    pub(crate) ends: &'a [u32],
}

/// Emits the fields unchanged.
pub(crate) struct AsWritten;

impl PlainSink for AsWritten {
    const TAKES_INNER_LINES: bool = true;

    #[inline]
    fn rows(&mut self, context: &mut RowContext, places: &Places) -> usize {
        context.out.spans(places.rows, places.starts, places.ends);
        places.rows.len()
    }
}

/// The reason why a pass stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// All bytes were read.
    ChunkEnd,
    /// The row is left to the scanner.
    Row,
    /// The row ends with CR LF.
    CrLf,
}

impl PlainRows {
    /// Emits the rows from `start` on, which is the start of a row. Each has `width` fields. Returns
    /// the number of rows, and why it stopped.
    pub(crate) fn read<S: PlainSink>(
        &mut self,
        sink: &mut S,
        context: &mut RowContext,
        width: usize,
        start: usize,
        counted: &mut LineCount,
    ) -> (u64, StopReason) {
        let (mut row, mut records) = (start, 0);
        loop {
            let lfs = counted.up_to(context.chunk.bytes, row);
            let mut pass = Pass { width, base: row, lfs, row, ..Pass::default() };
            let stop = if self.has_crlf {
                pass.read::<S, true>(self, sink, context)
            } else {
                pass.read::<S, false>(self, sink, context)
            };
            let stop = pass.emit(self, sink, context).unwrap_or(stop);
            *counted = LineCount { to: pass.base, lines: pass.lfs };
            (row, records) = (pass.row, records + pass.records);
            match stop {
                Stop::ChunkEnd => return (records, StopReason::ChunkEnd(row)),
                Stop::Row => return (records, StopReason::Fallback(row)),
                Stop::CrLf => self.has_crlf = true,
            }
        }
    }

    /// Makes room for the positions of a block after `places` others.
    #[inline(always)]
    fn make_room(&mut self, places: usize) {
        if self.starts.len() < places + 65 {
            self.grow(places + 65);
        }
    }

    #[cold]
    fn grow(&mut self, length: usize) {
        let length = length.next_multiple_of(2 * EMIT_FIELDS);
        for places in [&mut self.starts, &mut self.ends, &mut self.rows] {
            places.resize(length, 0);
        }
    }
}

/// One pass over rows. All counts of positions and rows are of those that were not emitted yet.
#[derive(Default)]
struct Pass {
    /// Number of fields of a row.
    width: usize,
    /// The start of the next block.
    base: usize,
    /// Number of LFs before `base`.
    lfs: u64,
    /// The start of the current row.
    row: usize,
    /// Number of starts of values.
    starts: usize,
    /// Number of ends of values.
    ends: usize,
    /// Number of complete rows.
    rows: usize,
    /// Number of fields of complete rows.
    fields: usize,
    /// Number of rows that were emitted.
    records: u64,
}

impl Pass {
    #[inline(never)]
    fn read<S: PlainSink, const CRLF: bool>(
        &mut self,
        memory: &mut PlainRows,
        sink: &mut S,
        context: &mut RowContext,
    ) -> Stop {
        let bytes = context.chunk.bytes;
        if self.is_comment(context, self.row) {
            return Stop::Row;
        }
        let mut reader = Reader::new(&context.chunk.dialect, S::TAKES_INNER_LINES);
        loop {
            let rest = &bytes[self.base..];
            let (masks, size) = if let Some(block) = rest.first_chunk::<64>() {
                let next = if CRLF { rest.get(64).copied() } else { None };
                (reader.masks::<CRLF>(block, !0, next), 64)
            } else if rest.is_empty() {
                return Stop::ChunkEnd;
            } else {
                let mut block = [0; 64];
                block[..rest.len()].copy_from_slice(rest);
                let real = !0 >> (64 - rest.len());
                (reader.masks::<CRLF>(&block, real, None), rest.len())
            };
            if let Some(stop) = self.block::<CRLF>(&masks, memory, context) {
                return stop;
            }
            self.lfs += u64::from(masks.lfs.count_ones());
            self.base += size;
            if self.fields >= EMIT_FIELDS
                && let Some(stop) = self.emit(memory, sink, context)
            {
                return stop;
            }
        }
    }

    /// Adds the positions of the block at `base`, and ends its rows. Returns the reason to stop, if
    /// there is one.
    #[inline(always)]
    fn block<const CRLF: bool>(
        &mut self,
        masks: &Masks,
        memory: &mut PlainRows,
        context: &RowContext,
    ) -> Option<Stop> {
        memory.make_room(self.ends);
        let (base, ends_before) = (self.base as u32, self.ends);
        self.starts += write_places(masks.starts, base, &mut memory.starts, self.starts);
        self.ends += write_places(masks.ends, base, &mut memory.ends, self.ends);
        let mut lines = masks.lines & masks.known;
        while lines != 0 {
            let bit = lines.trailing_zeros();
            lines &= lines - 1;
            let end = self.base + bit as usize;
            if !CRLF && context.chunk.bytes[self.row..end].last() == Some(&b'\r') {
                return Some(Stop::CrLf);
            }
            let fields = ends_before + (masks.ends << (63 - bit)).count_ones() as usize;
            let is_plain = fields - self.fields == self.width
                && end > self.row
                && (end - self.row) as u64 <= context.chunk.max_record
                && !context.is_header(&(self.row..end));
            if !is_plain {
                return Some(Stop::Row);
            }
            memory.rows[self.rows] = self.row as u32;
            let is_cr = CRLF && masks.crs >> bit & 1 == 1;
            self.row = end + 1 + usize::from(is_cr);
            (self.rows, self.fields) = (self.rows + 1, fields);
            if self.is_comment(context, self.row) {
                return Some(Stop::Row);
            }
        }
        if masks.known == !0 {
            return None;
        }
        // A CR LF after a closing quote is unknown to the masks, too.
        let odd = &context.chunk.bytes[self.base + masks.known.trailing_ones() as usize..];
        let is_crlf = !CRLF && odd.starts_with(b"\r\n");
        Some(if is_crlf { Stop::CrLf } else { Stop::Row })
    }

    #[inline(always)]
    fn is_comment(&self, context: &RowContext, row: usize) -> bool {
        let comment = context.chunk.dialect.comment;
        comment.is_some() && context.chunk.bytes.get(row).copied() == comment
    }

    /// Emits the complete rows. The positions after them stay. Returns the reason to stop, if the
    /// sink leaves a row to the scanner.
    #[inline(never)]
    fn emit<S: PlainSink>(
        &mut self,
        memory: &mut PlainRows,
        sink: &mut S,
        context: &mut RowContext,
    ) -> Option<Stop> {
        let PlainRows { starts, ends, rows, .. } = memory;
        let places = Places {
            rows: &rows[..self.rows],
            starts: &starts[..self.fields],
            ends: &ends[..self.fields],
        };
        let taken = sink.rows(context, &places);
        self.records += taken as u64;
        if let Some(row) = places.rows.get(taken) {
            // Nothing after this row was emitted.
            self.row = *row as usize;
            (self.rows, self.fields) = (0, 0);
            return Some(Stop::Row);
        }
        starts.copy_within(self.fields..self.starts, 0);
        ends.copy_within(self.fields..self.ends, 0);
        self.starts -= self.fields;
        self.ends -= self.fields;
        (self.fields, self.rows) = (0, 0);
        None
    }
}

/// Writes the position of each bit to `places`, from `from` on. The block of the bits starts at
/// `base`. Returns the number of bits. It always writes 64 positions from `from` on; those after
/// the bits have no meaning.
#[inline(always)]
fn write_places(mut bits: u64, base: u32, places: &mut [u32], from: usize) -> usize {
    let count = bits.count_ones() as usize;
    let places: &mut [u32; 64] = places[from..].first_chunk_mut().expect("room for a block");
    let mut write = |place: &mut u32| {
        *place = base.wrapping_add(bits.trailing_zeros());
        bits &= bits.wrapping_sub(1);
    };
    // Most blocks have few bits. Without a branch for each bit, no branch is mispredicted.
    places[..8].iter_mut().for_each(&mut write);
    if count > 8 {
        places[8..16].iter_mut().for_each(&mut write);
    }
    if count > 16 {
        places[16..count].iter_mut().for_each(write);
    }
    count
}

#[cfg(test)]
mod tests {
    use pipemill_plugin::{Field, Host, Level, Records};
    use proptest::prelude::*;

    use super::*;
    use crate::chunk::Chunk;
    use crate::dialect::Dialect;
    use crate::row_context::{FirstRow, Surplus};

    struct NoHost;

    impl Host for NoHost {
        fn emit(&mut self, _: usize, _: &[u64], _: &[u8], _: &[u32]) {}
        fn check_crc32c(&mut self, _: &[u64], _: &[u32]) -> Option<usize> {
            None
        }
        fn log(&mut self, _: Level, _: &str) {}
    }

    /// Reads rows of `width` fields. Returns their number, and why and where it stopped.
    fn read(bytes: &[u8], width: usize) -> (u64, StopReason) {
        let dialect = Dialect {
            delimiter: b',',
            quote: Some(b'"'),
            escape: None,
            double_quote: true,
            comment: Some(b'#'),
            lone_cr: false,
            decimal_comma: false,
            text_after_quote: false,
        };
        let chunk = Chunk { bytes, end: false, dialect, max_record: 400, line: 1, after_cr: false };
        let mut out = Records::new(Box::new(NoHost), true);
        let fields: Vec<_> = (0..width).map(|i| Field::bytes(i.to_string())).collect();
        out.set_schema(&fields);
        let mut surplus = Surplus::default();
        let mut context = RowContext {
            chunk: &chunk,
            header: Some(b"head"),
            flexible: false,
            is_dense: false,
            empty_is_nan: false,
            null: &[],
            first_record: None,
            surplus: &mut surplus,
            first_row: FirstRow::IsHeader,
            out: &mut out,
        };
        let mut counted = LineCount::default();
        let read = PlainRows::default().read(&mut AsWritten, &mut context, width, 0, &mut counted);
        assert_eq!(
            counted.up_to(bytes, bytes.len()),
            LineCount::default().up_to(bytes, bytes.len())
        );
        read
    }

    proptest! {
        #[test]
        fn places_are_those_of_the_bits(bits: u64, base in 0u32..1000, from in 0usize..3) {
            let mut places = vec![u32::MAX; 64 + from];
            let count = write_places(bits, base, &mut places, from);
            let expected = (0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| base + bit);
            prop_assert_eq!(&places[from..from + count], expected.collect::<Vec<_>>());
        }

        /// Plain rows are never left to the scanner.
        #[test]
        fn plain_rows_take_the_fast_path(
            rows in (2usize..14).prop_flat_map(|width| {
                let field = "|x[a-z\r#]{0,20}x|\"[a-z,\n\r#]{0,10}\"";
                prop::collection::vec(prop::collection::vec(field, width), 1..300)
            }),
            cr: bool,
        ) {
            let (width, end) = (rows[0].len(), if cr { "\r\n" } else { "\n" });
            let file: String = rows.iter().map(|row| row.join(",") + end).collect();
            let all = (rows.len() as u64, StopReason::ChunkEnd(file.len()));
            prop_assert_eq!(read(file.as_bytes(), width), all);
        }
    }

    #[test]
    fn other_rows_are_left_to_the_scanner() {
        let good = "a,\"b\"\n".repeat(100);
        for row in [
            "1",
            "1,2,3",
            "\"1\"\"\",2",
            "1,\"2\"a",
            "1,2\"3\"",
            "",
            "#,1",
            "head",
            &"1".repeat(401),
        ] {
            let file = format!("{good}{row}\n{good}");
            let stop = (100, StopReason::Fallback(good.len()));
            assert_eq!(read(file.as_bytes(), 2), stop, "{row:?}");
        }
    }
}
