//! A decoded block, and the sink that takes it from its channel.

use std::sync::Arc;

use pipemill_channel::{Batch, SinkDelivery, SinkMemory, StopReason};
use pipemill_types::{ABSENT, Column, Field};

use crate::numbers::WantedBlock;
use crate::spare::SpareMemory;

/// Smallest and largest memory of a batch, in bytes. Most blocks fit into one.
const BATCH_MEMORY: (u64, u64) = (64 << 10, 16 << 20);
/// Bytes of the memory beyond those of a block: a decoder is shown some bytes after it.
const BEYOND: u64 = 16 << 10;

/// Records of a block that follow each other.
pub(crate) struct Part {
    /// Number of the first one in its object.
    first: u64,
    /// Number of records.
    records: u64,
    columns: Vec<Column>,
    memory: Vec<u8>,
    /// Takes the memory back.
    spare: Option<SpareMemory>,
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(spare) = &self.spare {
            spare.give(std::mem::take(&mut self.memory));
        }
    }
}

impl Part {
    /// The records of a batch, which lie in this memory.
    pub(crate) fn of(mut batch: Batch, mut memory: Vec<u8>, spare: SpareMemory) -> Self {
        SpareMemory::cut(&mut memory, batch.payload);
        for column in &mut batch.columns {
            column.shrink_to_fit();
        }
        let (first, records) = (batch.start.position.first_record, batch.records as u64);
        Self { first, records, columns: batch.columns, memory, spare: Some(spare) }
    }

    /// One record of it, in memory of its own.
    fn only(&self, row: usize) -> Self {
        let mut memory = Vec::new();
        let column = |field| {
            let (offset, value) = match self.value(row, field) {
                Some(value) => (memory.len() as u32, value),
                None => (ABSENT, &[][..]),
            };
            memory.extend_from_slice(value);
            Column::of_lists(vec![offset], vec![value.len() as u32])
        };
        let columns = (0..self.columns.len()).map(column).collect();
        Self { first: self.first + row as u64, records: 1, columns, memory, spare: None }
    }

    /// The value of a field; `None` if the record of this row does not have it.
    pub(crate) fn value(&self, row: usize, field: usize) -> Option<&[u8]> {
        let column = &self.columns[field];
        let (offset, length) = column.get(row);
        (offset != ABSENT).then(|| &self.memory[offset as usize..][..length as usize])
    }

    /// The length of this value: 0 if the record does not have it.
    pub(crate) fn length(&self, row: usize, field: usize) -> u32 {
        self.columns[field].get(row).1
    }

    fn bytes(&self) -> u64 {
        let index = self.columns.len() * 8 * self.records as usize;
        (size_of::<Self>() + self.memory.capacity() + index) as u64
    }
}

/// The records of a block: all of them, or some.
#[derive(Default)]
pub(crate) struct DecodedBlock {
    /// In the order of their records.
    parts: Vec<Part>,
    /// Bytes that it takes in memory.
    pub(crate) bytes: u64,
    /// Whether records are missing that were not wanted.
    pub(crate) is_partial: bool,
}

impl DecodedBlock {
    fn push(&mut self, part: Part) {
        self.bytes += part.bytes();
        self.parts.push(part);
    }

    /// The part that has this record of the object, and the row there.
    pub(crate) fn find(&self, record: u64) -> Option<(&Part, usize)> {
        let after = self.parts.partition_point(|part| part.first <= record);
        let part = self.parts[..after].last()?;
        let row = record - part.first;
        (row < part.records).then_some((part, row as usize))
    }

    /// These records alone, in memory of their own. `None` if one is missing.
    pub(crate) fn only(&self, records: &[u64]) -> Option<Self> {
        let mut only = Self { is_partial: true, ..Self::default() };
        for record in records {
            let (part, row) = self.find(*record)?;
            only.push(part.only(row));
        }
        Some(only)
    }
}

/// Takes the blocks of a list, one after the other, from the channel that decodes them.
pub(crate) struct BlockSink<'a> {
    wanted: &'a [WantedBlock],
    /// Bytes of a block up to which all of its records are kept.
    limit: u64,
    /// Bytes of the memory of a batch.
    batch_bytes: usize,
    spare: SpareMemory,
    pub(crate) blocks: Vec<DecodedBlock>,
}

impl<'a> BlockSink<'a> {
    /// `likely_bytes`: of the largest block.
    pub(crate) fn new(
        wanted: &'a [WantedBlock],
        limit: u64,
        likely_bytes: u64,
        spare: SpareMemory,
    ) -> Self {
        let blocks = wanted.iter().map(|_| DecodedBlock::default()).collect();
        let batch_bytes =
            likely_bytes.saturating_add(BEYOND).clamp(BATCH_MEMORY.0, BATCH_MEMORY.1) as usize;
        Self { wanted, limit, batch_bytes, spare, blocks }
    }
}

impl SinkMemory for BlockSink<'_> {
    type Memory = Vec<u8>;

    fn memory(&mut self) -> Result<Vec<u8>, StopReason> {
        Ok(self.spare.take(self.batch_bytes))
    }

    fn dedicated_memory(&mut self, payload: usize, _: usize) -> Result<Vec<u8>, StopReason> {
        Ok(vec![0; payload])
    }

    fn grow(&mut self, memory: &mut Vec<u8>, payload: usize) -> Result<(), StopReason> {
        memory.resize(payload.max(2 * memory.len()), 0);
        Ok(())
    }

    fn room(&self, memory: &Vec<u8>, _: usize, _: usize, _: usize) -> Option<usize> {
        Some(memory.len())
    }
}

impl SinkDelivery for BlockSink<'_> {
    /// The fields are known before.
    fn schema(&mut self, _: &Arc<[Field]>) {}

    fn grant(&mut self, memory: Vec<u8>, batch: &mut Batch) -> Result<(), StopReason> {
        let position = &batch.start.position;
        // The number is that of a list in memory.
        let number = position.object_number as usize;
        let (Some(wanted), Some(block)) = (self.wanted.get(number), self.blocks.get_mut(number))
        else {
            return Ok(());
        };
        let first = position.first_record;
        let wanted = wanted.wanted_of(first, batch.records as u64);
        block.is_partial |= block.bytes + batch.payload as u64 > self.limit;
        // The caller fills this one in its place.
        let columns = vec![Column::default(); batch.columns.len()];
        let next = Batch { columns, ..Batch::default() };
        let part = Part::of(std::mem::replace(batch, next), memory, self.spare.clone());
        if !block.is_partial {
            block.push(part);
            return Ok(());
        }
        for record in wanted {
            block.push(part.only((record - first) as usize));
        }
        Ok(())
    }

    fn has_demand(&self) -> bool {
        false
    }

    fn wants_epoch_end(&self, _: u32) -> bool {
        false
    }

    fn end_epoch(&mut self, _: u32, _: bool) -> Result<(), StopReason> {
        Ok(())
    }
}
