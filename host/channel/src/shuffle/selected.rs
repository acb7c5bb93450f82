//! Records of a window that become a batch.

use super::blocks::Blocks;
use super::queue::RecordPlace;
use crate::batch::copy::picked::PickedRecords;

/// The records of one batch, in their order.
pub(crate) struct Selected<'a> {
    pub(super) blocks: &'a Blocks,
    pub(super) places: &'a [RecordPlace],
}

impl PickedRecords for Selected<'_> {
    fn len(&self) -> usize {
        self.places.len()
    }

    fn value(&self, at: usize, field: usize) -> Option<&[u8]> {
        let RecordPlace { block, record } = self.places[at];
        self.blocks.get(block).value(field, record)
    }

    fn length(&self, at: usize, field: usize) -> u32 {
        let RecordPlace { block, record } = self.places[at];
        self.blocks.get(block).length(field, record)
    }

    fn start_of(&self, at: usize) -> Option<u64> {
        let RecordPlace { block, record } = self.places[at];
        self.blocks.get(block).start_of(record)
    }
}
