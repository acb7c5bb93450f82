//! Records of a window that become a batch.

use std::sync::Arc;

use super::blocks::Block;
use crate::Batch;
use crate::batch::copy::picked::PickedRecords;
use crate::workers::fill::job::CopiedRecords;

/// The records of one batch, in their order. It keeps their blocks alive.
pub(crate) struct Selected {
    /// Blocks that follow each other; `None` for those that all records have left.
    pub(super) blocks: Vec<Option<Arc<Block>>>,
    /// The place of each record: its block among these, and its number there.
    pub(super) places: Vec<(u32, u32)>,
}

impl Selected {
    fn place(&self, at: usize) -> Option<(&Block, u32)> {
        let (block, record) = self.places[at];
        self.blocks[block as usize].as_deref().map(|block| (block, record))
    }
}

impl PickedRecords for Selected {
    fn count(&self) -> usize {
        self.places.len()
    }

    fn value(&self, at: usize, field: usize) -> Option<&[u8]> {
        self.place(at).and_then(|(block, record)| block.value(field, record))
    }

    fn length(&self, at: usize, field: usize) -> u32 {
        self.place(at).map_or(0, |(block, record)| block.length(field, record))
    }

    fn start_of(&self, at: usize) -> Option<u64> {
        self.place(at).and_then(|(block, record)| block.start_of(record))
    }
}

impl CopiedRecords for Selected {
    /// These are all records of the batch.
    fn append_to(
        &self,
        batch: &mut Batch,
        memory: &mut [u8],
        room: usize,
        row_sizes: &[Option<usize>],
    ) -> Result<usize, usize> {
        let (places, payload) = self.layout(row_sizes);
        if payload > room {
            return Err(payload);
        }
        self.copy_to(batch, memory, &places);
        batch.payload = payload;
        Ok(payload)
    }

    /// Not used: no records come before these.
    fn payload(&self) -> usize {
        0
    }
}
