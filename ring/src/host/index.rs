//! The index of a batch that is being filled: after the payload and the names, a table of the
//! fields, lists of those whose values are not even, and the views of strings.

use pipemill_types::{Column, Even, Field, Scalar};

use super::config::RingError;
use super::views::{Texts, write_views};
use super::writer::MAX_PAYLOAD;
use crate::layout::{
    ENTRY_BYTES, HEADER_BYTES, LISTED, Plan, stride, table_bytes, views_room, views_stride,
};
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
    /// Whether views were written, too.
    pub(super) has_views: bool,
    /// Length of the whole batch.
    pub(super) end: usize,
}

/// The place of the column's values, if it is written in place of lists. A value has bytes then, so
/// the payload bounds the number of records.
fn even_of(column: &Column) -> Option<Even> {
    column.even().filter(|even| even.size > 0)
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
        let (fields, records) = (columns.len(), columns.first().map_or(0, Column::len));
        let listed = columns.iter().filter(|column| even_of(column).is_none()).count();
        let plan = Plan::new(payload_bytes, names, fields, listed, records);
        let plan = plan.ok_or(RingError::TooLarge { bytes: usize::MAX, limit: MAX_PAYLOAD })?;
        let (has_views, end) = (false, plan.end);
        Ok(Self { plan, payload_bytes, names, fields, records, has_views, end })
    }

    /// Whether the index belongs to a batch with this payload and these names, in bytes.
    pub(super) fn is_of(&self, payload_bytes: usize, names: usize) -> bool {
        self.payload_bytes == payload_bytes && names <= self.names
    }

    /// Writes the columns. `memory` must extend to the plan's end.
    pub(super) fn write(&self, memory: &mut [u8], columns: &[Column]) {
        let mut lists = 0;
        for (field, column) in columns.iter().enumerate() {
            let even = even_of(column);
            let entry = match even {
                Some(Even { first, size, .. }) => [first, size],
                None => [lists, LISTED],
            };
            let at = self.entry_at(field);
            memory[at..at + ENTRY_BYTES].copy_from_slice(column_bytes(&entry));
            if even.is_some() {
                continue;
            }
            for (part, list) in [column.offsets(), column.lengths()].into_iter().enumerate() {
                let at = self.list_at(2 * lists as usize + part);
                memory[at..at + 4 * list.len()].copy_from_slice(column_bytes(list));
            }
            lists += 1;
        }
    }

    /// Where the batch ends if this many fields have views.
    pub(super) fn end_with_views(&self, views: usize) -> usize {
        self.plan.end.saturating_add(views_room(views, self.records))
    }

    /// Writes the views of all strings, unless a string has none. `memory` must extend to
    /// [`end_with_views`](Self::end_with_views).
    pub(super) fn write_views(&mut self, memory: &mut [u8], fields: &[Field], columns: &[Column]) {
        let (front, views) = memory.split_at_mut(self.plan.end);
        let payload = &front[HEADER_BYTES..HEADER_BYTES + self.payload_bytes];
        let strings = fields.iter().zip(columns).filter(|(field, _)| field.is_text());
        let texts = strings.clone().filter(|(field, _)| field.scalar == Scalar::Utf8);
        let texts = Texts::of(payload, texts.map(|(_, column)| column));
        let (stride, mut end) = (views_stride(self.records), 0);
        for (field, column) in strings {
            if !write_views(payload, texts, field, column, &mut views[end..end + stride]) {
                return;
            }
            end += stride;
        }
        (self.has_views, self.end) = (true, self.plan.end + end);
    }

    /// The columns that were written.
    pub(super) fn read(&self, memory: &[u8]) -> Vec<Column> {
        let numbers = |at, count| column(&memory[at..at + 4 * count]).unwrap_or_default();
        let list = |number| numbers(self.list_at(number), self.records).to_vec();
        let column = |field| match *numbers(self.entry_at(field), 2) {
            [lists, LISTED] => {
                Column::of_lists(list(2 * lists as usize), list(2 * lists as usize + 1))
            }
            [first, size] => Even { first, size, records: self.records as u32 }.into(),
            _ => Column::default(),
        };
        (0..self.fields).map(column).collect()
    }

    /// Position of a field's entry in the table.
    fn entry_at(&self, field: usize) -> usize {
        self.plan.index_at + field * ENTRY_BYTES
    }

    /// Position of a list of offsets or of lengths, which alternate.
    fn list_at(&self, number: usize) -> usize {
        self.plan.index_at + table_bytes(self.fields) + number * stride(self.records as u32)
    }
}
