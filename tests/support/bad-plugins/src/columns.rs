//! Records that are emitted field by field: a sound decoder of blocks of columns, and what may be
//! wrong with columns.
//!
//! A block is `u16 records · u8 how · a u16 for each record · a u32 offset for each and one more ·
//! the bytes between the offsets · a bit for each record`. The fields are the number, the bytes,
//! and the number again where the bit is set.

use std::ops::Range;

use pipemill_plugin::bindings::exports::pipemill::decoder0_1_0::decoder::Progress;
use pipemill_plugin::bindings::pipemill::decoder0_1_0::host;
use pipemill_plugin::bindings::pipemill::decoder0_1_0::types::Field;
use pipemill_plugin::bindings::pipemill::decoder0_3_0::columns::{Column, emit_columns};

use crate::plugin::{field, progress, span, typed};

/// Bit of a span that says: in the payload.
const IN_PAYLOAD: u64 = 1 << 63;
/// Bytes before the columns.
const HEADER: usize = 3;

/// The fields of each misdeed.
pub fn schema(misdeed: &str) -> Vec<Field> {
    match misdeed {
        "columns-shared-schema" => vec![field("a"), field("b")],
        "columns-list-schema" => vec![Field { shape: vec![0], ..typed("words", "utf8") }],
        "columns-flood-schema" => vec![typed("number", "uint8")],
        _ => {
            let number = || typed("number", "uint16");
            let maybe = Field { nullable: true, ..typed("maybe", "uint16") };
            vec![number(), field("bytes"), maybe]
        }
    }
}

/// Where the parts of a block lie in the chunk.
struct Block {
    records: usize,
    how: u8,
    numbers: Range<usize>,
    offsets: Range<usize>,
    values: Range<usize>,
    bits: Range<usize>,
}

impl Block {
    /// The block that begins at `at`, or the bytes that it needs.
    fn find(chunk: &[u8], at: usize) -> Result<Self, usize> {
        let rest = &chunk[at..];
        let header = rest.first_chunk::<HEADER>().ok_or(HEADER)?;
        let records = usize::from(u16::from_le_bytes([header[0], header[1]]));
        let numbers = HEADER..HEADER + 2 * records;
        let offsets = numbers.end..numbers.end + 4 * (records + 1);
        let last = rest.get(offsets.end - 4..offsets.end).ok_or(offsets.end)?;
        let size = u32::from_le_bytes([last[0], last[1], last[2], last[3]]) as usize;
        let values = offsets.end..offsets.end + size;
        let bits = values.end..values.end + records.div_ceil(8);
        if bits.end > rest.len() {
            return Err(bits.end);
        }
        let there = |range: Range<usize>| at + range.start..at + range.end;
        let [numbers, offsets, values, bits] = [numbers, offsets, values, bits].map(there);
        Ok(Self { records, how: header[2], numbers, offsets, values, bits })
    }

    /// Emits the records as `how` says: from the chunk, made, or one by one. `made` is the number of
    /// bytes that the payload of the call has.
    fn emit(&self, chunk: &[u8], start: usize, made: &mut usize) {
        let records = self.records as u32;
        let of = |range: &Range<usize>| span(range.start as u32, range.len() as u32);
        let parts = [&self.numbers, &self.offsets, &self.values, &self.bits];
        match self.how % 4 {
            0 => {
                let [numbers, offsets, values, present] = parts.map(of);
                columns(records, numbers, offsets, values, present, &[], start);
            }
            1 => {
                let payload = parts.map(|range| &chunk[range.clone()]).concat();
                let mut at = place_of(&payload, *made);
                let [numbers, offsets, values, present] = parts.map(|range| {
                    at += range.len();
                    IN_PAYLOAD | span((at - range.len()) as u32, range.len() as u32)
                });
                columns(records, numbers, offsets, values, present, &payload, start);
                *made = at;
            }
            2 => {
                // The values are made, all else is not.
                let payload = &chunk[self.values.clone()];
                let at = place_of(payload, *made);
                let [numbers, offsets, _, present] = parts.map(of);
                let values = IN_PAYLOAD | span(at as u32, payload.len() as u32);
                columns(records, numbers, offsets, values, present, payload, start);
                *made = at + payload.len();
            }
            _ => self.emit_rows(chunk, start, made),
        }
    }

    fn emit_rows(&self, chunk: &[u8], start: usize, made: &mut usize) {
        let place = |at: usize| {
            let at = self.offsets.start + 4 * at;
            u32::from_le_bytes([chunk[at], chunk[at + 1], chunk[at + 2], chunk[at + 3]])
        };
        // In the chunk, records must lie in their order.
        let payload = chunk[self.numbers.start..self.values.end].to_vec();
        let base = *made as u32;
        let values = (self.values.start - self.numbers.start) as u32;
        let spans: Vec<u64> = (0..self.records)
            .flat_map(|at| {
                let number = IN_PAYLOAD | span(base + 2 * at as u32, 2);
                let (from, end) = (place(at), place(at + 1));
                let bytes = IN_PAYLOAD | span(base + values + from, end - from);
                let is_there = chunk[self.bits.start + at / 8] >> (at % 8) & 1 == 1;
                [number, bytes, if is_there { number } else { u64::MAX }]
            })
            .collect();
        let starts = vec![start as u32; self.records];
        host::emit(self.records as u32, &spans, &payload, &starts);
        *made += payload.len();
    }
}

