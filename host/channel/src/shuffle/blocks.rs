//! The memory of a window: blocks of records in the order of their arrival. A block that the
//! decoder filled with values becomes a block of the window without a copy. Otherwise its records
//! are copied to a compact block, so that all blocks together take little more than the values and
//! their index.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pipemill_types::{ABSENT, Column};

use super::queue::RecordPlace;
use super::selected::Selected;
use super::spare::SpareMemory;
use crate::batch::block_memory::{BlockMemory, Bytes, has_room_for_index};
use crate::batch::{Batch, BatchStart};

/// A block is compact if its values take at least 7/8 of its memory.
const COMPACT: (usize, usize) = (7, 8);
/// A record or value larger than a block divided by this has a compact block of its own.
const LARGE_PART: usize = 8;
/// The places of the values of a block's records in its memory.
#[derive(Default)]
struct Index {
    columns: Vec<Column>,
    /// Byte offset of each record in its object; empty unless the stream was opened with `offsets`.
    starts: Vec<u64>,
}

impl Index {
    /// The index of a batch.
    fn of(batch: Batch) -> Self {
        let mut index = Self { columns: batch.columns, starts: batch.starts };
        index.trim();
        index
    }

    /// Gives back memory that is much larger than the records need.
    fn trim(&mut self) {
        for column in &mut self.columns {
            if column.even().is_none() {
                let (offsets, lengths) = column.lists();
                trim(offsets);
                trim(lengths);
            }
        }
        trim(&mut self.starts);
    }

    #[cfg(test)]
    fn held_bytes(&self) -> usize {
        self.columns.iter().map(Column::allocated).sum::<usize>() + 8 * self.starts.capacity()
    }
}

fn trim<T>(list: &mut Vec<T>) {
    let most = list.len() + list.len() / 8 + 64;
    if list.capacity() > most {
        list.shrink_to(most);
    }
}

/// Records that arrived one after the other.
pub(super) struct Block {
    memory: Bytes,
    index: Index,
    /// Bytes of the values, in a block that is being filled.
    used: usize,
    /// Number of records.
    records: u32,
    /// Takes the block's memory back in the end.
    home: BlockHome,
}

/// Takes back the memory of blocks, once no batch is filled from them any more.
#[derive(Clone)]
struct BlockHome {
    spare: SpareMemory,
    /// Bytes of the memory of all blocks that are there.
    held: Arc<AtomicU64>,
}

impl Drop for Block {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        self.home.held.fetch_sub(memory.len() as u64, Ordering::Relaxed);
        self.home.spare.give(memory);
    }
}

/// A block with records that have not left, and their number.
struct LiveBlock {
    /// `None` once all have left. Batches that are being filled share it.
    block: Option<Arc<Block>>,
    remaining: u32,
    /// The position of its first record.
    start: BatchStart,
    /// Number of records that came in the epoch before its first one.
    arrived_before: u64,
}

impl LiveBlock {
    /// The block, if no batch is filled from it.
    fn block_mut(&mut self) -> Option<&mut Block> {
        self.block.as_mut().and_then(Arc::get_mut)
    }
}

impl Block {
    fn new(memory: Bytes, index: Index, home: BlockHome) -> Self {
        home.held.fetch_add(memory.len() as u64, Ordering::Relaxed);
        Self { memory, index, used: 0, records: 0, home }
    }

    /// The value of a field; `None` if the record does not have it.
    pub(super) fn value(&self, field: usize, record: u32) -> Option<&[u8]> {
        let column = &self.index.columns[field];
        let (offset, length) = column.get(record as usize);
        let from = offset as usize;
        (offset != ABSENT).then(|| &self.memory[from..from + length as usize])
    }

    /// The length of a field's value: 0 if the record does not have it.
    pub(super) fn length(&self, field: usize, record: u32) -> u32 {
        self.index.columns[field].get(record as usize).1
    }

    /// Byte offset of the record in its object, if offsets are kept.
    pub(super) fn start_of(&self, record: u32) -> Option<u64> {
        self.index.starts.get(record as usize).copied()
    }

