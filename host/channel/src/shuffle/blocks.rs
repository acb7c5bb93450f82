//! The memory of a window: blocks of records in the order of their arrival. A block that the decoder
//! filled with values becomes a block of the window as it is. Else its records are copied to a
//! compact block, so that all blocks together take little more than the values and their index.

use std::collections::VecDeque;

use pipemill_types::{ABSENT, Column};

use super::queue::RecordPlace;
use crate::batch::{Batch, BatchStart};
use crate::block_memory::{BlockMemory, Bytes, has_room_for_index};

/// A block is compact if its values take at least 7/8 of its memory.
const COMPACT: (usize, usize) = (7, 8);
/// A value or record above this part of a block has a compact block of its own.
const LARGE_PART: usize = 8;
/// Where the values of a block's records lie in its memory.
#[derive(Default)]
struct Index {
    columns: Vec<Column>,
    /// Byte offset of each record in its object; empty unless the stream was opened with `offsets`.
    starts: Vec<u64>,
}

impl Index {
    fn clear(&mut self) {
        for column in &mut self.columns {
            column.offsets.clear();
            column.lengths.clear();
        }
        self.starts.clear();
    }

    /// Adds records of a batch whose memory becomes the block's.
    fn extend(&mut self, batch: &Batch) {
        self.columns.resize_with(batch.columns.len(), Column::default);
        for (to, from) in self.columns.iter_mut().zip(&batch.columns) {
            extend_exact(&mut to.offsets, &from.offsets);
            extend_exact(&mut to.lengths, &from.lengths);
        }
        extend_exact(&mut self.starts, &batch.starts);
    }

    /// Gives memory back that is much larger than the records need.
    fn trim(&mut self) {
        for column in &mut self.columns {
            trim(&mut column.offsets);
            trim(&mut column.lengths);
        }
        trim(&mut self.starts);
    }

    #[cfg(test)]
    fn held_bytes(&self) -> usize {
        let of_column =
            |column: &Column| 4 * (column.offsets.capacity() + column.lengths.capacity());
        self.columns.iter().map(of_column).sum::<usize>() + 8 * self.starts.capacity()
    }
}

fn extend_exact<T: Copy>(list: &mut Vec<T>, more: &[T]) {
    list.reserve_exact(more.len());
    list.extend_from_slice(more);
    trim(list);
}

fn trim<T>(list: &mut Vec<T>) {
    let most = list.len() + list.len() / 8 + 64;
    if list.capacity() > most {
        list.shrink_to(most);
    }
}

/// Records that came one after the other.
pub(super) struct Block {
    memory: Bytes,
    index: Index,
    /// Bytes of the values, in a block that is being filled.
    used: usize,
    /// Where its first record comes from.
    start: BatchStart,
    /// Number of records that came in the epoch before its first one.
    arrived_before: u64,
    /// Number of records.
    records: u32,
    /// Records that have not left.
    remaining: u32,
}

impl Block {
    fn new(memory: Bytes, index: Index, start: &BatchStart, skipped: u64, before: u64) -> Self {
        let mut start = start.clone();
        start.first_record += skipped;
        start.restart_records += skipped;
        let (used, records, remaining) = (0, 0, 0);
        Self { memory, index, used, start, arrived_before: before, records, remaining }
    }

    /// The value of a field; `None` if the record does not have it.
    pub(super) fn value(&self, field: usize, record: u32) -> Option<&[u8]> {
        let column = &self.index.columns[field];
        let (offset, length) = (column.offsets[record as usize], column.lengths[record as usize]);
        let from = offset as usize;
        (offset != ABSENT).then(|| &self.memory[from..from + length as usize])
    }

    /// The length of a field's value: 0 if the record does not have it.
    pub(super) fn length(&self, field: usize, record: u32) -> u32 {
        self.index.columns[field].lengths[record as usize]
    }

    /// Byte offset of the record in its object, if offsets are kept.
    pub(super) fn start_of(&self, record: u32) -> Option<u64> {
        self.index.starts.get(record as usize).copied()
    }

