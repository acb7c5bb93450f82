//! The meaning of the 64 bytes of a block, as masks whose bit i is for byte i, for `plain_rows.rs`.

use crate::dialect::Dialect;
use crate::simd::{Block, prefix_xor};

/// The bytes that have a meaning, and the state that the bytes before a block leave.
pub(crate) struct Reader {
    delimiter: u8,
    quote: u8,
    /// All bits set if there is a quote byte, otherwise no bit.
    has_quote: u64,
    /// All bits set if a line end in quotes is left to the scanner, otherwise no bit: see
    /// `merged_rows.rs`.
    no_inner_lines: u64,
    /// All bits set inside quotes, otherwise no bit.
    in_quotes: u64,
    /// The start of a field in the block because the field before it has ended: at bit 0, or at bit
    /// 1 after a CR.
    field_starts: u64,
    /// 1 if the byte before is a quote that opens a field.
    after_opening: u64,
    /// 1 if the byte before is a quote that closes a field.
    after_closing: u64,
    /// 1 if the byte before is the CR of CR LF.
    after_cr: u64,
}

/// The masks of a block.
pub(crate) struct Masks {
    /// The first byte of each value, or the byte after an empty one.
    pub(crate) starts: u64,
    /// The byte after the last byte of each value. A field has one bit in each of these two masks.
    pub(crate) ends: u64,
    /// The byte after the last byte of each row: the LF, or the CR of CR LF.
    pub(crate) lines: u64,
    /// The bits of `lines` that are a CR.
    pub(crate) crs: u64,
    /// All LFs, in quotes or not.
    pub(crate) lfs: u64,
    /// The bytes before the first one that has another meaning than this file assumes.
    pub(crate) known: u64,
}

impl Reader {
    /// Reads from the start of a row on. `inner_lines` says whether line ends in quotes may be text.
    pub(crate) fn new(dialect: &Dialect, inner_lines: bool) -> Self {
        Self {
            delimiter: dialect.delimiter,
            quote: dialect.quote.unwrap_or(0),
            has_quote: if dialect.quote.is_some() { !0 } else { 0 },
            no_inner_lines: if dialect.delimiter == b'\t' || !inner_lines { !0 } else { 0 },
            in_quotes: 0,
            field_starts: 1,
            after_opening: 0,
            after_closing: 0,
            after_cr: 0,
        }
    }

    /// The masks of the next block. `real` has a bit for each of its bytes that is in the chunk.
    /// With `CRLF`, CR LF ends a line, and `next` is the byte after the block.
    #[inline(always)]
    pub(crate) fn masks<const CRLF: bool>(
        &mut self,
        block: &[u8; 64],
        real: u64,
        next: Option<u8>,
    ) -> Masks {
        let bytes = Block::<4>::load(block);
        let quotes = bytes.eq(self.quote) & self.has_quote & real;
        let delimiters = bytes.eq(self.delimiter) & real;
        let lfs = bytes.eq(b'\n') & real;
        let (mut lines, mut crs) = (lfs, 0);
        if CRLF {
            crs = bytes.eq(b'\r') & (lfs >> 1 | u64::from(next == Some(b'\n')) << 63);
            lines &= !(crs << 1 | self.after_cr);
        }
        if quotes | self.in_quotes | self.after_closing == 0 {
            let fields = delimiters | lines;
            let starts = fields << 1 | crs << 2 | self.field_starts;
            self.end_block::<CRLF>(fields, crs);
            return Masks { starts, ends: fields | crs, lines: lines | crs, crs, lfs, known: !0 };
        }
        // Set for each byte inside quotes, and for opening quotes, but not for closing quotes.
        let within = prefix_xor(quotes) ^ self.in_quotes;
        let (opening, closing) = (quotes & within, quotes & !within);
        let (lines, crs) = (lines & !within, crs & !within);
        let fields = (delimiters & !within) | lines;
        let ends = fields | crs;
        let starts = fields << 1 | crs << 2 | self.field_starts;
        let after_closing = closing << 1 | self.after_closing;
        // A quote opens where no field starts, or text follows a closing quote.
        let inner_lines = lfs & within & self.no_inner_lines;
        let odd = (opening & !starts) | (after_closing & !ends & real) | inner_lines;
        let masks = Masks {
            starts: (starts & !opening) | opening << 1 | self.after_opening,
            ends: (ends & !after_closing) | closing,
            lines: lines | crs,
            crs,
            lfs,
            known: (odd & odd.wrapping_neg()).wrapping_sub(1),
        };
        self.end_block::<CRLF>(fields, crs);
        self.in_quotes = ((within as i64) >> 63) as u64;
        (self.after_opening, self.after_closing) = (opening >> 63, closing >> 63);
        masks
    }

    /// Remembers where fields start in the next block. `fields` are the ends of fields, without
    /// `crs`.
    #[inline(always)]
    fn end_block<const CRLF: bool>(&mut self, fields: u64, crs: u64) {
        self.field_starts = fields >> 63 | crs >> 62;
        if CRLF {
            self.after_cr = crs >> 63;
        }
    }
}
