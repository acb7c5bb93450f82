//! A sink in ordinary memory, for commands that look at the records themselves.

use std::sync::Arc;

use pipemill_channel::{Batch, Sink, StopReason};
use pipemill_types::Field;

/// Looks at the records of a channel.
pub(crate) trait LookAtRecords {
    /// Takes the fields of all records. Called at most once, before the first batch.
    fn schema(&mut self, fields: &Arc<[Field]>);

    /// Looks at a batch, whose payload lies in `memory`.
    ///
    /// # Errors
    /// No more records are needed.
    fn batch(&mut self, memory: &[u8], batch: &Batch) -> Result<(), StopReason>;

    /// The end of an epoch.
    ///
    /// # Errors
    /// No more records are needed.
    fn end_epoch(&mut self) -> Result<(), StopReason> {
        Ok(())
    }
}

/// A sink that shows each batch to `L`, and then uses its memory again.
pub(crate) struct MemorySink<L> {
    /// Looks at the records.
    pub(crate) looker: L,
    /// Bytes of memory for a batch.
    batch_memory: usize,
    /// The memory of the last batch.
    spare: Option<Vec<u8>>,
}

impl<L> MemorySink<L> {
    pub(crate) fn new(looker: L, batch_memory: usize) -> Self {
        Self { looker, batch_memory, spare: None }
    }
}

impl<L: LookAtRecords> Sink for MemorySink<L> {
    type Memory = Vec<u8>;

    fn memory(&mut self) -> Result<Vec<u8>, StopReason> {
        Ok(self.spare.take().unwrap_or_else(|| vec![0; self.batch_memory]))
    }

    fn dedicated_memory(&mut self, payload: usize, _: usize) -> Result<Vec<u8>, StopReason> {
        Ok(vec![0; payload])
    }

    fn grow(&mut self, memory: &mut Vec<u8>, payload: usize) -> Result<(), StopReason> {
        memory.resize(payload, 0);
        Ok(())
    }

    fn room(&self, memory: &Vec<u8>, _: usize, _: usize, _: usize) -> Option<usize> {
        Some(memory.len())
    }

    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.looker.schema(fields);
    }

    fn grant(&mut self, memory: Vec<u8>, batch: &mut Batch) -> Result<(), StopReason> {
        let looked = self.looker.batch(&memory, batch);
        if memory.len() == self.batch_memory {
            self.spare = Some(memory);
        }
        looked
    }

    fn has_demand(&self) -> bool {
        true
    }

    fn wants_epoch_end(&self, _: u32) -> bool {
        false
    }

    fn end_epoch(&mut self, _: u32, _: bool) -> Result<(), StopReason> {
        self.looker.end_epoch()
    }
}