    /// Copies a record of a batch to the end.
    fn push(&mut self, memory: &[u8], batch: &Batch, record: usize) {
        for (to, from) in self.index.columns.iter_mut().zip(&batch.columns) {
            let (offset, length) = (from.offsets[record], from.lengths[record]);
            to.lengths.push(length);
            if offset == ABSENT {
                to.offsets.push(ABSENT);
                continue;
            }
            let (from, end) = (offset as usize, self.used + length as usize);
            self.memory[self.used..end].copy_from_slice(&memory[from..from + length as usize]);
            to.offsets.push(self.used as u32);
            self.used = end;
        }
        self.index.starts.extend(batch.starts.get(record));
        self.records += 1;
        self.remaining += 1;
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
    blocks: VecDeque<Block>,
    /// Number of the first of `blocks`.
    first: u32,
    /// The last block is compact, and has memory left.
    is_open: bool,
    /// Number of records that came in the epoch.
    arrived: u64,
    /// Memory and indexes that are used again.
    spare: Vec<Bytes>,
    spare_index: Vec<Index>,
    /// Bytes of other memory that was taken, less than a block: whole blocks of `spare` were given
    /// back for the rest.
    owed: usize,
    /// Bytes of memory, and of those in use by the decoder, for the tests.
    #[cfg(test)]
    lent: usize,
}

impl Blocks {
    pub(super) fn new(block_bytes: usize) -> Self {
        Self {
            block_bytes,
            blocks: VecDeque::new(),
            first: 0,
            is_open: false,
            arrived: 0,
            spare: Vec::new(),
            spare_index: Vec::new(),
            owed: 0,
            #[cfg(test)]
            lent: 0,
        }
    }

    /// Memory for the decoder's next records.
    pub(super) fn memory(&mut self) -> BlockMemory {
        let bytes = self.new_memory();
        #[cfg(test)]
        {
            self.lent += bytes.len();
        }
        bytes.into()
    }

    /// Memory of at least this size, for records that fit into no other.
    pub(super) fn dedicated_memory(&mut self, bytes: usize) -> BlockMemory {
        self.give_back(bytes);
        BlockMemory::dedicated(bytes)
    }

    fn new_memory(&mut self) -> Bytes {
        self.spare.pop().unwrap_or_else(|| Bytes::new(self.block_bytes))
    }

    /// Memory of this size will be taken: gives back as much that is spare.
    fn give_back(&mut self, bytes: usize) {
        self.owed += bytes;
        while self.owed >= self.block_bytes {
            self.owed -= self.block_bytes;
            self.spare.pop();
            self.spare_index.pop();
        }
    }

    /// The block of this number. It has records that have not left.
    pub(super) fn get(&self, number: u32) -> &Block {
        &self.blocks[number.wrapping_sub(self.first) as usize]
    }

    /// The place from which the oldest record that has not left can be decoded again, with the
    /// number of records that came in the epoch before it.
    pub(super) fn oldest(&self) -> Option<(&BatchStart, u64)> {
        self.blocks.front().map(|block| (&block.start, block.arrived_before))
    }

