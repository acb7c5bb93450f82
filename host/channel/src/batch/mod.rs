//! A batch that is being filled: payload in a sink's memory, and the index of its records.
//!
//! `builder` has the bytes that are decoded, before they become records of the batch. `writer` has
//! the batch, its memory and the sink, and decides by the rule in `cut` when the batch leaves.
//! `large_batches` decides which batches begin in a dedicated buffer.
//! `density` estimates how close together records are. `field_names` names fields in messages.
//! `block_memory` is memory for records that wait, `block_source` a sink that gives such memory,
//! and `copy` copies them.

pub mod block_memory;
pub mod block_source;
pub mod builder;
pub mod copy;
pub mod cut;
pub mod density;
pub mod field_names;
pub mod large_batches;
pub mod writer;

use std::ops::Range;

use pipemill_decode::{DecodedRecords, IN_PAYLOAD};
use pipemill_types::{ABSENT, BatchMemory, BatchPosition, Column, remove_ranges};

use crate::batch::copy::by_field::copy_field;

/// A chunk or payload in the batch's memory starts at a multiple of this many bytes: a cache line,
/// and the alignment that Arrow prefers.
pub(crate) const ALIGN: usize = 64;

/// Records in one piece of memory: of one object, or of several one after the other.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The position of its first record.
    pub start: BatchStart,
    /// Bytes of the memory that the records take, counted from its start.
    pub payload: usize,
    /// One column for each field. Offsets count from the start of the memory. Empty if the index
    /// was written into the memory already.
    pub columns: Vec<Column>,
    /// Byte offset of each record in its object; empty unless the stream was opened with `offsets`.
    pub starts: Vec<u64>,
    /// Number of records.
    pub records: usize,
    /// Number of copies of the last record at the end, which fill the batch.
    pub padding: usize,
    /// Whether a record lacks a field.
    pub absent: bool,
}

/// The position of the first record of a batch, and facts about its object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchStart {
    /// The position of the record. With a shuffle window: the position of the oldest record still
    /// in the window.
    pub position: BatchPosition,
    /// A byte offset in the object at or before the record.
    pub object_offset: u64,
    /// Facts about the object from its decoder: a JSON object of strings; empty if there are none.
    pub metadata: String,
}

impl BatchStart {
    /// Bytes of the facts about the object.
    pub(crate) fn facts(&self) -> usize {
        self.metadata.len() + self.position.identity_text().len()
    }
}

impl Batch {
    /// Number of its epoch, from 0.
    pub fn epoch(&self) -> u32 {
        self.start.position.epoch
    }

    /// Writes the index into the batch's memory, if it has a place there, and returns the batch to
    /// hand over. This batch keeps the memory of its columns.
    pub(crate) fn with_written_index(&mut self, memory: &mut impl BatchMemory) -> Option<Batch> {
        let texts = self.start.position.object.len() + self.start.facts();
        if !memory.write_index(self.payload, texts, &self.columns) {
            return None;
        }
        let columns = std::mem::take(&mut self.columns);
        let written = self.clone();
        self.columns = columns;
        Some(written)
    }

    /// Takes the columns out of the batch's memory, if the index was written there.
    pub(crate) fn take_columns(&mut self, memory: &mut impl BatchMemory) {
        if let Some(columns) = memory.take_index() {
            self.columns = columns;
        }
    }

    /// Removes all records.
    pub(crate) fn restart(&mut self) {
        self.columns.iter_mut().for_each(Column::clear);
        self.starts.clear();
        self.payload = 0;
        self.records = 0;
        self.padding = 0;
        self.absent = false;
    }

    /// Keeps the first `records` records.
    pub(crate) fn truncate(&mut self, records: usize) {
        self.columns.iter_mut().for_each(|column| column.truncate(records));
        self.starts.truncate(records);
        self.records = self.records.min(records);
        self.look_for_absent();
    }

    /// Removes the records in these ranges, which are in order.
    pub(crate) fn remove(&mut self, ranges: &[Range<usize>]) {
        for column in &mut self.columns {
            column.remove(ranges);
        }
        remove_ranges(&mut self.starts, ranges);
        self.records -= ranges.iter().map(Range::len).sum::<usize>();
        self.look_for_absent();
    }

    /// Removes the first `records` records.
    pub(crate) fn remove_first(&mut self, records: usize) {
        self.columns.iter_mut().for_each(|column| column.remove_first(records));
        self.starts.drain(..records.min(self.starts.len()));
        self.records -= records;
        self.start.position.advance(records as u64);
        if records > 0 {
            self.look_for_absent();
        }
    }

