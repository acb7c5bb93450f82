//! The most recent keys of an archive's samples, in a limited amount of memory. A key that occurs
//! again after another sample began shows that the members of a sample are not adjacent.

/// Largest size of the table in keys: 1 MiB. If there are more keys, a new one replaces an old one.
const MAX_PLACES: usize = 1 << 17;
/// Initial size of the table in keys.
const FIRST_PLACES: usize = 256;
/// Number of slots of the table that are searched for a key.
const MAX_STEPS: usize = 32;

/// The hashes of the keys. A false alarm requires two keys with the same hash of 64 bits.
#[derive(Debug, Default)]
pub(crate) struct RecentKeys {
    /// A table whose size is a power of two; 0 is a free place.
    places: Vec<u64>,
    /// Number of keys in the table.
    count: usize,
}

impl RecentKeys {
    /// Remembers a key. Returns whether it was there before.
    pub(crate) fn insert(&mut self, key: &[u8]) -> bool {
        if self.count * 4 >= self.places.len() && self.places.len() < MAX_PLACES {
            self.grow();
        }
        self.insert_hash(hash(key))
    }

    /// Forgets all keys.
    pub(crate) fn clear(&mut self) {
        self.places.fill(0);
        self.count = 0;
    }

    fn insert_hash(&mut self, hash: u64) -> bool {
        let mask = self.places.len() - 1;
        let first = hash as usize & mask;
        for step in 0..MAX_STEPS {
            let place = &mut self.places[(first + step) & mask];
            if *place == hash {
                return true;
            }
            if *place == 0 {
                *place = hash;
                self.count += 1;
                return false;
            }
        }
        self.places[first] = hash;
        false
    }

    fn grow(&mut self) {
        let size = (2 * self.places.len()).max(FIRST_PLACES);
        let old = std::mem::replace(&mut self.places, vec![0; size]);
        self.count = 0;
        for hash in old.into_iter().filter(|hash| *hash != 0) {
            self.insert_hash(hash);
        }
    }
}

/// A hash of a key, not 0. Eight bytes at a time are mixed in by a multiplication.
fn hash(key: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(FACTOR);
        (product >> 64) as u64 ^ product as u64
    };
    let (words, rest) = key.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let hash = words
        .iter()
        .fold(FACTOR ^ key.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    mix(mix(hash, u64::from_le_bytes(last)), FACTOR).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Vec<u8> {
        format!("train/{number:08}").into_bytes()
    }

    #[test]
    fn keys_that_come_again_are_known() {
        let mut keys = RecentKeys::default();
        assert!((0..20_000).all(|number| !keys.insert(&key(number))));
        assert!((0..20_000).all(|number| keys.insert(&key(number))));
        keys.clear();
        assert!(!keys.insert(&key(7)) && keys.insert(&key(7)));
    }

    #[test]
    fn of_many_keys_most_of_the_last_ones_are_known() {
        let (mut keys, count) = (RecentKeys::default(), 4 * MAX_PLACES);
        assert!((0..count).all(|number| !keys.insert(&key(number))));
        assert_eq!(keys.places.len(), MAX_PLACES);
        let known = (count - 1000..count).filter(|number| keys.insert(&key(*number)));
        assert!(known.count() > 900);
    }

    #[test]
    fn keys_of_any_length_have_different_hashes() {
        let mut hashes: Vec<_> = (0..40).map(|length| hash(&vec![0; length])).collect();
        hashes.extend((0..40).map(|length| hash(&vec![b'a'; length])));
        hashes.sort_unstable();
        hashes.dedup();
        // The empty key is in both.
        assert_eq!(hashes.len(), 79);
    }
}
