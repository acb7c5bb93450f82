//! The batch of an answer: copies of the records that were asked for, in their order.

use pipemill_channel::PickedRecords;
use pipemill_ring::host::{BatchInfo, RingError};
use pipemill_types::{BatchPosition, Column};

use crate::access::Answer;
use crate::decoded::Part;
use crate::lent::Lent;
use crate::threads::in_threads;

/// From this many bytes on, several threads copy an answer.
const LARGE: usize = 1 << 20;

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

    /// Copies the values: each thread those of some records that follow each other. Returns the
    /// places of each field's values, and whether a record does not have a field.
    fn copy(&self, memory: &mut [u8], starts: &[usize], threads: usize) -> (Vec<Column>, bool) {
        let records = self.count();
        let of_thread = records.div_ceil(threads).max(1);
        let ranges =
            (0..records).step_by(of_thread).map(|from| from..records.min(from + of_thread));
        // For each thread, where the values of each field lie.
        let mut jobs: Vec<(_, Vec<_>)> = ranges.map(|range| (range, Vec::new())).collect();
        let (mut rest, mut end) = (memory, 0);
        for (field, start) in starts.iter().enumerate() {
            rest = &mut rest[start - end..];
            end = *start;
            for (range, places) in &mut jobs {
                let bytes = range.clone().map(|at| self.length(at, field) as usize).sum();
                let place;
                (place, rest) = rest.split_at_mut(bytes);
                places.push((end, place));
                end += bytes;
            }
        }
        let copied = in_threads(jobs, |(range, places)| {
            let copy_field = |(field, (start, place)): (usize, (usize, &mut [u8]))| {
                let mut column = Column::default();
                let absent = self.copy_field(field, range.clone(), &mut column, (place, 0));
                (column, start as u32, absent)
            };
            places.into_iter().enumerate().map(copy_field).collect::<Vec<_>>()
        });
        let (mut columns, mut is_absent) = (vec![Column::default(); starts.len()], false);
        for of_thread in copied {
            for (whole, (column, start, absent)) in columns.iter_mut().zip(of_thread) {
                whole.extend_moved(&column, 0..column.len(), start);
                is_absent |= absent;
            }
        }
        (columns, is_absent)
    }

    /// The answer, with this number, in memory of `lent`. `position` is that of its first record.
    /// As many threads copy the values of a large one.
    ///
    /// # Errors
    /// The kernel does not grant the memory.
    pub(crate) fn seal(
        &self,
        number: u64,
        position: BatchPosition,
        lent: &mut Lent,
        threads: usize,
    ) -> Result<Answer, RingError> {
        let (starts, payload) = self.places();
        let (fields, records) = (self.fields.len(), self.count());
        let mut memory = lent.batch(payload, position.object.len(), fields, records)?;
        let threads = if payload < LARGE { 1 } else { threads };
        let (columns, has_absent) = self.copy(memory.payload(), &starts, threads);
        let info =
            BatchInfo { position, payload_bytes: payload, has_absent, ..BatchInfo::default() };
        let sealed = memory.seal(number, &info, &columns)?;
        let (memory, bytes) = (sealed.fd(), sealed.bytes());
        lent.lend(number, sealed);
        Ok(Answer { records: records as u32, memory, bytes })
    }
}

#[cfg(test)]
mod tests {
    use pipemill_channel::Batch;
    use pipemill_types::ABSENT;
    use proptest::prelude::*;

    use super::*;
    use crate::spare::SpareMemory;

    type Record = Vec<Option<Vec<u8>>>;

    /// A part of a block that has these records.
    fn part(records: &[Record], fields: usize) -> Part {
        let mut memory = Vec::new();
        let place = |value: &Option<Vec<u8>>| {
            let Some(value) = value else { return (ABSENT, 0) };
            memory.extend_from_slice(value);
            ((memory.len() - value.len()) as u32, value.len() as u32)
        };
        let places: Vec<_> = records.iter().flatten().map(place).collect();
        let column = |field| {
            let of_field = places.iter().skip(field).step_by(fields);
            let (offsets, lengths) = of_field.copied().unzip();
            Column::of_lists(offsets, lengths)
        };
        let columns = (0..fields).map(column).collect();
        let payload = memory.len();
        let batch = Batch { columns, records: records.len(), payload, ..Batch::default() };
        Part::of(batch, memory, SpareMemory::new(0))
    }

    fn records() -> impl Strategy<Value = (usize, Vec<Record>)> {
        (1_usize..4).prop_flat_map(|fields| {
            let value = prop::option::of(prop::collection::vec(any::<u8>(), 0..40));
            let record = prop::collection::vec(value, fields);
            (Just(fields), prop::collection::vec(record, 1..12))
        })
    }

    proptest! {
        /// However many threads copy them.
        #[test]
        fn the_copies_are_the_values(
            (fields, records) in records(),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 1..30),
            threads in 1_usize..6,
        ) {
            let part = part(&records, fields);
            let picks: Vec<_> = picks.iter().map(|pick| pick.index(records.len())).collect();
            let chosen: Vec<_> =
                (0..fields).rev().map(|number| Chosen { number, row_size: None }).collect();
            let rows = picks.iter().map(|row| (&part, *row)).collect();
            let picked = Picked { rows, fields: &chosen };
            let (starts, payload) = picked.places();
            let mut memory = vec![0; payload];
            let (columns, is_absent) = picked.copy(&mut memory, &starts, threads);
            let lacks = |row: &usize| records[*row].contains(&None);
            prop_assert_eq!(is_absent, picks.iter().any(lacks));
            for (field, column) in columns.iter().enumerate() {
                for (at, row) in picks.iter().enumerate() {
                    let (offset, length) = column.get(at);
                    let bytes = (offset != ABSENT)
                        .then(|| memory[offset as usize..][..length as usize].to_vec());
                    prop_assert_eq!(&bytes, &records[*row][chosen[field].number]);
                }
            }
        }
    }
}
