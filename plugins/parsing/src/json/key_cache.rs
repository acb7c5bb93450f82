//! The keys of the texts before, each with what stands around it: `, "text": `. Texts of a stream
//! mostly have the same keys in the same order, or lack some of them. Then comparing 16 or 32 bytes
//! finds comma, key and colon at once, and which value is wanted.
//!
//! An entry was parsed once, in an object of the same node, at the same place (first or later), so
//! the same bytes there are valid again. Only speed depends on what is remembered, and on the order.

use super::bytes16::{Bytes16, LANES};

/// Most bytes of a key with what is around it.
const MAX_BYTES: usize = 2 * LANES;
/// Number of entries, as many as a `u8` can name. The entry 0 stands for the start of a text.
const ENTRIES: usize = 256;

/// The remembered keys.
#[derive(Debug, Clone)]
pub(super) struct KeyCache {
    /// The entries, in the order in which they were first seen: mostly that of the keys of a text.
    entries: Box<[Entry; ENTRIES]>,
    /// Number of entries.
    count: u8,
    /// Entries by their hashes.
    by_hash: Box<[u8; ENTRIES]>,
}

/// A key with what is around it, from the end of the value before it, or from the brace, to the
/// start of its value.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Entry {
    bytes: [u8; MAX_BYTES],
    /// Number of the bytes.
    length: u32,
    /// The bits of the bytes after them.
    ignored: u32,
    /// Where the key stands.
    place: Place,
    /// The node of its value.
    child: usize,
    /// Whether all bytes are ASCII.
    ascii: bool,
    /// The last two entries that came after this one and do not follow it.
    next: [u8; 2],
}

/// Where a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The node of the object.
    pub(super) node: usize,
    /// Whether it is the object's first key.
    pub(super) first: bool,
}

/// A key that was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// Its entry.
    pub(super) entry: u8,
    /// The start of its value.
    pub(super) value: usize,
    /// The node of its value.
    pub(super) child: usize,
    /// Whether all bytes are ASCII.
    pub(super) ascii: bool,
}

/// The entry before the first key of a text.
pub(super) const START: u8 = 0;

const EMPTY: Entry = Entry {
    bytes: [0; MAX_BYTES],
    length: 0,
    ignored: 0,
    // No object has this node.
    place: Place { node: usize::MAX - 1, first: false },
    child: 0,
    ascii: true,
    next: [START; 2],
};

impl Default for KeyCache {
    fn default() -> Self {
        let (entries, by_hash) = (Box::new([EMPTY; ENTRIES]), Box::new([START; ENTRIES]));
        Self { entries, count: 1, by_hash }
    }
}

impl KeyCache {
    /// The key at `at`, if it is the one that follows the entry `last`.
    #[inline(always)]
    pub(super) fn following(
        &self,
        last: u8,
        text: &[u8],
        at: usize,
        place: Place,
    ) -> Option<Known> {
        self.at(last.wrapping_add(1), text, at, place)
    }

    /// The key at `at`, if it is another one that came after the entry `last`.
    #[inline]
    pub(super) fn other(&self, last: u8, text: &[u8], at: usize, place: Place) -> Option<Known> {
        let [one, other] = self.entries[usize::from(last)].next;
        self.at(one, text, at, place).or_else(|| self.at(other, text, at, place))
    }

    #[inline(always)]
    fn at(&self, index: u8, text: &[u8], at: usize, place: Place) -> Option<Known> {
        let entry = &self.entries[usize::from(index)];
        if entry.place != place || !entry.is_at(text, at) {
            return None;
        }
        let value = at + entry.length as usize;
        Some(Known { entry: index, value, child: entry.child, ascii: entry.ascii })
    }

    /// Remembers a key that came after the entry `last`: these bytes. Returns its entry.
    pub(super) fn remember(&mut self, last: u8, bytes: &[u8], place: Place, child: usize) -> u8 {
        let length = bytes.len();
        let mut entry = Entry { length: length as u32, place, child, ..EMPTY };
        let Some(to) = entry.bytes.get_mut(..length) else { return last };
        to.copy_from_slice(bytes);
        entry.ignored = u32::MAX.checked_shl(length as u32).unwrap_or(0);
        entry.ascii = bytes.is_ascii();
        let hash = entry.hash();
        let known = self.by_hash[hash];
        let next = self.entries[usize::from(known)].next;
        let index = match self.entries[usize::from(known)] == (Entry { next, ..entry }) {
            true => known,
            false => self.add(entry, hash),
        };
        let follows = last.wrapping_add(1) == index;
        let next = &mut self.entries[usize::from(last)].next;
        if !follows && !next.contains(&index) {
            *next = [index, next[0]];
        }
        index
    }

    /// Adds an entry. If there is no room, all others are forgotten.
    fn add(&mut self, entry: Entry, hash: usize) -> u8 {
        if usize::from(self.count) == ENTRIES - 1 {
            *self = Self::default();
        }
        self.entries[usize::from(self.count)] = entry;
        self.by_hash[hash] = self.count;
        self.count += 1;
        self.count - 1
    }
}

impl Entry {
    /// Whether the text has these bytes at `at`.
    #[inline(always)]
    fn is_at(&self, text: &[u8], at: usize) -> bool {
        let ([first, second], _) = self.bytes.as_chunks() else { return false };
        let Some(bytes) = Bytes16::at(text, at) else { return false };
        let mut differences = bytes.differences(Bytes16::new(first));
        if self.length as usize > LANES {
            let Some(bytes) = Bytes16::at(text, at + LANES) else { return false };
            differences |= bytes.differences(Bytes16::new(second)) << LANES;
        }
        differences & !self.ignored == 0
    }

    /// A number below [`ENTRIES`].
    fn hash(&self) -> usize {
        let start = u32::from(self.place.first) + (self.place.node as u32).wrapping_mul(31);
        let mix = |hash: u32, word: u32| ((hash ^ word).wrapping_mul(0x9e37_79b1)).rotate_left(13);
        let (words, _) = self.bytes.as_chunks();
        let hash = words.iter().fold(start, |hash, word| mix(hash, u32::from_le_bytes(*word)));
        (hash ^ hash >> 16) as usize % ENTRIES
    }
}
