//! A sink for commands that look at the records themselves.

use std::sync::Arc;

use crate::sink::grow_private;
use crate::{Batch, SinkDelivery, SinkMemory, StopReason};
use pipemill_types::{BatchMemory, Field};

/// Looks at the records of a channel.
pub trait LookAtRecords {
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

/// Memory for the batches of a [`MemorySink`].
pub trait Memories {
    /// Memory of one batch.
    type Memory: BatchMemory + 'static;

    /// Memory for the next batch.
    ///
    /// # Errors
    /// There is none.
    fn take(&mut self) -> Result<Self::Memory, StopReason>;

    /// Memory of at least `payload` bytes, for a batch that fits into no other memory.
    ///
    /// # Errors
    /// There is none.
    fn dedicated(&mut self, payload: usize) -> Result<Self::Memory, StopReason>;

    /// Makes dedicated memory at least this large. Its content stays.
    ///
    /// # Errors
    /// There is none.
    fn grow(&mut self, memory: &mut Self::Memory, payload: usize) -> Result<(), StopReason>;

    /// Takes back the memory of a batch that was looked at.
    fn give_back(&mut self, memory: Self::Memory) {
        drop(memory);
    }
}

/// Memory of the process alone.
pub struct PrivateMemories {
    /// Bytes of memory for a batch.
    bytes: usize,
    /// The memory of the last batch.
    spare: Option<Vec<u8>>,
}

impl Memories for PrivateMemories {
    type Memory = Vec<u8>;

    fn take(&mut self) -> Result<Vec<u8>, StopReason> {
        Ok(self.spare.take().unwrap_or_else(|| vec![0; self.bytes]))
    }

    fn dedicated(&mut self, payload: usize) -> Result<Vec<u8>, StopReason> {
        Ok(vec![0; payload])
    }

    fn grow(&mut self, memory: &mut Vec<u8>, payload: usize) -> Result<(), StopReason> {
        grow_private(memory, payload);
        Ok(())
    }

    fn give_back(&mut self, memory: Vec<u8>) {
        if memory.len() == self.bytes {
            self.spare = Some(memory);
        }
    }
}

/// A sink that shows each batch to `L`, and then reuses its memory.
pub struct MemorySink<L, M = PrivateMemories> {
    /// Looks at the records.
    pub looker: L,
    memories: M,
}

impl<L> MemorySink<L> {
    /// A sink with `batch_memory` bytes for a batch.
    pub fn new(looker: L, batch_memory: usize) -> Self {
        Self::with_memories(looker, PrivateMemories { bytes: batch_memory, spare: None })
    }
}

impl<L, M> MemorySink<L, M> {
    /// A sink whose batches get memory from `memories`.
    pub fn with_memories(looker: L, memories: M) -> Self {
        Self { looker, memories }
    }
}

impl<L: LookAtRecords, M: Memories> SinkMemory for MemorySink<L, M> {
    type Memory = M::Memory;

    fn memory(&mut self) -> Result<M::Memory, StopReason> {
        self.memories.take()
    }

    fn dedicated_memory(&mut self, payload: usize, _: usize) -> Result<M::Memory, StopReason> {
        self.memories.dedicated(payload)
    }

    fn grow(&mut self, memory: &mut M::Memory, payload: usize) -> Result<(), StopReason> {
        self.memories.grow(memory, payload)
    }

    fn room(&self, memory: &M::Memory, _: usize, _: usize, _: usize) -> Option<usize> {
        Some(memory.as_ref().len())
    }
}

impl<L: LookAtRecords, M: Memories> SinkDelivery for MemorySink<L, M> {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.looker.schema(fields);
    }

    fn grant(&mut self, memory: M::Memory, batch: &mut Batch) -> Result<(), StopReason> {
        let looked = self.looker.batch(memory.as_ref(), batch);
        self.memories.give_back(memory);
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
