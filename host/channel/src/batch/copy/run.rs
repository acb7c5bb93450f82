//! Copies records that follow each other. Their values are usually close together, so one copy
//! takes all bytes from the first value to the last one. Otherwise they are copied field by field.

use std::ops::Range;

use pipemill_types::{ABSENT, Column};

use crate::Batch;
use crate::batch::ALIGN;
use crate::batch::copy::by_field::{aligned_as, copy_field, most_bytes};

/// The whole span is copied if it has at most this many times the bytes of the values, plus
/// [`MAX_BETWEEN`] bytes. Otherwise values are copied field by field.
const MAX_SPREAD: usize = 2;
/// Bytes that a span may have in addition, so that a span of few values is still copied at once.
const MAX_BETWEEN: usize = 4 << 10;

/// The place of the values of some records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueSpan {
    /// The bytes from the first value to the end of the last one.
    pub(crate) span: Range<usize>,
    /// Bytes of the values.
    values: usize,
}

impl ValueSpan {
    /// Most bytes of payload that copies of the values take.
    pub(crate) fn most_bytes(&self) -> usize {
        if self.is_together() { self.span.len() + ALIGN } else { self.bytes_by_field() }
    }

    /// Most bytes of payload that copies of the values take, field by field.
    pub(crate) fn bytes_by_field(&self) -> usize {
        most_bytes(self.values)
    }

    /// The place of the copy of the whole span in a payload that ends at `end`.
    pub(crate) fn place_from(&self, end: usize) -> usize {
        aligned_as(self.span.start, self.span.len(), end)
    }

    /// The span of these records.
    pub(crate) fn of(columns: &[Column], records: &Range<usize>) -> Self {
        Self::in_order(columns, records).unwrap_or_else(|| Self::in_any_order(columns, records))
    }

    /// The span of these records, if all their values lie between the first value of the first
    /// record and the end of the last record's values. Most formats are like that. This check takes
    /// a third of the time of the search in any order.
    fn in_order(columns: &[Column], records: &Range<usize>) -> Option<Self> {
        if records.is_empty() {
            return None;
        }
        let last = records.end - 1;
        let first = columns.iter().map(|column| column.get(records.start).0).min()?;
        let mut ends = columns.iter().map(|of| {
            let (offset, length) = of.get(last);
            offset.checked_add(length)
        });
        let end = ends.try_fold(0, |end, other| Some(end.max(other?)))?;
        // Offsets of a payload have the highest bit set, so only the distance matters.
        if first > end || end - first > i32::MAX as u32 || end == ABSENT {
            return None;
        }
        // The highest bit is set if a difference is negative, or 2 GiB or more.
        let outside_by = |(offset, length): (u32, u32)| {
            let (before, after) = (offset.wrapping_sub(first), end.wrapping_sub(offset));
            before | after.wrapping_sub(length) | length
        };
        let mut values = 0;
        for column in columns {
            let mut outside = 0;
            if column.even().is_some() {
                // Even values lie between the first one and the last one.
                outside = outside_by(column.get(records.start)) | outside_by(column.get(last));
                values += column.bytes(records.clone());
            } else {
                let offsets = &column.offsets()[records.clone()];
                let lengths = &column.lengths()[records.clone()];
                for (offset, length) in offsets.iter().zip(lengths) {
                    outside |= outside_by((*offset, *length));
                    values += u64::from(*length);
                }
            }
            if outside >> 31 != 0 {
                return None;
            }
        }
        Some(Self { span: first as usize..end as usize, values: values as usize })
    }

    fn in_any_order(columns: &[Column], records: &Range<usize>) -> Self {
        let (mut first, mut end, mut values) = (u32::MAX, 0, 0);
        for column in columns {
            if let Some(even) = column.even().filter(|_| !records.is_empty()) {
                let part = even.part(records);
                first = first.min(part.first);
                end = end.max(part.offset(records.len() - 1) + part.size);
                values += part.bytes();
                continue;
            }
            let offsets = column.offsets()[records.clone()].iter();
            for (offset, length) in offsets.zip(&column.lengths()[records.clone()]) {
                // Absent values have the largest offset.
                first = first.min(*offset);
                end = end.max(if *offset == ABSENT { 0 } else { offset + length });
                values += u64::from(*length);
            }
        }
        Self { span: first.min(end) as usize..end as usize, values: values as usize }
    }

    /// Whether to copy the whole span at once.
    pub(crate) fn is_together(&self) -> bool {
        self.span.len() <= MAX_SPREAD * self.values + MAX_BETWEEN
    }
}

/// Records of a batch that follow each other.
pub(crate) struct CopiedRun<'a> {
    batch: &'a Batch,
    /// The memory of the batch.
    memory: &'a [u8],
    records: Range<usize>,
    place: ValueSpan,
}

impl<'a> CopiedRun<'a> {
    pub(crate) fn new(batch: &'a Batch, memory: &'a [u8], records: Range<usize>) -> Self {
        let place = ValueSpan::of(&batch.columns, &records);
        Self { batch, memory, records, place }
    }

    /// Most bytes of payload that the copies take.
    pub(crate) fn payload(&self) -> usize {
        self.place.most_bytes()
    }

    /// Adds the records to the end of a batch, whose `memory` has room for them.
    pub(crate) fn append_to(&self, batch: &mut Batch, memory: &mut [u8]) {
        if self.place.is_together() {
            self.append_together(batch, memory);
        } else {
            self.append_by_field(batch, memory);
        }
        let is_absent = |column: &Column| column.has_absent(self.records.clone());
        batch.absent |= self.batch.absent && self.batch.columns.iter().any(is_absent);
        // Either all records have a start, or none has.
        batch.starts.extend_from_slice(self.batch.starts.get(self.records.clone()).unwrap_or(&[]));
        batch.records += self.records.len();
    }

