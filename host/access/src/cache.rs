//! The decoded blocks that are kept, within a limit of memory: the ones that were used last.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Values that are kept, of which the one that was not used for the longest time goes first.
pub(crate) struct Cache<K, V> {
    /// Most bytes of all values.
    limit: u64,
    bytes: u64,
    /// The values, with their bytes and the time of their last use.
    values: HashMap<K, Kept<V>>,
    /// The keys by the time of their last use.
    by_use: BTreeMap<u64, K>,
    /// The time of the next use: a count of all uses.
    time: u64,
}

struct Kept<V> {
    value: V,
    bytes: u64,
    used: u64,
}

impl<K: Copy + Eq + Hash, V: Clone> Cache<K, V> {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, bytes: 0, values: HashMap::new(), by_use: BTreeMap::new(), time: 0 }
    }

    /// Most bytes of all values.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// The value of this key, which is used now.
    pub(crate) fn get(&mut self, key: K) -> Option<V> {
        let kept = self.values.get_mut(&key)?;
        self.by_use.remove(&kept.used);
        kept.used = self.time;
        self.by_use.insert(self.time, key);
        self.time += 1;
        Some(kept.value.clone())
    }

    /// Keeps a value that takes this many bytes, and drops others until all fit. A value that takes
    /// more than the limit is not kept.
    pub(crate) fn insert(&mut self, key: K, value: V, bytes: u64) {
        self.remove(key);
        if bytes > self.limit {
            return;
        }
        while self.bytes + bytes > self.limit
            && let Some((_, oldest)) = self.by_use.first_key_value()
        {
            self.remove(*oldest);
        }
        self.values.insert(key, Kept { value, bytes, used: self.time });
        self.by_use.insert(self.time, key);
        self.time += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, key: K) {
        if let Some(kept) = self.values.remove(&key) {
            self.by_use.remove(&kept.used);
            self.bytes -= kept.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_value_that_was_not_used_for_the_longest_time_goes_first() {
        let mut cache = Cache::new(10);
        cache.insert('a', 1, 4);
        cache.insert('b', 2, 4);
        assert_eq!(cache.get('a'), Some(1));
        cache.insert('c', 3, 4);
        assert_eq!((cache.get('a'), cache.get('b'), cache.get('c')), (Some(1), None, Some(3)));
        cache.insert('d', 4, 11);
        assert_eq!((cache.get('a'), cache.get('d')), (Some(1), None));
        cache.insert('a', 5, 10);
        assert_eq!((cache.get('a'), cache.get('c')), (Some(5), None));
    }

    proptest! {
        #[test]
        fn it_is_a_list_in_the_order_of_use_that_is_cut_to_the_limit(
            limit in 0..40_u64,
            uses in proptest::collection::vec((0..8_u8, proptest::option::of(0..20_u64)), 0..60),
        ) {
            let mut cache = Cache::new(limit);
            let mut model = Vec::<(u8, usize, u64)>::new();
            for (at, (key, bytes)) in uses.into_iter().enumerate() {
                let found = model.iter().position(|kept| kept.0 == key).map(|at| model.remove(at));
                let Some(bytes) = bytes else {
                    prop_assert_eq!(cache.get(key), found.map(|kept| kept.1));
                    model.extend(found);
                    continue;
                };
                cache.insert(key, at, bytes);
                if bytes <= limit {
                    model.push((key, at, bytes));
                }
                while model.iter().map(|kept| kept.2).sum::<u64>() > limit {
                    model.remove(0);
                }
                prop_assert_eq!(cache.bytes, model.iter().map(|kept| kept.2).sum::<u64>());
                let sizes = (cache.values.len(), cache.by_use.len());
                prop_assert_eq!(sizes, (model.len(), model.len()));
            }
        }
    }
}
