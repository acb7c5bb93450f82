//! The batch of an answer: copies of the records that were asked for, in their order.

use pipemill_channel::{Batch, PickedRecords};
use pipemill_ring::host::{BatchInfo, RingError, SealedBatch};
use pipemill_types::{BatchPosition, Column};

use crate::access::Answer;
use crate::decoded::Part;

/// The name of an answer's memory in `/proc/PID/maps`.
const NAME: &str = "pipemill:access";

/// The records of an answer: a part of a block, and the row there.
pub(crate) struct Picked<'a>(pub(crate) Vec<(&'a Part, usize)>);

impl PickedRecords for Picked<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn value(&self, at: usize, field: usize) -> Option<&[u8]> {
        let (part, row) = self.0[at];
        part.value(row, field)
    }

    fn length(&self, at: usize, field: usize) -> u32 {
        let (part, row) = self.0[at];
        part.length(row, field)
    }

    fn start_of(&self, _: usize) -> Option<u64> {
        None
    }
}

impl Picked<'_> {
    /// Bytes of the values in the answer. `row_sizes`: as [`PickedRecords::layout`].
    pub(crate) fn payload(&self, row_sizes: &[Option<usize>]) -> usize {
        self.layout(row_sizes).1
    }

    /// The answer, with this number. `position` is that of its first record.
    ///
    /// # Errors
    /// The kernel does not grant the memory.
    pub(crate) fn seal(
        &self,
        number: u64,
        position: BatchPosition,
        row_sizes: &[Option<usize>],
    ) -> Result<Answer, RingError> {
        let (starts, payload) = self.layout(row_sizes);
        let (fields, records) = (row_sizes.len(), self.len());
        let mut memory =
            SealedBatch::create(NAME, payload, position.object.len(), fields, records)?;
        let column = || Column {
            offsets: Vec::with_capacity(records),
            lengths: Vec::with_capacity(records),
        };
        let columns = std::iter::repeat_with(column).take(fields).collect();
        let mut batch = Batch { columns, ..Batch::default() };
        self.copy_to(&mut batch, memory.payload(), &starts);
        let info = BatchInfo {
            position,
            payload_bytes: payload,
            has_absent: batch.absent,
            ..BatchInfo::default()
        };
        let (memory, bytes) = memory.seal(number, &info, &batch.columns)?;
        Ok(Answer { records: records as u32, memory, bytes })
    }
}