    fn append_together(&self, batch: &mut Batch, memory: &mut [u8]) {
        let span = self.place.span.clone();
        let start = self.place.place_from(batch.payload);
        let (from, to) = (span.start as u32, start as u32);
        for (column, of_run) in batch.columns.iter_mut().zip(&self.batch.columns) {
            column.extend_moved(of_run, self.records.clone(), to.wrapping_sub(from));
        }
        let end = start + span.len();
        memory[start..end].copy_from_slice(&self.memory[span]);
        batch.payload = end;
    }

    fn append_by_field(&self, batch: &mut Batch, memory: &mut [u8]) {
        for (column, of_run) in batch.columns.iter_mut().zip(&self.batch.columns) {
            let source = |from| &self.memory[from as usize..];
            let values = (of_run, &self.records);
            batch.payload = copy_field(values, source, column, memory, batch.payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(batch: &Batch, memory: &[u8]) -> Vec<Vec<Option<Vec<u8>>>> {
        let value = |column: &Column, record: usize| {
            let (offset, length) = column.get(record);
            (offset != ABSENT).then(|| memory[offset as usize..][..length as usize].to_vec())
        };
        let record = |record| batch.columns.iter().map(|column| value(column, record)).collect();
        (0..batch.records).map(record).collect()
    }

    /// A batch of two fields whose values lie anywhere in `memory`.
    fn batch(memory: &[u8], places: &[[Option<(usize, usize)>; 2]]) -> Batch {
        let mut batch = Batch { columns: vec![Column::default(); 2], ..Batch::default() };
        for (record, fields) in places.iter().enumerate() {
            for (column, place) in batch.columns.iter_mut().zip(fields) {
                let (offset, length) = match place {
                    Some((at, length)) => {
                        let at = at % memory.len();
                        (at as u32, *length.min(&(memory.len() - at)) as u32)
                    }
                    None => (ABSENT, 0),
                };
                column.push(offset, length);
                batch.absent |= offset == ABSENT;
            }
            batch.starts.push(record as u64);
            batch.records += 1;
        }
        batch
    }

    fn places() -> impl Strategy<Value = Vec<[Option<(usize, usize)>; 2]>> {
        let close = proptest::option::weighted(0.9, (0_usize..2_000, 0_usize..60));
        let anywhere = proptest::option::weighted(0.9, (0_usize..40_000, 0_usize..60));
        let field = prop_oneof![3 => close, 1 => anywhere];
        proptest::collection::vec(proptest::array::uniform2(field), 1..30)
    }

    /// Values that follow each other, with gaps, and the records that have them.
    fn ordered_places() -> impl Strategy<Value = Vec<[Option<(usize, usize)>; 2]>> {
        let value = (0_usize..20, 0_usize..60);
        let records = proptest::collection::vec(proptest::array::uniform2(value), 1..30);
        records.prop_map(|records| {
            let mut end = 0;
            let mut place = |(gap, length)| {
                let at = end + gap;
                end = at + length;
                Some((at, length))
            };
            records.into_iter().map(|fields| fields.map(&mut place)).collect()
        })
    }

    proptest! {
        /// The span in order is that in any order. It is found if the values are in order.
        #[test]
        fn both_ways_find_the_same(
            places in prop_oneof![places(), ordered_places()],
            from in any::<proptest::sample::Index>(),
        ) {
            let batch = batch(&[0; 40_000], &places);
            let records = from.index(batch.records)..batch.records;
            let expected = ValueSpan::in_any_order(&batch.columns, &records);
            prop_assert_eq!(ValueSpan::of(&batch.columns, &records), expected.clone());
            let values = |record: usize| {
                batch.columns.iter().map(move |of| of.get(record))
            };
            let end = |(offset, length): (u32, u32)| offset.saturating_add(length);
            let first = values(records.start).map(|(offset, _)| offset).min();
            let last = values(records.end - 1).map(end).max();
            let mut all = records.clone().flat_map(values);
            let are_inside = all.all(|value| {
                value.0 != ABSENT && Some(value.0) >= first && Some(end(value)) <= last
            });
            let found = ValueSpan::in_order(&batch.columns, &records);
            prop_assert_eq!(found.is_some(), are_inside && last < Some(ABSENT));
        }

        #[test]
        fn the_copies_have_the_same_values(
            places in places(),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..4),
        ) {
            let memory: Vec<u8> = (0..40_000_u32).map(|at| ((at * 31) >> 3) as u8).collect();
            let from = batch(&memory, &places);
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(from.records + 1)).collect();
            cuts.extend([0, from.records]);
            cuts.sort_unstable();
            let mut copy = Batch { columns: vec![Column::default(); 2], ..Batch::default() };
            let mut copied = Vec::new();
            for run in cuts.windows(2) {
                let run = CopiedRun::new(&from, &memory, run[0]..run[1]);
                prop_assert!(run.payload() <= MAX_SPREAD * run.place.values + MAX_BETWEEN + ALIGN);
                copied.resize(copy.payload + run.payload(), 0);
                run.append_to(&mut copy, &mut copied);
                prop_assert!(copy.payload <= copied.len());
            }
            prop_assert_eq!(values(&copy, &copied), values(&from, &memory));
            prop_assert_eq!((copy.records, copy.absent), (from.records, from.absent));
            prop_assert_eq!(copy.starts, from.starts);
        }
    }
}
