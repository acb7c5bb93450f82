//! Records of a known list that are left out, by their numbers: a skip list.
//!
//! All others see the list without them: its objects and blocks have fewer records, whose numbers
//! follow each other. Only the object that is decoded says which of its records to skip.

use std::ops::Range;
use std::sync::Arc;

use pipemill_types::ListIdentity;

use crate::list_digest::ListDigest;
use crate::{Block, KnownList, KnownObject, KnownObjects, SeekPoint};

/// Ranges of record numbers, in order; no two of them touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedRecords {
    ranges: Arc<[Range<u64>]>,
    /// For each range, the number of records in it and in all before it.
    ends: Arc<[u64]>,
    digest: u64,
}

impl SkippedRecords {
    /// The records of these ranges, which may be in any order and overlap.
    pub fn new(mut ranges: Vec<Range<u64>>) -> Self {
        ranges.retain(|range| !range.is_empty());
        ranges.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut().filter(|last| range.start <= last.end) {
                Some(last) => last.end = last.end.max(range.end),
                None => joined.push(range),
            }
        }
        let (mut end, mut digest) = (0, ListDigest::default());
        let mut add = |range: &Range<u64>| {
            digest.add(&range.start.to_le_bytes(), &range.end.to_le_bytes());
            end += range.end - range.start;
            end
        };
        let ends = joined.iter().map(&mut add).collect();
        Self { ranges: joined.into(), ends, digest: digest.identity(true).contents }
    }

    /// Whether none is skipped.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges, in order.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Number of records that are skipped.
    pub fn count(&self) -> u64 {
        self.count_of(self.ranges.len())
    }

    /// Number of records in the first `ranges` ranges.
    fn count_of(&self, ranges: usize) -> u64 {
        ranges.checked_sub(1).map_or(0, |last| self.ends[last])
    }

    /// Identifies the records that are skipped.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Whether this record is skipped.
    pub fn contains(&self, record: u64) -> bool {
        let at = self.ranges.partition_point(|range| range.end <= record);
        self.ranges.get(at).is_some_and(|range| range.start <= record)
    }

    /// Those of the `records` records from number `first` on that are skipped, counted from there.
    pub fn inside(&self, first: u64, records: usize) -> Vec<Range<usize>> {
        let end = first.saturating_add(records as u64);
        let from = self.ranges.partition_point(|range| range.end <= first);
        let inside = self.ranges[from..].iter().take_while(|range| range.start < end);
        // Each number is that of one of these records, so it fits.
        let counted = |number: u64| (number.clamp(first, end) - first) as usize;
        inside.map(|range| counted(range.start)..counted(range.end)).collect()
    }

    /// Whether a state can go on at record number `record` of an object whose first record has this
    /// number: it knows only how many records before that are not skipped.
    pub fn can_restart(&self, first: u64, record: u64) -> bool {
        record == 0 || !self.contains(first.saturating_add(record) - 1)
    }

    /// Number of records before this one that are not skipped.
    pub fn kept_before(&self, record: u64) -> u64 {
        let ranges = self.ranges.partition_point(|range| range.end <= record);
        let begun = self.ranges.get(ranges).map_or(0, |range| record.saturating_sub(range.start));
        record - self.count_of(ranges) - begun
    }

    /// The number of the record with this number among those that are not skipped.
    pub fn number_of(&self, kept: u64) -> u64 {
        // Each range begins after more kept records than the one before.
        let (mut low, mut high) = (0, self.ranges.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.ranges[middle].start - self.count_of(middle) <= kept {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        kept.saturating_add(self.count_of(low))
    }
}

/// A list without some of its records.
#[derive(Debug)]
pub struct ListWithout {
    list: KnownList,
    skipped: SkippedRecords,
}

impl ListWithout {
    /// The list without the records with these numbers, counted over all objects.
    pub fn new(list: KnownList, skipped: SkippedRecords) -> Self {
        Self { list, skipped }
    }

    /// Number of the object's records before this one that are not skipped.
    fn kept_before(&self, number: u64, record: u64) -> u64 {
        let first = self.list.0.first_record(number);
        let before = self.skipped.kept_before(first.saturating_add(record));
        before - self.skipped.kept_before(first)
    }

    /// The block with the numbers of its records among those that are not skipped.
    fn renumbered(&self, number: u64, block: Block) -> Block {
        let record = self.kept_before(number, block.record);
        let end = self.kept_before(number, block.record.saturating_add(block.records));
        let (records, skipped) = (end - record, block.record - record);
        Block { record, records, skipped, read_from: record, read_to: end, ..block }
    }
}

impl KnownObjects for ListWithout {
    fn count(&self) -> u64 {
        self.list.0.count()
    }

    fn get(&self, number: u64) -> Option<KnownObject> {
        self.list.0.get(number)
    }

    fn short_name(&self, number: u64) -> Option<&str> {
        self.list.0.short_name(number)
    }

    fn size(&self, number: u64) -> u64 {
        self.list.0.size(number)
    }

    fn blocks(&self, number: u64, bytes: u64) -> Vec<Block> {
        let blocks = self.list.0.blocks(number, bytes).into_iter();
        let blocks = blocks.map(|block| self.renumbered(number, block));
        // A block without a record need not be read.
        blocks.filter(|block| block.records > 0).collect()
    }

    fn object_with(&self, record: u64) -> Option<(u64, u64)> {
        let (object, record) = self.list.0.object_with(self.skipped.number_of(record))?;
        Some((object, self.kept_before(object, record)))
    }

    fn block_with(&self, number: u64, record: u64) -> Option<Block> {
        let first = self.list.0.first_record(number);
        let among_all = self.skipped.kept_before(first).checked_add(record)?;
        let in_object = self.skipped.number_of(among_all).checked_sub(first)?;
        let block = self.list.0.block_with(number, in_object)?;
        Some(self.renumbered(number, block))
    }

    fn seek_point(&self, number: u64, offset: u64) -> Result<Option<SeekPoint>, String> {
        self.list.0.seek_point(number, offset)
    }

    fn seek_point_after(&self, number: u64, offset: u64) -> Result<Option<SeekPoint>, String> {
        self.list.0.seek_point_after(number, offset)
    }

    fn records(&self, number: u64) -> Option<u64> {
        Some(self.kept_before(number, self.list.0.records(number)?))
    }

    fn total_records(&self) -> u64 {
        self.skipped.kept_before(self.list.0.total_records())
    }

    fn is_read(&self, number: u64) -> bool {
        self.records(number) != Some(0) || self.list.0.records(number) == Some(0)
    }

    fn first_record(&self, number: u64) -> u64 {
        self.list.0.first_record(number)
    }

    fn skipped(&self, number: u64) -> SkippedRecords {
        let has_all = self.records(number) == self.list.0.records(number);
        if has_all { SkippedRecords::default() } else { self.skipped.clone() }
    }

    fn identity(&self) -> ListIdentity {
        let identity = self.list.0.identity();
        ListIdentity { contents: identity.contents ^ self.skipped.digest(), ..identity }
    }

    fn memory(&self) -> u64 {
        self.list.0.memory() + (24 * self.skipped.ranges().len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Each number is that of the plain definition: a list of the records that are left.
        #[test]
        fn numbers_are_those_of_the_records_that_are_left(
            ranges in prop::collection::vec((0..60_u64, 0..9_u64), 0..8),
        ) {
            let ranges: Vec<_> = ranges.into_iter().map(|(from, many)| from..from + many).collect();
            let is_skipped = |record: &u64| ranges.iter().any(|range| range.contains(record));
            let skipped = SkippedRecords::new(ranges.clone());
            let left: Vec<_> = (0..90).filter(|record| !is_skipped(record)).collect();
            prop_assert_eq!(90 - skipped.count(), left.len() as u64);
            for (first, records) in [(0, 90), (17, 30), (40, 1), (59, 0)] {
                let inside = skipped.inside(first, records).into_iter().flatten();
                let found: Vec<_> = inside.map(|at| first + at as u64).collect();
                let expected: Vec<_> =
                    (first..first + records as u64).filter(|record| is_skipped(record)).collect();
                prop_assert_eq!(found, expected);
            }
            for record in 0..90 {
                prop_assert_eq!(skipped.contains(record), is_skipped(&record));
                let before = left.iter().filter(|one| **one < record).count() as u64;
                prop_assert_eq!(skipped.kept_before(record), before);
            }
            for (kept, record) in left.iter().enumerate() {
                prop_assert_eq!(skipped.number_of(kept as u64), *record);
            }
        }
    }
}