    /// Copies a record of a batch to the end.
    fn push(&mut self, memory: &[u8], batch: &Batch, record: usize) {
        for (to, from) in self.index.columns.iter_mut().zip(&batch.columns) {
            let (offset, length) = from.get(record);
            if offset == ABSENT {
                to.push(ABSENT, length);
                continue;
            }
            let (from, end) = (offset as usize, self.used + length as usize);
            self.memory[self.used..end].copy_from_slice(&memory[from..from + length as usize]);
            to.push(self.used as u32, length);
            self.used = end;
        }
        self.index.starts.extend(batch.starts.get(record));
        self.records += 1;
    }
}

/// Records of a batch that became a part of one block.
pub(super) struct Segment {
    /// The place of the first one.
    pub(super) first: RecordPlace,
    /// Number of records.
    pub(super) records: u32,
}

/// The blocks of a window.
pub(super) struct Blocks {
    /// Bytes of a block that is not dedicated.
    block_bytes: usize,
    /// In the order of their arrival, from the oldest one with records that have not left.
    blocks: VecDeque<LiveBlock>,
    /// Number of the first of `blocks`.
    first: u32,
    /// The last block is compact, and has memory left.
    is_open: bool,
    /// Number of records that came in the epoch.
    arrived: u64,
    /// Bytes of the values' memory, of all blocks.
    bytes: u64,
    /// Memory that is used again.
    spare: SpareMemory,
    home: BlockHome,
}

impl Blocks {
    pub(super) fn new(spare: SpareMemory) -> Self {
        Self {
            block_bytes: spare.block_bytes(),
            blocks: VecDeque::new(),
            first: 0,
            is_open: false,
            arrived: 0,
            bytes: 0,
            home: BlockHome { spare: spare.clone(), held: Arc::default() },
            spare,
        }
    }

    /// Bytes of the memory that all values are in.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the memory of blocks that all records have left, for batches that are being filled.
    pub(super) fn left_bytes(&self) -> u64 {
        self.home.held.load(Ordering::Relaxed).saturating_sub(self.bytes)
    }

    /// Selects these records, which have not left, so that any thread can copy them. The block that
    /// is being filled gets no more records.
    pub(super) fn select(&mut self, places: &[RecordPlace]) -> Selected {
        let at = |place: &RecordPlace| place.block.wrapping_sub(self.first);
        let (first, last) = places
            .iter()
            .map(at)
            .fold((u32::MAX, 0), |(first, last), at| (first.min(at), last.max(at)));
        if last as usize + 1 == self.blocks.len() {
            self.close();
        }
        let first = first.min(last);
        let blocks = self.blocks.range(first as usize..).take((last - first) as usize + 1);
        let blocks = blocks.map(|live| live.block.clone()).collect();
        let number = self.first.wrapping_add(first);
        let place = |place: &RecordPlace| (place.block.wrapping_sub(number), place.record);
        Selected { blocks, places: places.iter().map(place).collect() }
    }

    /// The place from which the oldest record that has not left can be decoded again, with the
    /// number of records that came in the epoch before it.
    pub(super) fn oldest(&self) -> Option<(&BatchStart, u64)> {
        self.blocks.front().map(|live| (&live.start, live.arrived_before))
    }

    /// Takes a batch of the decoder. `lengths` has the bytes of each record's values. Adds the
    /// places of its records to `segments`.
    pub(super) fn add(
        &mut self,
        memory: BlockMemory,
        mut batch: Batch,
        lengths: &[u64],
        segments: &mut Vec<Segment>,
    ) {
        #[cfg(test)]
        self.spare.returned(&memory);
        let memory = memory.into_bytes();
        let values = lengths.iter().sum::<u64>() as usize;
        if is_compact(values, memory.len()) {
            self.close();
            let records = batch.records as u32;
            let start = std::mem::take(&mut batch.start);
            let mut block = Block::new(memory, Index::of(batch), self.home.clone());
            block.records = records;
            self.bytes += block.memory.len() as u64;
            segments.push(Segment { first: self.next_place(), records });
            self.push(block, start, records);
            self.arrived += u64::from(records);
            return;
        }
        for (record, length) in lengths.iter().enumerate() {
            let opens = !self.has_room(*length as usize, batch.columns.len());
            if opens {
                self.open(*length as usize, &batch, record as u64);
            }
            let number = self.last_number();
            let Some(live) = self.blocks.back_mut() else { continue };
            live.remaining += 1;
            // No batch is filled from a block that is open.
            let Some(block) = live.block_mut() else { continue };
            match segments.last_mut() {
                Some(segment) if !opens && record > 0 => segment.records += 1,
                _ => {
                    let first = RecordPlace { block: number, record: block.records };
                    segments.push(Segment { first, records: 1 });
                }
            }
            block.push(&memory, &batch, record);
            self.arrived += 1;
        }
        self.spare.give(memory);
    }

