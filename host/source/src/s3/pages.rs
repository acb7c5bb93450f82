//! Limits for a list that comes page by page: a server may send pages without end.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Largest number of consecutive pages without a key. After many deletions, some pages have none.
const MAX_EMPTY: u32 = 1_000;
/// Largest number of keys in one list.
const MAX_KEYS: u64 = 1 << 30;

/// The pages of a list so far.
#[derive(Default)]
pub(super) struct Pages {
    /// Hashes of the beginnings of pages: tokens, and first keys.
    places: HashSet<u64>,
    hasher: RandomState,
    /// Pages without a key since the last one with a key.
    empty: u32,
    keys: u64,
}

impl Pages {
    /// Records a page that begins with this key.
    ///
    /// # Errors
    /// The list does not end; the error says why.
    pub(super) fn add(&mut self, first_key: Option<&str>, keys: usize) -> Result<(), String> {
        self.keys += keys as u64;
        if self.keys > MAX_KEYS {
            return Err(format!("the list has more than {MAX_KEYS} keys"));
        }
        let Some(key) = first_key else {
            self.empty += 1;
            return match self.empty {
                0..=MAX_EMPTY => Ok(()),
                _ => Err(format!("the list has {MAX_EMPTY} pages in a row without a key")),
            };
        };
        self.empty = 0;
        match self.places.insert(self.hasher.hash_one(("key", key))) {
            true => Ok(()),
            false => {
                Err("the list begins again: a second page begins with the same key".to_owned())
            }
        }
    }

    /// Records that the list continues at this token.
    ///
    /// # Errors
    /// The token appeared before, or the server does not say where the list continues.
    pub(super) fn go_on(&mut self, token: Option<&str>) -> Result<(), String> {
        match token {
            Some(token) if self.places.insert(self.hasher.hash_one(("token", token))) => Ok(()),
            Some(_) => Err("the list goes round: the server has sent the same continuation token \
                            twice"
                .to_owned()),
            None => Err("the server says that its list goes on, but not where".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_without_keys_are_counted_in_a_row() {
        let mut pages = Pages::default();
        for round in 0..3 {
            for _ in 0..MAX_EMPTY {
                assert_eq!(pages.add(None, 0), Ok(()));
            }
            assert_eq!(pages.add(Some(&format!("key {round}")), 1), Ok(()));
        }
        for _ in 0..MAX_EMPTY {
            assert_eq!(pages.add(None, 0), Ok(()));
        }
        assert!(pages.add(None, 0).is_err());
    }

    #[test]
    fn a_list_that_goes_round_is_noticed() {
        let mut pages = Pages::default();
        for token in ["a", "b", "c"] {
            assert_eq!(pages.go_on(Some(token)), Ok(()));
            assert_eq!(pages.add(Some(token), 1_000), Ok(()), "a key is no token");
        }
        assert!(pages.go_on(Some("a")).is_err());
        assert!(pages.add(Some("b"), 1).is_err());
        assert!(pages.go_on(None).is_err());
        let keys = usize::try_from(MAX_KEYS).unwrap();
        assert!(pages.add(Some("d"), keys).is_err());
    }
}
