//! Makes a batch of records that were picked from others: the layout of their values, and the copy.

use std::ops::Range;

use pipemill_types::Column;

use crate::batch::ALIGN;
use crate::batch::{Batch, push_copy};

/// The records of one batch, in their order.
pub trait PickedRecords {
    /// Number of records.
    fn count(&self) -> usize;

    /// The value of a field of the record at this place; `None` if the record does not have it.
    fn value(&self, at: usize, field: usize) -> Option<&[u8]>;

    /// The length of this value: 0 if the record does not have it.
    fn length(&self, at: usize, field: usize) -> u32;

    /// Byte offset of the record in its object, if offsets are kept.
    fn start_of(&self, at: usize) -> Option<u64>;

    /// The offset at which the values of each field begin, and the bytes of all. The values of a
    /// field are adjacent. `row_sizes` has the fields whose values all have one size: they begin at
    /// a multiple of 64 bytes.
    fn layout(&self, row_sizes: &[Option<usize>]) -> (Vec<usize>, usize) {
        let mut end = 0;
        let of_field = |(field, row_size): (usize, &Option<usize>)| {
            if row_size.is_some() {
                end = usize::next_multiple_of(end, ALIGN);
            }
            let start = end;
            end += (0..self.count()).map(|at| self.length(at, field) as usize).sum::<usize>();
            start
        };
        (row_sizes.iter().enumerate().map(of_field).collect(), end)
    }

    /// Copies the values of a field of these records, one after the other, to `memory` from `to`
    /// on, and adds their places in the memory to `column`. Returns whether a record does not have
    /// the field.
    fn copy_field(
        &self,
        field: usize,
        records: Range<usize>,
        column: &mut Column,
        (memory, mut to): (&mut [u8], usize),
    ) -> bool {
        let mut is_absent = false;
        for at in records {
            let value = self.value(at, field);
            is_absent |= value.is_none();
            push_copy(column, memory, &mut to, value);
        }
        is_absent
    }

    /// Copies the records to an empty batch, field by field: the copies of one field don't wait for
    /// each other. `starts` has the offset in `memory` at which the values of each field begin.
    fn copy_to(&self, batch: &mut Batch, memory: &mut [u8], starts: &[usize]) {
        for ((field, column), start) in batch.columns.iter_mut().enumerate().zip(starts) {
            let all = 0..self.count();
            batch.absent |= self.copy_field(field, all, column, (&mut *memory, *start));
        }
        // Either all records have a start, or none has.
        if self.count() > 0 && self.start_of(0).is_some() {
            batch.starts.extend((0..self.count()).filter_map(|at| self.start_of(at)));
        }
        batch.records = self.count();
    }
}
