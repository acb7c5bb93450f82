//! A queue in the order of keys that grow with the input: a calendar queue. A record goes into the
//! bucket of its key; a bucket is sorted when all later keys are larger. So the cost of a record
//! does not depend on the size of the window.

use std::collections::VecDeque;

/// Buckets that a window is divided into, about.
const BUCKETS: u64 = 2_048;

/// The place of a record in the window. Places are in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordPlace {
    /// Number of the block.
    pub(super) block: u32,
    /// Number of the record in the block, from 0.
    pub(super) record: u32,
}

/// A key and a [`RecordPlace`] in one number: comparing two of them takes no branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u128);

impl Entry {
    fn new(key: u64, place: RecordPlace) -> Self {
        let place = u64::from(place.block) << 32 | u64::from(place.record);
        Self(u128::from(key) << 64 | u128::from(place))
    }

    fn place(self) -> RecordPlace {
        RecordPlace { block: (self.0 >> 32) as u32, record: self.0 as u32 }
    }
}

/// Records in the order of (key, arrival).
pub(super) struct DelayQueue {
    /// A ring: the bucket of number `n` is at `n` modulo its length.
    buckets: Vec<Vec<Entry>>,
    /// A bucket has 2 to the power of this keys.
    shift: u32,
    /// Number of the first bucket that is not drained yet.
    first: u64,
    /// Number of records.
    len: usize,
}

impl DelayQueue {
    /// An empty queue for keys that are at most `window` - 1 larger than the last place.
    pub(super) fn new(window: u64) -> Self {
        let shift = (window / BUCKETS).checked_ilog2().unwrap_or(0);
        // The first bucket and the last one may each be needed for a part of the window.
        let buckets = ((window >> shift) + 2).next_power_of_two() as usize;
        let buckets = std::iter::repeat_with(Vec::new).take(buckets).collect();
        Self { buckets, shift, first: 0, len: 0 }
    }

    fn bucket(&mut self, number: u64) -> &mut Vec<Entry> {
        let mask = self.buckets.len() as u64 - 1;
        &mut self.buckets[(number & mask) as usize]
    }

    /// Adds a record. Its key must not be less than the place up to which records were taken.
    pub(super) fn push(&mut self, key: u64, place: RecordPlace) {
        self.bucket(key >> self.shift).push(Entry::new(key, place));
        self.len += 1;
    }

    /// Moves to `due` the records that no later one can precede: those in the buckets before
    /// `place`. No later key is less than `place`.
    pub(super) fn take_due(&mut self, place: u64, due: &mut VecDeque<RecordPlace>) {
        let end = place >> self.shift;
        while self.first < end && self.len > 0 {
            self.drain_first(due);
        }
        self.first = self.first.max(end);
    }

    /// Moves the next records to `due`, even if later ones could precede them. False if there are
    /// none.
    pub(super) fn take_next(&mut self, due: &mut VecDeque<RecordPlace>) -> bool {
        let is_empty = self.len == 0;
        if !is_empty {
            self.drain_first(due);
        }
        !is_empty
    }

    fn drain_first(&mut self, due: &mut VecDeque<RecordPlace>) {
        let number = self.first;
        self.first += 1;
        // The bucket's memory is not kept: later, larger records may need far less.
        let mut bucket = std::mem::take(self.bucket(number));
        bucket.sort_unstable();
        due.extend(bucket.iter().map(|entry| entry.place()));
        self.len -= bucket.len();
    }

    /// Removes all records; keys begin at 0 again.
    pub(super) fn clear(&mut self) {
        self.buckets.fill_with(Vec::new);
        (self.first, self.len) = (0, 0);
    }

    /// Bytes of memory that are held.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.buckets.iter().map(|bucket| size_of::<Entry>() * bucket.capacity()).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_leave_in_the_order_of_a_plain_sort(
            window in prop_oneof![1_u64..9, 9_u64..100_000, 1_u64..1 << 40],
            // Costs of the records, and their delays in parts of the window.
            records in prop::collection::vec((0.0..1.0f64, 0.0..1.0f64, any::<bool>()), 0..600),
            epochs in 1..3,
        ) {
            let mut queue = DelayQueue::new(window);
            for _ in 0..epochs {
                let (mut place, mut due, mut keys) = (0, VecDeque::new(), Vec::new());
                for (number, (cost, delay, is_large)) in records.iter().enumerate() {
                    let at = RecordPlace { block: number as u32 / 10, record: number as u32 % 10 };
                    let key = place + ((delay * window as f64) as u64).min(window - 1);
                    queue.push(key, at);
                    keys.push((key, at));
                    place += (cost * window as f64 * if *is_large { 3.0 } else { 0.01 }) as u64;
                    queue.take_due(place, &mut due);
                    // Due records leave soon: the bucket of the place is the first that stays.
                    let is_before = |key: u64| key >> queue.shift < place >> queue.shift;
                    let left = keys.iter().filter(|(key, _)| is_before(*key));
                    prop_assert_eq!(left.count(), due.len());
                }
                while queue.take_next(&mut due) {}
                keys.sort();
                let expected: Vec<_> = keys.into_iter().map(|(_, at)| at).collect();
                prop_assert_eq!(Vec::from(due), expected);
                queue.clear();
            }
        }
    }
}