    /// Adds a block whose first record is the next one.
    fn push(&mut self, block: Block, start: BatchStart, remaining: u32) {
        let (block, arrived_before) = (Some(Arc::new(block)), self.arrived);
        self.blocks.push_back(LiveBlock { block, remaining, start, arrived_before });
    }

    /// The place of the first record of the next block.
    fn next_place(&self) -> RecordPlace {
        RecordPlace { block: self.first.wrapping_add(self.blocks.len() as u32), record: 0 }
    }

    fn last_number(&self) -> u32 {
        self.next_place().block.wrapping_sub(1)
    }

    /// Whether the last block has room for one more record of this length.
    fn has_room(&self, length: usize, fields: usize) -> bool {
        let open = self.blocks.back().filter(|_| self.is_open);
        let Some(block) = open.and_then(|live| live.block.as_ref()) else { return false };
        block.used + length <= block.memory.len()
            && has_room_for_index(block.records as usize + 1, fields, self.block_bytes)
    }

    /// Begins a compact block with the record of this number in the batch.
    fn open(&mut self, length: usize, batch: &Batch, record: u64) {
        self.close();
        let is_large = length > self.block_bytes / LARGE_PART;
        let memory = if is_large { self.spare.other(length) } else { self.spare.take() };
        let mut index = Index::default();
        index.columns.resize_with(batch.columns.len(), Column::default);
        let mut start = batch.start.clone();
        start.position.advance(record);
        self.bytes += memory.len() as u64;
        self.push(Block::new(memory, index, self.home.clone()), start, 0);
        self.is_open = true;
    }

    /// Ends the block that is being filled. It gives back memory that it did not use.
    fn close(&mut self) {
        let is_open = std::mem::replace(&mut self.is_open, false);
        let open = self.blocks.back_mut().filter(|_| is_open);
        let Some(block) = open.and_then(LiveBlock::block_mut) else { return };
        block.index.trim();
        if !is_compact(block.used, block.memory.len()) {
            let memory = std::mem::take(&mut block.memory);
            let unused = (memory.len() - block.used) as u64;
            self.bytes -= unused;
            self.home.held.fetch_sub(unused, Ordering::Relaxed);
            block.memory = self.spare.shrink(memory, block.used);
        }
    }

    /// Notes that the record has left. Drops its block once all records of the block have left.
    pub(super) fn leave(&mut self, place: RecordPlace) {
        let at = place.block.wrapping_sub(self.first) as usize;
        let live = &mut self.blocks[at];
        live.remaining -= 1;
        if live.remaining > 0 {
            return;
        }
        let block = live.block.take();
        self.bytes -= block.as_ref().map_or(0, |block| block.memory.len() as u64);
        if at + 1 == self.blocks.len() {
            self.is_open = false;
        }
        while self.blocks.front().is_some_and(|live| live.remaining == 0) {
            self.blocks.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }

    /// Removes all records: the next one is the first of an epoch.
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        (self.first, self.is_open, self.arrived, self.bytes) = (0, false, 0, 0);
    }

    /// Bytes of memory that are held: of values, and of the index.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        let of_block = |block: &Block| block.memory.len() + block.index.held_bytes();
        let blocks = self.blocks.iter().filter_map(|live| live.block.as_deref());
        blocks.map(of_block).sum::<usize>() + self.spare.held_bytes()
    }
}

/// Whether values of this many bytes fill memory of this size well.
fn is_compact(values: usize, memory: usize) -> bool {
    values >= memory / COMPACT.1 * COMPACT.0
}
