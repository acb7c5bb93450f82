//! The object and the block of each record number.

use std::collections::BTreeMap;

use pipemill_source::{Block, KnownList};

/// Names a block: the number of its object in the list, and its first byte there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockKey {
    pub(crate) object: u64,
    pub(crate) offset: u64,
}

/// The place of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    pub(crate) block: BlockKey,
    /// Number of the record in its object, from 0.
    pub(crate) record: u64,
}

/// A block with the records that are wanted of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WantedBlock {
    pub(crate) key: BlockKey,
    pub(crate) block: Block,
    /// Their numbers in the object. Once they are all known, they are in order.
    pub(crate) records: Vec<u64>,
}

impl WantedBlock {
    /// The wanted ones of these records of the object.
    pub(crate) fn wanted_of(&self, first: u64, records: u64) -> &[u64] {
        let from = self.records.partition_point(|record| *record < first);
        let to = self.records.partition_point(|record| *record < first.saturating_add(records));
        &self.records[from..to]
    }
}

/// The numbers of all records of a list of objects.
pub(crate) struct RecordNumbers(KnownList);

impl RecordNumbers {
    pub(crate) fn new(list: KnownList) -> Self {
        Self(list)
    }

    /// Number of all records.
    pub(crate) fn count(&self) -> u64 {
        self.0.total_records()
    }

    /// The place of each of these records, and the blocks that have them, in the order of the list.
    /// `None` if there is no such record.
    pub(crate) fn places(&self, numbers: &[u64]) -> Option<(Vec<RecordPlace>, Vec<WantedBlock>)> {
        let mut wanted = BTreeMap::<BlockKey, WantedBlock>::new();
        let mut places = Vec::with_capacity(numbers.len());
        for number in numbers {
            let (object, record) = self.0.0.object_with(*number)?;
            let block = self.0.0.block_with(object, record)?;
            let key = BlockKey { object, offset: block.offset };
            let empty = || WantedBlock { key, block, records: Vec::new() };
            wanted.entry(key).or_insert_with(empty).records.push(record);
            places.push(RecordPlace { block: key, record });
        }
        let mut wanted: Vec<_> = wanted.into_values().collect();
        for block in &mut wanted {
            block.records.sort_unstable();
            block.records.dedup();
        }
        Some((places, wanted))
    }

    /// Bytes that the block is likely to take in memory.
    pub(crate) fn likely_bytes(&self, wanted: &WantedBlock) -> u64 {
        let Block { offset, end, .. } = wanted.block;
        // Of a compressed object, only the stored size is known.
        let size = || self.0.0.size(wanted.key.object).max(offset.saturating_add(MIN_BYTES));
        end.unwrap_or_else(size).saturating_sub(offset)
    }
}

/// Bytes that a block whose end is not known has at least, for estimates.
const MIN_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pipemill_source::{KnownObject, KnownObjects, SeekPoint};
    use pipemill_types::ListIdentity;
    use proptest::prelude::*;

    use super::*;

    /// Objects of blocks, each of which has this many records and 10 bytes.
    #[derive(Debug)]
    struct Objects(Vec<Vec<u64>>);

    impl KnownObjects for Objects {
        fn count(&self) -> u64 {
            self.0.len() as u64
        }

        fn get(&self, _: u64) -> Option<KnownObject> {
            None
        }

        fn short_name(&self, _: u64) -> Option<&str> {
            None
        }

        fn size(&self, number: u64) -> u64 {
            10 * self.0[number as usize].len() as u64
        }

        fn blocks(&self, number: u64, _: u64) -> Vec<Block> {
            let (mut record, mut offset) = (0, 0);
            let block = |records: &u64| {
                let block = Block::rest(offset, 0, record, record + records);
                (record, offset) = (record + records, offset + 10);
                block.up_to(offset, record)
            };
            self.0[number as usize].iter().map(block).collect()
        }

        fn seek_point(&self, _: u64, _: u64) -> Result<Option<SeekPoint>, String> {
            Ok(None)
        }

        fn seek_point_after(&self, _: u64, _: u64) -> Result<Option<SeekPoint>, String> {
            Ok(None)
        }

        fn records(&self, number: u64) -> Option<u64> {
            Some(self.0.get(number as usize)?.iter().sum())
        }

        fn first_record(&self, number: u64) -> u64 {
            self.0.iter().take(number as usize).flatten().sum()
        }

        fn identity(&self) -> ListIdentity {
            ListIdentity { objects: 0, is_whole: true, contents: 0, times: 0, unordered: 0 }
        }

        fn memory(&self) -> u64 {
            0
        }
    }

    proptest! {
        #[test]
        fn each_record_is_wanted_of_the_block_that_has_it(
            objects in proptest::collection::vec(proptest::collection::vec(0..5_u64, 0..4), 0..5),
            asked in proptest::collection::vec(0..40_u64, 1..30),
        ) {
            let mut all = Vec::new();
            for (object, blocks) in objects.iter().enumerate() {
                let mut record = 0;
                for (block, records) in blocks.iter().enumerate() {
                    for _ in 0..*records {
                        let block = BlockKey { object: object as u64, offset: 10 * block as u64 };
                        all.push(RecordPlace { block, record });
                        record += 1;
                    }
                }
            }
            let numbers = RecordNumbers::new(KnownList::new(Arc::new(Objects(objects))));
            prop_assert_eq!(numbers.count(), all.len() as u64);
            let expected: Option<Vec<_>> =
                asked.iter().map(|number| all.get(*number as usize).copied()).collect();
            let found = numbers.places(&asked);
            prop_assert_eq!(found.as_ref().map(|(places, _)| places.clone()), expected);
            let Some((places, wanted)) = found else { return Ok(()) };
            let keys: Vec<_> = wanted.iter().map(|one| one.key).collect();
            prop_assert!(keys.is_sorted_by(|one, next| one < next));
            for one in &wanted {
                prop_assert!(one.records.is_sorted_by(|record, next| record < next));
                for record in 0..20 {
                    let place = RecordPlace { block: one.key, record };
                    let is_wanted = one.wanted_of(record, 1) == [record];
                    prop_assert_eq!(is_wanted, places.contains(&place));
                }
            }
            prop_assert!(places.iter().all(|place| keys.contains(&place.block)));
        }
    }
}
