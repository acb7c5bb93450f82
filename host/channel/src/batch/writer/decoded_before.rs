//! Takes records that are decoded already: records that were picked from others, and the records of
//! other batches.

use super::BatchWriter;
use crate::batch::BatchStart;
use crate::batch::copy::picked::PickedRecords;
use crate::{Batch, Sink, StopReason};

impl<S: Sink> BatchWriter<'_, S> {
    /// Fills the empty batch with picked records. The first one comes `after` records after
    /// `start`. Each value is copied to its final place. The batch does not leave yet.
    pub(crate) fn fill(
        &mut self,
        start: &BatchStart,
        after: u64,
        records: &impl PickedRecords,
    ) -> Result<(), StopReason> {
        self.count_index(records.count())?;
        let (places, payload) = records.layout(&self.row_sizes);
        if self.large.next_bytes().is_none() {
            self.ensure_memory()?;
        }
        let room = self.room_from(start, records.count());
        if room.is_none_or(|room| payload > room) {
            self.replace_by_dedicated(payload)?;
        }
        self.batch.start.clone_from(start);
        self.batch.start.position.advance(after);
        let (batch, memory) = self.batch_and_memory();
        records.copy_to(batch, memory, &places);
        batch.payload = payload;
        Ok(())
    }

    /// Hands over a copy of a batch, whose payload is at the start of `memory`. Only where batches
    /// have no fixed size.
    pub(crate) fn give_copy(&mut self, memory: &[u8], batch: &mut Batch) -> Result<(), StopReason> {
        let payload = batch.payload;
        self.ensure_memory()?;
        let room = self.room_from(&batch.start, batch.records);
        if room.is_none_or(|room| payload > room) {
            self.replace_by_dedicated(payload)?;
        }
        self.memory_mut()[..payload].copy_from_slice(&memory[..payload]);
        std::mem::swap(&mut self.batch, batch);
        let granted = self.grant();
        std::mem::swap(&mut self.batch, batch);
        granted
    }

    /// Hands over a batch whose payload is at the start of memory of the sink. Only where batches
    /// have no fixed size.
    pub(crate) fn give(&mut self, memory: S::Memory, batch: &mut Batch) -> Result<(), StopReason> {
        if !batch.columns.is_empty() {
            let (fields, texts) = (batch.columns.len(), batch.start.facts());
            let room = self.sink.room(&memory, batch.records, fields, texts);
            if room.is_none_or(|room| batch.payload > room) {
                return self.give_copy(memory.as_ref(), batch);
            }
        }
        self.sink.grant(memory, batch)?;
        self.counts.granted.add(1);
        Ok(())
    }
}
