//! Records in pieces of memory, which are taken one by one. The memory of a piece is given back once
//! all of its records were taken and are not needed any more.

use std::collections::VecDeque;

use pipemill_types::ABSENT;

use crate::batch::Batch;
use crate::block_memory::BlockMemory;

/// Records that lie in one piece of memory.
struct Part {
    memory: BlockMemory,
    batch: Batch,
}

/// The place of a record: the number of its part, and its number in the part.
#[derive(Clone, Copy)]
pub(crate) struct PartPlace {
    part: u64,
    record: usize,
}

/// Parts in the order in which they came.
#[derive(Default)]
pub(crate) struct Parts {
    /// The last part has the next record, if there is one. The others have records that were taken.
    parts: VecDeque<Part>,
    /// Number of the first of `parts`.
    first: u64,
    /// Number of the next record in the last part.
    next: usize,
}

impl Parts {
    /// Adds a part. All records of those before were taken.
    pub(crate) fn push(&mut self, memory: BlockMemory, batch: Batch) {
        self.next = 0;
        self.parts.push_back(Part { memory, batch });
    }

    /// Whether the next record is there.
    pub(crate) fn has_record(&self) -> bool {
        self.parts.back().is_some_and(|part| self.next < part.batch.records)
    }

    /// Number of records of the last part that were taken.
    pub(crate) fn taken(&self) -> u64 {
        self.next as u64
    }

    /// Takes the next record, which is there.
    pub(crate) fn take(&mut self) -> PartPlace {
        let part = self.first + self.parts.len() as u64 - 1;
        self.next += 1;
        PartPlace { part, record: self.next - 1 }
    }

    /// The records that were taken are not needed any more: gives back memory.
    pub(crate) fn release_taken(&mut self, give_back: impl FnMut(BlockMemory)) {
        let is_used_up = self.parts.back().is_some_and(|part| self.next == part.batch.records);
        self.release(usize::from(!is_used_up), give_back);
    }

    /// No record is needed any more: gives back all memory.
    pub(crate) fn clear(&mut self, give_back: impl FnMut(BlockMemory)) {
        self.release(0, give_back);
    }

    /// Gives back the memory of all parts but the last `kept`.
    fn release(&mut self, kept: usize, mut give_back: impl FnMut(BlockMemory)) {
        while self.parts.len() > kept {
            let Some(part) = self.parts.pop_front() else { return };
            self.first += 1;
            if !part.memory.is_dedicated() {
                give_back(part.memory);
            }
        }
    }

    /// The value of a field of a record that was taken; `None` if the record does not have it.
    pub(crate) fn value(&self, place: PartPlace, field: usize) -> Option<&[u8]> {
        let Part { memory, batch } = self.part(place);
        let column = &batch.columns[field];
        let (from, length) = (column.offsets[place.record], column.lengths[place.record]);
        (from != ABSENT).then(|| &memory.as_ref()[from as usize..][..length as usize])
    }

    /// The length of this value: 0 if the record does not have it.
    pub(crate) fn length(&self, place: PartPlace, field: usize) -> u32 {
        self.part(place).batch.columns[field].lengths[place.record]
    }

    /// Bytes of the record's values.
    pub(crate) fn bytes(&self, place: PartPlace) -> usize {
        let columns = &self.part(place).batch.columns;
        columns.iter().map(|column| column.lengths[place.record] as usize).sum()
    }

    fn part(&self, place: PartPlace) -> &Part {
        &self.parts[(place.part - self.first) as usize]
    }
}
