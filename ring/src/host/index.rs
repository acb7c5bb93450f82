//! The index of a batch that is being filled: its columns, after the payload and the names.

use pipemill_types::Column;

use super::config::RingError;
use super::writer::MAX_PAYLOAD;
use crate::layout::{Plan, stride};
use crate::memory::column::{column, column_bytes};

/// The location of a batch's index, and its description.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) plan: Plan,
    payload_bytes: usize,
    /// Number of bytes for names, between payload and index.
    names: usize,
    pub(super) fields: usize,
    pub(super) records: usize,
}

impl Index {
    /// The plan for these columns, all of the same length, which is a u32.
    ///
    /// # Errors
    /// No memory could hold the batch.
    pub(super) fn of(
        payload_bytes: usize,
        names: usize,
        columns: &[Column],
    ) -> Result<Self, RingError> {
        let (fields, records) = (columns.len(), columns.first().map_or(0, |c| c.offsets.len()));
        let plan = Plan::new(payload_bytes, names, fields, records);
        let plan = plan.ok_or(RingError::TooLarge { bytes: usize::MAX, limit: MAX_PAYLOAD })?;
        Ok(Self { plan, payload_bytes, names, fields, records })
    }

    /// Whether the index belongs to a batch with this payload and these names, in bytes.
    pub(super) fn is_of(&self, payload_bytes: usize, names: usize) -> bool {
        self.payload_bytes == payload_bytes && names <= self.names
    }

    /// Writes the columns. `memory` must extend to the plan's end.
    pub(super) fn write(&self, memory: &mut [u8], columns: &[Column]) {
        let lists = columns.iter().flat_map(|column| [&column.offsets, &column.lengths]);
        for (number, list) in lists.enumerate() {
            let at = self.list_at(number);
            memory[at..at + 4 * list.len()].copy_from_slice(column_bytes(list));
        }
    }

    /// The columns that were written.
    pub(super) fn read(&self, memory: &[u8]) -> Vec<Column> {
        let list = |number| {
            let at = self.list_at(number);
            column(&memory[at..at + 4 * self.records]).unwrap_or_default().to_vec()
        };
        let column = |field| Column { offsets: list(2 * field), lengths: list(2 * field + 1) };
        (0..self.fields).map(column).collect()
    }

    /// Position of a list of offsets or of lengths, which alternate.
    fn list_at(&self, number: usize) -> usize {
        self.plan.index_at + number * stride(self.records as u32)
    }
}