fn columns(
    records: u32,
    numbers: u64,
    offsets: u64,
    values: u64,
    present: u64,
    payload: &[u8],
    start: usize,
) {
    let columns = [
        Column { values: numbers, offsets: 0, present: 0 },
        Column { values, offsets, present: 0 },
        Column { values: numbers, offsets: 0, present },
    ];
    emit_columns(records, &columns, payload, start as u32);
}

/// Where this payload begins in that of the call, which has `made` bytes.
fn place_of(payload: &[u8], made: usize) -> usize {
    if payload.is_empty() { made } else { made.next_multiple_of(64) }
}

/// Emits the blocks that lie whole in the chunk.
fn blocks(chunk: &[u8]) -> Progress {
    let (mut at, mut made) = (0, 0);
    loop {
        let block = match Block::find(chunk, at) {
            Ok(block) => block,
            Err(need) => return progress(at as u32, need as u32),
        };
        block.emit(chunk, at, &mut made);
        at = block.bits.end;
    }
}

/// Emits two records, with something wrong. The payload has two numbers, three offsets and four
/// bytes.
fn two(change: impl FnOnce(&mut [Column; 3])) {
    let payload = [&[1, 0, 2, 0][..], &[0, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0], b"abcd"].concat();
    let made = |from: u32, length: u32| IN_PAYLOAD | span(from, length);
    let mut columns = [
        Column { values: made(0, 4), offsets: 0, present: 0 },
        Column { values: made(16, 4), offsets: made(4, 12), present: 0 },
        Column { values: made(0, 4), offsets: 0, present: 0 },
    ];
    change(&mut columns);
    emit_columns(2, &columns, &payload, 0);
}

/// What this decoder does with a chunk; `None` if it does not know the misdeed.
pub fn at_decode(misdeed: &str, chunk: &[u8]) -> Option<Progress> {
    let made = |from: u32, length: u32| IN_PAYLOAD | span(from, length);
    match misdeed {
        "columns-schema" => return Some(blocks(chunk)),
        "columns-few-schema" => emit_columns(0, &[], &[], 0),
        "columns-outside-schema" => two(|columns| columns[0].values = span(15, 4)),
        "columns-far-outside-schema" => two(|columns| columns[0].values = u64::MAX),
        "columns-offsets-outside-schema" => two(|columns| columns[1].offsets = made(12, 12)),
        "columns-bits-outside-schema" => two(|columns| columns[2].present = span(16, 1)),
        "columns-short-schema" => two(|columns| columns[0].values = made(0, 3)),
        "columns-few-offsets-schema" => two(|columns| columns[1].offsets = made(4, 8)),
        "columns-no-offsets-schema" => two(|columns| columns[1].offsets = 0),
        "columns-back-schema" => two(|columns| columns[1].offsets = made(0, 12)),
        "columns-beyond-schema" => two(|columns| columns[1].values = made(16, 3)),
        "columns-no-bits-schema" => two(|columns| columns[2].present = span(0, 0) | 1 << 32),
        "columns-absent-schema" => two(|columns| columns[0].present = made(4, 1)),
        "columns-shared-schema" => {
            let column = || Column { values: made(8, 40_000), offsets: made(0, 8), present: 0 };
            let offsets = [0u32.to_le_bytes(), 40_000u32.to_le_bytes()].concat();
            emit_columns(1, &[column(), column()], &[&offsets[..], &[7; 40_000]].concat(), 0);
        }
        "columns-list-schema" => {
            let payload = [&0u32.to_le_bytes()[..], &9u32.to_le_bytes(), b"\x08\0\0\0\x0b\0\0\0x"];
            let column = Column { values: made(8, 9), offsets: made(0, 8), present: 0 };
            emit_columns(1, &[column], &payload.concat(), 0);
        }
        "columns-flood-schema" => {
            let column = Column { values: made(0, 200_000), offsets: 0, present: 0 };
            emit_columns(200_000, &[column], &[7; 200_000], 0);
        }
        "columns-many-schema" => {
            // 8 bytes of a column are as good as any number of records.
            let column = || Column { values: made(0, 8), offsets: 0, present: 0 };
            emit_columns(u32::MAX, &[column(), column(), column()], &[7; 8], 0);
        }
        _ => return None,
    }
    Some(progress(chunk.len() as u32, 1))
}
