//! Sinks that take records in private memory, which is no batch's: all of it grows in one way.

use super::block_memory::BlockMemory;
use crate::{SinkMemory, StopReason};

/// Gives blocks to a decoder. What has it is a [`SinkMemory`].
pub trait BlockSource {
    /// The next block.
    ///
    /// # Errors
    /// The run is being stopped.
    fn block(&mut self) -> Result<BlockMemory, StopReason>;

    /// A block of at least `payload` bytes, for records that fit into no other.
    ///
    /// # Errors
    /// The run is being stopped.
    fn dedicated_block(&mut self, payload: usize) -> Result<BlockMemory, StopReason> {
        Ok(BlockMemory::dedicated(payload))
    }

    /// As [`SinkMemory::room`].
    fn room_of(
        &self,
        block: &BlockMemory,
        records: usize,
        fields: usize,
        _texts: usize,
    ) -> Option<usize> {
        block.room(records, fields)
    }
}

impl<S: BlockSource> SinkMemory for S {
    type Memory = BlockMemory;

    fn memory(&mut self) -> Result<BlockMemory, StopReason> {
        self.block()
    }

    fn dedicated_memory(&mut self, payload: usize, _: usize) -> Result<BlockMemory, StopReason> {
        self.dedicated_block(payload)
    }

    fn grow(&mut self, block: &mut BlockMemory, payload: usize) -> Result<(), StopReason> {
        block.grow(payload);
        Ok(())
    }

    fn room(
        &self,
        block: &BlockMemory,
        records: usize,
        fields: usize,
        texts: usize,
    ) -> Option<usize> {
        self.room_of(block, records, fields, texts)
    }
}
