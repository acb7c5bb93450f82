//! Where one field's values lie, for all records of a batch or of a decode call.

use std::ops::Range;
use std::sync::OnceLock;

/// Offset of a field that a record does not have. Its length is 0.
pub const ABSENT: u32 = u32::MAX;

/// Values of one size that follow each other. All records have the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Even {
    /// Offset of the first value.
    pub first: u32,
    /// Length of each value, in bytes.
    pub size: u32,
    /// Number of records.
    pub records: u32,
}

impl Even {
    /// Offset of the value of a record.
    pub fn offset(self, record: usize) -> u32 {
        self.first.wrapping_add((record as u32).wrapping_mul(self.size))
    }

    /// The values of these records, which must be among these.
    pub fn part(self, records: &Range<usize>) -> Self {
        debug_assert!(records.start <= records.end && records.end <= self.records as usize);
        Self { first: self.offset(records.start), records: records.len() as u32, ..self }
    }

    /// The same values, if their memory begins this many bytes earlier. The number may wrap.
    pub fn moved(self, bytes: u32) -> Self {
        Self { first: self.first.wrapping_add(bytes), ..self }
    }

    /// Bytes of all values.
    pub fn bytes(self) -> u64 {
        u64::from(self.size) * u64::from(self.records)
    }
}

/// Offsets and lengths of one field, one entry per record.
///
/// An offset is in bytes from the start of the records' memory; [`ABSENT`] if a record has no such
/// field. A length is in bytes; 0 if a record has no such field. Even values have no lists until
/// somebody asks for them.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// The place of the values, if they are even. `offsets` and `lengths` are empty then.
    even: Option<Even>,
    offsets: Vec<u32>,
    lengths: Vec<u32>,
    /// The offsets and lengths of even values, once somebody asked for them.
    made: OnceLock<Box<(Vec<u32>, Vec<u32>)>>,
}

impl From<Even> for Column {
    fn from(even: Even) -> Self {
        Self { even: Some(even), ..Self::default() }
    }
}

/// Whether all values lie at the same places.
impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        match (self.even, other.even) {
            (Some(one), Some(other)) => one == other,
            _ => self.offsets() == other.offsets() && self.lengths() == other.lengths(),
        }
    }
}

impl Eq for Column {}

