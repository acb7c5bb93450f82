//! Puts the values of a field that have a fixed size one after the other, as one array with a row
//! for each record, and fills a batch with copies of its last record.
//!
//! Both happen only in channels with a [`BatchSize`](crate::BatchSize), when a batch leaves: so a
//! consumer gets an `n x d` array of such a field without a copy.

use pipemill_types::{Column, Even, Field};

use crate::Batch;
use crate::batch::ALIGN;

/// Bytes of each field's values if they have a fixed size above 0; `None` for others.
pub fn row_sizes(fields: &[Field]) -> Vec<Option<usize>> {
    fields.iter().map(|field| field.fixed_size().filter(|size| *size > 0)).collect()
}

/// Whether the column's values are adjacent and begin at an aligned offset.
fn is_dense(column: &Column, size: usize) -> bool {
    if let Some(even) = column.even() {
        return even.size as usize == size && (even.first as usize).is_multiple_of(ALIGN);
    }
    let first = column.offsets().first().copied().unwrap_or(0) as usize;
    let mut expected = (first..).step_by(size);
    first.is_multiple_of(ALIGN)
        && column.offsets().iter().all(|offset| expected.next() == Some(*offset as usize))
}

/// Copies the values of a column to this place of the same memory, one after the other.
fn copy_adjacent(column: &Column, memory: &mut [u8], mut to: usize) {
    if let Some(even) = column.even() {
        let from = even.first as usize;
        return memory.copy_within(from..from + even.bytes() as usize, to);
    }
    // Values that are adjacent are copied at once.
    let (mut adjacent, mut adjacent_to) = (0..0, to);
    for (offset, length) in column.offsets().iter().zip(column.lengths()) {
        let (from, length) = (*offset as usize, *length as usize);
        if from != adjacent.end {
            memory.copy_within(std::mem::replace(&mut adjacent, from..from), adjacent_to);
            adjacent_to = to;
        }
        adjacent.end += length;
        to += length;
    }
    memory.copy_within(adjacent, adjacent_to);
}

impl Batch {
    /// Adds copies of the last record until there are `records`. The copies share its values.
    pub(crate) fn pad(&mut self, records: usize) {
        let missing = records.saturating_sub(self.records);
        for column in self.columns.iter_mut().filter(|_| missing > 0) {
            for list in <[_; 2]>::from(column.lists()) {
                let last = list.last().copied();
                list.extend(last.into_iter().cycle().take(missing));
            }
        }
        let last = self.starts.last().copied();
        self.starts.extend(last.into_iter().cycle().take(missing));
        self.records += missing;
        self.padding = missing;
    }

    /// The fields whose values have to be moved to become arrays, and the bytes of payload after
    /// the move.
    pub(crate) fn scattered(&self, row_sizes: &[Option<usize>]) -> (Vec<usize>, usize) {
        let mut end = self.payload;
        let mut scattered = Vec::new();
        for (field, column) in self.columns.iter().enumerate() {
            let Some(size) = row_sizes.get(field).copied().flatten() else { continue };
            if !is_dense(column, size) && !column.has_absent(0..column.len()) {
                scattered.push(field);
                end = end.next_multiple_of(ALIGN) + size * self.records;
            }
        }
        (scattered, end)
    }

    /// Copies the values of these fields to the end of the payload. `memory` has room for them.
    pub(crate) fn gather(&mut self, memory: &mut [u8], fields: &[usize]) {
        for field in fields {
            let column = &mut self.columns[*field];
            let Some(size) = (!column.is_empty()).then(|| column.get(0).1) else { continue };
            let records = column.len() as u32;
            let place = Even { first: self.payload.next_multiple_of(ALIGN) as u32, size, records };
            copy_adjacent(column, memory, place.first as usize);
            column.clear();
            column.extend_even(place);
            self.payload = place.first as usize + place.bytes() as usize;
        }
    }
}