    /// Takes a batch of the decoder: `lengths` has the bytes of each record's values. Adds to
    /// `segments` where its records are now.
    pub(super) fn add(
        &mut self,
        memory: BlockMemory,
        batch: &Batch,
        lengths: &[u64],
        segments: &mut Vec<Segment>,
    ) {
        #[cfg(test)]
        if !memory.is_dedicated() {
            self.lent -= memory.as_ref().len();
        }
        let memory = memory.into_bytes();
        let values = lengths.iter().sum::<u64>() as usize;
        if is_compact(values, memory.len()) {
            self.close();
            let mut index = self.spare_index.pop().unwrap_or_default();
            index.extend(batch);
            let mut block = Block::new(memory, index, &batch.start, 0, self.arrived);
            (block.records, block.remaining) = (batch.records as u32, batch.records as u32);
            segments.push(Segment { first: self.next_place(), records: block.records });
            self.arrived += u64::from(block.records);
            self.blocks.push_back(block);
            return;
        }
        for (record, length) in lengths.iter().enumerate() {
            let opens = !self.has_room(*length as usize, batch.columns.len());
            if opens {
                self.open(*length as usize, batch, record as u64);
            }
            let number = self.last_number();
            let Some(block) = self.blocks.back_mut() else { continue };
            match segments.last_mut() {
                Some(segment) if !opens && record > 0 => segment.records += 1,
                _ => {
                    let first = RecordPlace { block: number, record: block.records };
                    segments.push(Segment { first, records: 1 });
                }
            }
            block.push(&memory, batch, record);
            self.arrived += 1;
        }
        self.recycle(memory);
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
        let Some(block) = self.blocks.back().filter(|_| self.is_open) else { return false };
        block.used + length <= block.memory.len()
            && has_room_for_index(block.records as usize + 1, fields, self.block_bytes)
    }

    /// Begins a compact block with the record of this number in the batch.
    fn open(&mut self, length: usize, batch: &Batch, record: u64) {
        self.close();
        let is_large = length > self.block_bytes / LARGE_PART;
        let (memory, mut index) = if is_large {
            self.give_back(length);
            (Bytes::Heap(vec![0; length]), Index::default())
        } else {
            (self.new_memory(), self.spare_index.pop().unwrap_or_default())
        };
        index.columns.resize_with(batch.columns.len(), Column::default);
        self.blocks.push_back(Block::new(memory, index, &batch.start, record, self.arrived));
        self.is_open = true;
    }

    /// Ends the block that is being filled. It gives back memory that it did not use.
    fn close(&mut self) {
        let is_open = std::mem::replace(&mut self.is_open, false);
        let Some(block) = self.blocks.back_mut().filter(|_| is_open) else { return };
        block.index.trim();
        if !is_compact(block.used, block.memory.len()) {
            let exact = block.memory[..block.used].to_vec();
            let bytes = exact.len();
            let memory = std::mem::replace(&mut block.memory, Bytes::Heap(exact));
            self.recycle(memory);
            self.give_back(bytes);
        }
    }

    /// The record has left. Returns nothing of its block but its memory, once all have left.
    pub(super) fn leave(&mut self, place: RecordPlace) {
        let at = place.block.wrapping_sub(self.first) as usize;
        let block = &mut self.blocks[at];
        block.remaining -= 1;
        if block.remaining > 0 {
            return;
        }
        let (memory, mut index) =
            (std::mem::take(&mut block.memory), std::mem::take(&mut block.index));
        if at + 1 == self.blocks.len() {
            self.is_open = false;
        }
        index.clear();
        if memory.len() == self.block_bytes {
            self.spare_index.push(index);
        }
        self.recycle(memory);
        while self.blocks.front().is_some_and(|block| block.remaining == 0) {
            self.blocks.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }

    fn recycle(&mut self, memory: Bytes) {
        if memory.len() == self.block_bytes {
            self.spare.push(memory);
        }
    }

    /// Removes all records: the next one is the first of an epoch.
    pub(super) fn clear(&mut self) {
        for block in std::mem::take(&mut self.blocks) {
            self.recycle(block.memory);
        }
        (self.first, self.is_open, self.arrived) = (0, false, 0);
    }

    /// Bytes of memory that are held: of values, and of the index.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        let of_block = |block: &Block| block.memory.len() + block.index.held_bytes();
        self.blocks.iter().map(of_block).sum::<usize>()
            + self.spare.iter().map(|memory| memory.len()).sum::<usize>()
            + self.spare_index.iter().map(Index::held_bytes).sum::<usize>()
            + self.lent
    }
}

/// Whether values of this many bytes fill memory of this size well.
fn is_compact(values: usize, memory: usize) -> bool {
    values >= memory / COMPACT.1 * COMPACT.0
}