impl Column {
    /// A column with an entry of both lists for each record.
    pub fn of_lists(offsets: Vec<u32>, lengths: Vec<u32>) -> Self {
        Self { offsets, lengths, ..Self::default() }
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.even.map_or(self.offsets.len(), |even| even.records as usize)
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The place of the values, if they are known to be even. `None` says nothing.
    pub fn even(&self) -> Option<Even> {
        self.even
    }

    /// Offset and length of a record's value.
    #[inline]
    pub fn get(&self, record: usize) -> (u32, u32) {
        match self.even {
            Some(even) => {
                assert!(record < even.records as usize, "no such record");
                (even.offset(record), even.size)
            }
            None => (self.offsets[record], self.lengths[record]),
        }
    }

    /// The offset of each record's value. It makes the list if the values are even.
    pub fn offsets(&self) -> &[u32] {
        if self.even.is_some() { &self.made().0 } else { &self.offsets }
    }

    /// The length of each record's value. It makes the list if the values are even.
    pub fn lengths(&self) -> &[u32] {
        if self.even.is_some() { &self.made().1 } else { &self.lengths }
    }

    fn made(&self) -> &(Vec<u32>, Vec<u32>) {
        self.made.get_or_init(|| {
            let (mut offsets, mut lengths) = (Vec::new(), Vec::new());
            if let Some(even) = self.even {
                write_lists(even, &mut offsets, &mut lengths);
            }
            Box::new((offsets, lengths))
        })
    }

    /// Both lists, to change them. They must have the same length in the end.
    pub fn lists(&mut self) -> (&mut Vec<u32>, &mut Vec<u32>) {
        if let Some(even) = self.even.take() {
            self.made.take();
            write_lists(even, &mut self.offsets, &mut self.lengths);
        }
        (&mut self.offsets, &mut self.lengths)
    }

    /// Adds a record.
    #[inline]
    pub fn push(&mut self, offset: u32, length: u32) {
        let (offsets, lengths) = self.lists();
        offsets.push(offset);
        lengths.push(length);
    }

    /// Adds records with even values.
    pub fn extend_even(&mut self, added: Even) {
        match &mut self.even {
            _ if added.records == 0 => {}
            None if self.offsets.is_empty() => self.even = Some(added),
            Some(even) if even.size == added.size && follows(*even, added.first) => {
                even.records += added.records;
                self.made.take();
            }
            _ => {
                let (offsets, lengths) = self.lists();
                write_lists(added, offsets, lengths);
            }
        }
    }

    /// Adds these records of another column whose memory begins `bytes` later. The number may wrap.
    pub fn extend_moved(&mut self, of: &Self, records: Range<usize>, bytes: u32) {
        if let Some(even) = of.even {
            return self.extend_even(even.part(&records).moved(bytes));
        }
        let (offsets, lengths) = self.lists();
        offsets.extend(of.offsets[records.clone()].iter().map(|offset| match *offset {
            ABSENT => ABSENT,
            offset => offset.wrapping_add(bytes),
        }));
        lengths.extend_from_slice(&of.lengths[records]);
    }

    /// Whether one of these records does not have the field.
    pub fn has_absent(&self, records: Range<usize>) -> bool {
        self.even.is_none() && self.offsets[records].contains(&ABSENT)
    }

    /// Bytes of the values of these records.
    pub fn bytes(&self, records: Range<usize>) -> u64 {
        match self.even {
            Some(even) => even.part(&records).bytes(),
            None => self.lengths[records].iter().map(|length| u64::from(*length)).sum(),
        }
    }

    /// Removes all records. The memory stays.
    pub fn clear(&mut self) {
        self.even = None;
        self.made.take();
        self.offsets.clear();
        self.lengths.clear();
    }

    /// Keeps the first `records` records.
    pub fn truncate(&mut self, records: usize) {
        match &mut self.even {
            Some(even) if (even.records as usize) <= records => {}
            Some(even) => {
                even.records = records as u32;
                self.made.take();
            }
            None => {
                self.offsets.truncate(records);
                self.lengths.truncate(records);
            }
        }
    }

    /// Removes the first `records` records. There must be as many.
    pub fn remove_first(&mut self, records: usize) {
        if let Some(even) = &mut self.even {
            *even = even.part(&(records..even.records as usize));
            self.made.take();
        } else {
            self.offsets.drain(..records);
            self.lengths.drain(..records);
        }
    }

    /// Removes the records in these ranges, which are in order.
    pub fn remove(&mut self, ranges: &[Range<usize>]) {
        if ranges.iter().all(Range::is_empty) {
            return;
        }
        let (offsets, lengths) = self.lists();
        remove_ranges(offsets, ranges);
        remove_ranges(lengths, ranges);
    }

    /// Bytes of memory that the lists take.
    pub fn allocated(&self) -> usize {
        let made = self.made.get().map_or(0, |made| made.0.capacity() + made.1.capacity());
        size_of::<u32>() * (self.offsets.capacity() + self.lengths.capacity() + made)
    }

    /// Gives back the memory of the lists that is not used.
    pub fn shrink_to_fit(&mut self) {
        self.made.take();
        self.offsets.shrink_to_fit();
        self.lengths.shrink_to_fit();
    }
}

/// Whether a value at this offset follows the last one of these.
fn follows(even: Even, offset: u32) -> bool {
    even.offset(even.records as usize) == offset
}

fn write_lists(even: Even, offsets: &mut Vec<u32>, lengths: &mut Vec<u32>) {
    offsets.extend((0..even.records).map(|record| even.offset(record as usize)));
    lengths.resize(lengths.len() + even.records as usize, even.size);
}

/// Removes the entries of a list in these ranges, which are in order, unless the list is empty.
pub fn remove_ranges<T: Copy>(list: &mut Vec<T>, ranges: &[Range<usize>]) {
    let Some(first) = ranges.first().filter(|_| !list.is_empty()) else { return };
    let mut to = first.start;
    for (range, next) in ranges.iter().zip(1..) {
        let next = ranges.get(next).map_or(list.len(), |next| next.start);
        list.copy_within(range.end..next, to);
        to += next - range.end;
    }
    list.truncate(to);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_between_the_ranges_stays() {
        let left = |ranges: &[Range<usize>]| {
            let mut list: Vec<_> = (0..10).collect();
            remove_ranges(&mut list, ranges);
            list
        };
        assert_eq!(left(&[]), (0..10).collect::<Vec<_>>());
        assert_eq!(left(&[0..3, 5..6, 9..10]), [3, 4, 6, 7, 8]);
        assert!(left(&[0..4, 4..10]).is_empty());
        let mut empty = Vec::<u8>::new();
        remove_ranges(&mut empty, &[0..3, 5..6]);
        assert!(empty.is_empty());
    }

    /// What can be done to a column.
    #[derive(Clone, Debug)]
    enum Step {
        Push(u32, u32),
        Even(Even),
        /// Even values right after the last one, of the same size.
        Next(u32),
        Clear,
        Truncate(usize),
        RemoveFirst(usize),
        Remove(usize, usize),
        /// The column is copied to an empty one, from this record on.
        Moved(usize, u32),
        Read,
    }

    fn step() -> impl Strategy<Value = Step> {
        let even = (0..1000_u32, 0..9_u32, 0..6_u32).prop_map(|(first, size, records)| Even {
            first,
            size,
            records,
        });
        prop_oneof![
            2 => (0..1000_u32, 0..9_u32).prop_map(|(offset, length)| Step::Push(offset, length)),
            1 => Just(Step::Push(ABSENT, 0)),
            3 => even.prop_map(Step::Even),
            4 => (0..6_u32).prop_map(Step::Next),
            1 => Just(Step::Clear),
            1 => (0..20_usize).prop_map(Step::Truncate),
            1 => (0..20_usize).prop_map(Step::RemoveFirst),
            1 => (0..20_usize, 0..20_usize).prop_map(|(from, to)| Step::Remove(from, to)),
            2 => (0..20_usize, 0..50_u32).prop_map(|(from, bytes)| Step::Moved(from, bytes)),
            1 => Just(Step::Read),
        ]
    }

    proptest! {
        /// A column is two lists, whether its values are even or not.
        #[test]
        fn a_column_does_what_two_lists_do(
            steps in proptest::collection::vec(step(), 0..30),
            cut in any::<proptest::sample::Index>(),
        ) {
            let (mut column, mut lists) = (Column::default(), Vec::<(u32, u32)>::new());
            for step in steps {
                match step {
                    Step::Push(offset, length) => {
                        column.push(offset, length);
                        lists.push((offset, length));
                    }
                    Step::Even(even) => {
                        column.extend_even(even);
                        let values = 0..even.records;
                        lists.extend(values.map(|at| (even.first + at * even.size, even.size)));
                    }
                    Step::Next(records) => {
                        let (at, size) = lists.last().copied().unwrap_or((7, 2));
                        let first = if at == ABSENT { 0 } else { at + size };
                        column.extend_even(Even { first, size, records });
                        lists.extend((0..records).map(|at| (first + at * size, size)));
                    }
                    Step::Clear => {
                        column.clear();
                        lists.clear();
                    }
                    Step::Truncate(records) => {
                        column.truncate(records);
                        lists.truncate(records);
                    }
                    Step::RemoveFirst(records) => {
                        let records = records.min(lists.len());
                        column.remove_first(records);
                        lists.drain(..records);
                    }
                    Step::Remove(from, to) => {
                        let (from, to) = (from.min(lists.len()), to.min(lists.len()));
                        let range = from.min(to)..from.max(to);
                        column.remove(std::slice::from_ref(&range));
                        remove_ranges(&mut lists, std::slice::from_ref(&range));
                    }
                    Step::Moved(from, bytes) => {
                        let from = from.min(lists.len());
                        let mut moved = Column::default();
                        moved.extend_moved(&column, from..lists.len(), bytes);
                        column = moved;
                        lists.drain(..from);
                        let present = lists.iter_mut().filter(|(at, _)| *at != ABSENT);
                        present.for_each(|(at, _)| *at += bytes);
                    }
                    Step::Read => prop_assert_eq!(column.offsets().len(), lists.len()),
                }
            }
            let (offsets, lengths): (Vec<_>, Vec<_>) = lists.iter().copied().unzip();
            let part = cut.index(lists.len() + 1)..lists.len();
            prop_assert_eq!(column.len(), lists.len());
            prop_assert!((0..lists.len()).all(|at| column.get(at) == lists[at]));
            prop_assert_eq!(
                column.has_absent(part.clone()), offsets[part.clone()].contains(&ABSENT)
            );
            let bytes: u64 = lengths[part.clone()].iter().map(|length| u64::from(*length)).sum();
            prop_assert_eq!(column.bytes(part), bytes);
            prop_assert_eq!(column.offsets(), &offsets[..]);
            prop_assert_eq!(column.lengths(), &lengths[..]);
            prop_assert_eq!(&column, &Column::of_lists(offsets, lengths));
        }
    }
}
