//! The keys of the last maps, in their order. Almost all maps of a stream have the same keys in the
//! same order, or lack some of them. So comparing a key with the next ones is faster than any
//! search.

use crate::format::SIZES;

/// A value in the chunk.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Found {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// Longest key that is remembered, in encoded bytes: two words.
const MAX_KEY_BYTES: usize = 16;
/// Number of bytes that are compared together: a key and the head of its value.
const WINDOW: usize = 32;
/// Number of remembered keys.
const MAX_KEYS: usize = 64;
/// Number of consecutive keys that a map may lack so that the next one is still found by
/// comparison.
const MAX_MISSING: usize = 7;

/// The keys of the last maps, in their order, each with the node of its value.
#[derive(Debug, Clone, Default)]
pub(crate) struct Template {
    keys: Vec<Key>,
}

/// An encoded key, filled up with zeros.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Key {
    low: u64,
    high: u64,
    /// The bits of `low` and `high` that belong to the key.
    low_mask: u64,
    high_mask: u64,
    /// Size in bytes.
    size: usize,
    /// Node of the value.
    node: usize,
    /// Whether the value contains wanted values.
    is_inner: bool,
}

impl Key {
    /// Whether bytes start with the key. `words` are the first 16 bytes.
    #[inline(always)]
    fn is(&self, words: (u64, u64)) -> bool {
        (words.0 & self.low_mask ^ self.low) | (words.1 & self.high_mask ^ self.high) == 0
    }
}

/// The part of a map whose keys are known.
pub(crate) struct Known {
    /// The start of the first other entry, or of its value, if its key is known.
    pub(crate) at: usize,
    /// Number of entries from there on.
    pub(crate) left: u64,
    /// The position in the template where the search for the next key starts.
    pub(crate) place: usize,
    /// The node of its value, if its key is known.
    pub(crate) node: Option<usize>,
}

impl Template {
    /// Scans the entries of a map from the one at `at` on, as long as their keys are known, and
    /// their values contain no others. `left` is the number of entries. The search for a key starts
    /// at `place` in the template.
    #[inline]
    pub(crate) fn scan(
        &self,
        found: &mut [Found],
        chunk: &[u8],
        mut at: usize,
        mut left: u64,
        mut place: usize,
    ) -> Known {
        while left > 0 {
            let Some(window) = chunk.get(at..).and_then(<[u8]>::first_chunk) else { break };
            let Some(key) = self.find(window, &mut place) else { break };
            // A key has at most 16 bytes, so the mask changes nothing. It saves a bounds check.
            let byte = |at: usize| window[at % WINDOW];
            let start = at + key.size;
            let first = byte(key.size);
            let size = match first {
                // A str or bin with a length of one byte.
                0xc4 | 0xd9 => 2 + usize::from(byte(key.size + 1)),
                first => usize::from(SIZES[usize::from(first)]),
            };
            if size == 0 || key.is_inner {
                return Known { at: start, left, place, node: Some(key.node) };
            }
            let end = start + size;
            if let Some(found) = found.get_mut(key.node) {
                *found = Found { start: start as u32, end: end as u32 };
            }
            (at, left) = (end, left - 1);
        }
        Known { at, left, place, node: None }
    }

    /// The key that the bytes start with, if it is the key at `place` or one of the next. `place`
    /// is after it then.
    #[inline(always)]
    fn find(&self, bytes: &[u8; WINDOW], place: &mut usize) -> Option<&Key> {
        let words = (word(bytes, 0), word(bytes, 8));
        let key = self.keys.get(*place)?;
        if key.is(words) {
            *place += 1;
            return Some(key);
        }
        self.find_next(words, place)
    }

    /// Like [`find`](Self::find), for a map that lacks the key at `place`.
    #[inline(never)]
    fn find_next(&self, words: (u64, u64), place: &mut usize) -> Option<&Key> {
        let next = self.keys[*place + 1..].iter().take(MAX_MISSING);
        let (missing, key) = next.enumerate().find(|(_, key)| key.is(words))?;
        *place += missing + 2;
        Some(key)
    }

    /// Remembers a key that [`scan`](Self::scan) has not found from `place` on. Returns the
    /// position after it.
    pub(crate) fn learn(&mut self, place: usize, key: &[u8], node: usize, is_inner: bool) -> usize {
        if key.len() > MAX_KEY_BYTES {
            return place;
        }
        let (mut bytes, mut mask) = ([0; WINDOW], [0; WINDOW]);
        bytes[..key.len()].copy_from_slice(key);
        mask[..key.len()].fill(0xff);
        let (low, high) = (word(&bytes, 0), word(&bytes, 8));
        let (low_mask, high_mask) = (word(&mask, 0), word(&mask, 8));
        let key = Key { low, high, low_mask, high_mask, size: key.len(), node, is_inner };
        if let Some(other) = self.keys.iter().position(|other| *other == key) {
            return other + 1;
        }
        if self.keys.len() < MAX_KEYS {
            self.keys.insert(place, key);
            return place + 1;
        }
        place
    }
}

/// The eight bytes at `at`.
#[inline(always)]
fn word(bytes: &[u8; WINDOW], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
