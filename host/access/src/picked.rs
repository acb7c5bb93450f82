//! The batch of an answer: copies of the records that were asked for, in their order.

use pipemill_channel::{Batch, PickedRecords};
use pipemill_ring::host::{BatchInfo, RingError};
use pipemill_types::{BatchPosition, Column};

use crate::access::Answer;
use crate::decoded::Part;
use crate::lent::Lent;

/// The records of an answer.
pub(crate) struct Picked<'a> {
    /// Of each record, a part of a block, and the row there.
    pub(crate) rows: Vec<(&'a Part, usize)>,
    /// The fields that they have in the answer, by their number in the block.
    pub(crate) fields: &'a [Chosen],
}

/// A field of the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// Its number in the blocks.
    pub(crate) number: usize,
    /// The bytes of each of its values, if they have a fixed size.
    pub(crate) row_size: Option<usize>,
}

impl PickedRecords for Picked<'_> {
    fn count(&self) -> usize {
        self.rows.len()
    }

    fn value(&self, at: usize, field: usize) -> Option<&[u8]> {
        let (part, row) = self.rows[at];
        part.value(row, self.fields[field].number)
    }

    fn length(&self, at: usize, field: usize) -> u32 {
        let (part, row) = self.rows[at];
        part.length(row, self.fields[field].number)
    }

    fn start_of(&self, _: usize) -> Option<u64> {
        None
    }
}

impl Picked<'_> {
    /// The place of each field's values in the answer, and the bytes of all.
    fn places(&self) -> (Vec<usize>, usize) {
        let row_sizes: Vec<_> = self.fields.iter().map(|field| field.row_size).collect();
        self.layout(&row_sizes)
    }

    /// Bytes of the values in the answer.
    pub(crate) fn payload(&self) -> usize {
        self.places().1
    }

    /// The answer, with this number, in memory of `lent`. `position` is that of its first record.
    ///
    /// # Errors
    /// The kernel does not grant the memory.
    pub(crate) fn seal(
        &self,
        number: u64,
        position: BatchPosition,
        lent: &mut Lent,
    ) -> Result<Answer, RingError> {
        let (starts, payload) = self.places();
        let (fields, records) = (self.fields.len(), self.count());
        let mut memory = lent.batch(payload, position.object.len(), fields, records)?;
        let column = || Column::of_lists(Vec::with_capacity(records), Vec::with_capacity(records));
        let columns = std::iter::repeat_with(column).take(fields).collect();
        let mut batch = Batch { columns, ..Batch::default() };
        self.copy_to(&mut batch, memory.payload(), &starts);
        let info = BatchInfo {
            position,
            payload_bytes: payload,
            has_absent: batch.absent,
            ..BatchInfo::default()
        };
        let sealed = memory.seal(number, &info, &batch.columns)?;
        let (memory, bytes) = (sealed.fd(), sealed.bytes());
        lent.lend(number, sealed);
        Ok(Answer { records: records as u32, memory, bytes })
    }
}
