//! The printed part of a batch: some of its records, and their chosen fields.

use std::ops::Range;

use pipemill_channel::Batch;
use pipemill_types::{ABSENT, Column};

/// Records to print.
pub(super) struct Records<'a> {
    /// The memory of the batch.
    pub(super) memory: &'a [u8],
    /// The batch that contains them.
    pub(super) batch: &'a Batch,
    /// Index in the batch of each chosen field's column.
    pub(super) chosen: &'a [usize],
    /// The range of records of the batch.
    pub(super) range: Range<usize>,
}

impl<'a> Records<'a> {
    /// The columns of the chosen fields.
    pub(super) fn columns(&self) -> impl Iterator<Item = &'a Column> + Clone + use<'a> {
        let batch = self.batch;
        self.chosen.iter().map(move |index| &batch.columns[*index])
    }

    /// The value of a chosen field in a record of the batch; `None` if it is absent.
    pub(super) fn value(&self, field: usize, record: usize) -> Option<&'a [u8]> {
        let column = &self.batch.columns[self.chosen[field]];
        let (offset, length) = column.get(record);
        let start = offset as usize;
        (offset != ABSENT).then(|| &self.memory[start..start + length as usize])
    }
}
