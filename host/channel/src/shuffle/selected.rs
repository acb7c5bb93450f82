//! Records of a window that become a batch: how their values lie in it, and how they are copied.

use pipemill_types::ABSENT;

use super::blocks::Blocks;
use super::queue::RecordPlace;
use crate::batch::Batch;
use crate::batch_builder::ALIGN;

/// The records of one batch, in their order.
pub(crate) struct Selected<'a> {
    pub(super) blocks: &'a Blocks,
    pub(super) places: &'a [RecordPlace],
}

impl Selected<'_> {
    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Where the values of each field begin, and the bytes of all. The values of a field lie one
    /// after the other. `row_sizes` has the fields whose values all have one size: they begin at a
    /// multiple of [`ALIGN`].
    pub(crate) fn layout(&self, row_sizes: &[Option<usize>]) -> (Vec<usize>, usize) {
        let mut end = 0;
        let of_field = |(field, row_size): (usize, &Option<usize>)| {
            if row_size.is_some() {
                end = usize::next_multiple_of(end, ALIGN);
            }
            let start = end;
            end += self.lengths(field).map(|length| length as usize).sum::<usize>();
            start
        };
        (row_sizes.iter().enumerate().map(of_field).collect(), end)
    }

    fn lengths(&self, field: usize) -> impl Iterator<Item = u32> {
        self.places.iter().map(move |at| self.blocks.get(at.block).length(field, at.record))
    }

    /// Copies the records to an empty batch. Field after field: the copies of one field don't wait
    /// for each other. `starts` is where the values of each field begin in `memory`.
    pub(crate) fn copy_to(&self, batch: &mut Batch, memory: &mut [u8], starts: &[usize]) {
        for ((field, column), start) in batch.columns.iter_mut().enumerate().zip(starts) {
            let mut to = *start;
            for at in self.places {
                let Some(value) = self.blocks.get(at.block).value(field, at.record) else {
                    column.offsets.push(ABSENT);
                    column.lengths.push(0);
                    batch.absent = true;
                    continue;
                };
                memory[to..to + value.len()].copy_from_slice(value);
                column.offsets.push(to as u32);
                column.lengths.push(value.len() as u32);
                to += value.len();
            }
        }
        let starts =
            self.places.iter().filter_map(|at| self.blocks.get(at.block).start_of(at.record));
        batch.starts.extend(starts);
        batch.records = self.places.len();
    }
}