    /// Updates `absent` after records were removed.
    fn look_for_absent(&mut self) {
        self.absent = self.absent && self.columns.iter().any(|of| of.has_absent(0..of.len()));
    }

    /// Adds records of a call without copying them. `chunk` and `payload` are the offsets in the
    /// batch's memory of the chunk and of the call's payload. If one of them would begin before the
    /// memory, its offset is a negative number that wraps. `from` is the offset of the chunk in the
    /// object.
    pub(crate) fn add_in_place(
        &mut self,
        decoded: &DecodedRecords,
        records: Range<usize>,
        chunk: usize,
        payload: usize,
        from: u64,
    ) {
        let (chunk, payload) = (chunk as u32, payload as u32);
        let plain = !decoded.has_payload && !decoded.absent;
        for (to, column) in self.columns.iter_mut().zip(&decoded.columns) {
            if let Some(even) = column.even() {
                let to_memory = match even.first & IN_PAYLOAD {
                    0 => chunk,
                    _ => payload.wrapping_sub(IN_PAYLOAD),
                };
                to.extend_even(even.part(&records).moved(to_memory));
                continue;
            }
            let (to_offsets, to_lengths) = to.lists();
            to_lengths.extend_from_slice(&column.lengths()[records.clone()]);
            let offsets = &column.offsets()[records.clone()];
            if plain {
                to_offsets.extend(offsets.iter().map(|offset| offset.wrapping_add(chunk)));
                continue;
            }
            to_offsets.extend(offsets.iter().map(|offset| match *offset {
                ABSENT => ABSENT,
                offset if offset & IN_PAYLOAD != 0 => (offset - IN_PAYLOAD).wrapping_add(payload),
                offset => offset.wrapping_add(chunk),
            }));
        }
        self.count_added(decoded, records, from);
    }

    /// Adds records of a call by copying their values to the end of the payload, field by field.
    pub(crate) fn add_by_field(
        &mut self,
        memory: &mut [u8],
        decoded: &DecodedRecords,
        records: &Range<usize>,
        chunk: &[u8],
        from: u64,
    ) {
        let source = |offset: u32| match offset & IN_PAYLOAD {
            0 => &chunk[offset as usize..],
            _ => &decoded.payload[(offset - IN_PAYLOAD) as usize..],
        };
        for (to, column) in self.columns.iter_mut().zip(&decoded.columns) {
            self.payload = copy_field((column, records), source, to, memory, self.payload);
        }
        self.count_added(decoded, records.clone(), from);
    }

    /// Notes the starts and the number of records that were added, and whether a field is absent.
    fn count_added(&mut self, decoded: &DecodedRecords, records: Range<usize>, from: u64) {
        let is_absent = |column: &Column| column.has_absent(records.clone());
        self.absent |= decoded.absent && decoded.columns.iter().any(is_absent);
        // `starts` is empty, or has one entry for each record.
        let starts = decoded.starts.get(records.clone()).unwrap_or_default();
        self.starts.extend(starts.iter().map(|start| from + u64::from(*start)));
        self.records += records.len();
    }

    /// Adds one record of a call by copying its bytes to the end of the payload.
    pub(crate) fn add_copied(
        &mut self,
        memory: &mut [u8],
        decoded: &DecodedRecords,
        record: usize,
        chunk: &[u8],
        from: u64,
    ) {
        for (to, column) in self.columns.iter_mut().zip(&decoded.columns) {
            let (offset, length) = column.get(record);
            let value = (offset != ABSENT).then(|| {
                let source = if offset & IN_PAYLOAD != 0 { &decoded.payload } else { chunk };
                &source[(offset & !IN_PAYLOAD) as usize..][..length as usize]
            });
            self.absent |= value.is_none();
            push_copy(to, memory, &mut self.payload, value);
        }
        if let Some(start) = decoded.starts.get(record) {
            self.starts.push(from + u64::from(*start));
        }
        self.records += 1;
    }
}

/// Adds a copy of a value to a column. `end` is the offset in the memory at which its bytes are
/// written; it becomes the offset after them.
#[inline]
pub(crate) fn push_copy(
    column: &mut Column,
    memory: &mut [u8],
    end: &mut usize,
    value: Option<&[u8]>,
) {
    let (offset, bytes) = value.map_or((ABSENT, &[][..]), |value| (*end as u32, value));
    column.push(offset, bytes.len() as u32);
    memory[*end..*end + bytes.len()].copy_from_slice(bytes);
    *end += bytes.len();
}
