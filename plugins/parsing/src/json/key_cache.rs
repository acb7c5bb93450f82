//! The keys of earlier texts, each with the bytes around it: `, "text": `. Texts of a stream
//! usually have the same keys in the same order, or lack some of them. So comparing 16 or 32 bytes
//! finds comma, key and colon at once, and shows which value is wanted.
//!
//! An entry was parsed once, in an object of the same node, at the same position (first or later),
//! so the same bytes there are valid again. Only speed depends on the entries and on their order.

use super::bytes16::{Bytes16, LANES};

/// The bytes from an offset on: enough for a key with the bytes around it, and for the start of its
/// value. So offsets in them need no checks.
pub(super) type Window = [u8; 64];

/// Largest size in bytes of a key with the bytes around it.
const MAX_BYTES: usize = 2 * LANES - 1;
/// Number of entries: as many as a `u8` can count. The entry 0 stands for the start of a text.
const ENTRIES: usize = 256;

/// Largest number of keys that are remembered at once: see [`KeyCache::budget`].
const MAX_BUDGET: u32 = ENTRIES as u32;

/// The remembered keys.
#[derive(Debug, Clone)]
pub(super) struct KeyCache {
    /// The entries, in the order in which they were first seen: usually the order of the keys of a
    /// text.
    entries: Box<[Entry; ENTRIES]>,
    /// Number of entries.
    count: u8,
    /// Entries by their hashes.
    by_hash: Box<[u8; ENTRIES]>,
    /// Whether the entries are from lines, where an LF is not a blank.
    of_lines: bool,
    /// Number of keys that may be remembered now. If all texts have other keys, or another order,
    /// this is one for each text: remembering them all would cost more than it saves.
    budget: u32,
}

/// A key with the bytes around it, from the end of the value before it, or from the brace, to the
/// start of its value. All bytes are ASCII.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(64))]
struct Entry {
    bytes: [u8; 2 * LANES],
    /// The bits of the key's bytes.
    compared: [u16; 2],
    /// The position of the key.
    place: Place,
    /// The node of its value.
    child: usize,
    /// Number of bytes.
    length: u8,
    /// The last two entries that came after this one and are not its successor.
    next: [u8; 2],
}

/// The position of a key: in the object of this node, as its first key or as a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(usize);

impl Place {
    #[inline(always)]
    pub(super) fn first(node: usize) -> Self {
        Self(node << 1 | 1)
    }

    #[inline(always)]
    pub(super) fn later(node: usize) -> Self {
        Self(node << 1)
    }

    pub(super) fn is_first(self) -> bool {
        self.0 & 1 == 1
    }
}

/// A key that was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// Its entry.
    pub(super) entry: u8,
    /// Number of bytes up to its value: less than 32.
    pub(super) length: usize,
    /// The node of its value.
    pub(super) child: usize,
}

/// The entry before the first key of a text.
pub(super) const START: u8 = 0;

const EMPTY: Entry = Entry {
    bytes: [0; 2 * LANES],
    compared: [0; 2],
    // No object has this node.
    place: Place(usize::MAX / 4),
    child: 0,
    length: 0,
    next: [START; 2],
};

impl Default for KeyCache {
    fn default() -> Self {
        let (entries, by_hash) = (Box::new([EMPTY; ENTRIES]), Box::new([START; ENTRIES]));
        Self { entries, count: 1, by_hash, of_lines: false, budget: MAX_BUDGET }
    }
}

impl KeyCache {
    /// Begins a text. Forgets keys of lines if other texts follow, and vice versa.
    #[inline(always)]
    pub(super) fn start(&mut self, of_lines: bool) {
        if self.of_lines != of_lines {
            *self = Self { of_lines, ..Self::default() };
        }
        self.budget = MAX_BUDGET.min(self.budget + 1);
    }

    /// Whether another key may be remembered.
    pub(super) fn may_remember(&self) -> bool {
        self.budget > 0
    }

    /// The key at the start of the window, if it is the successor of the entry `last`.
    #[inline(always)]
    pub(super) fn following(&self, last: u8, window: &Window, place: Place) -> Option<Known> {
        self.at(last.wrapping_add(1), window, place)
    }

    /// The key at the start of the window, if it is another one that came after the entry `last`.
    #[inline]
    pub(super) fn other(&self, last: u8, window: &Window, place: Place) -> Option<Known> {
        let [one, other] = self.entries[usize::from(last)].next;
        self.at(one, window, place).or_else(|| self.at(other, window, place))
    }

    #[inline(always)]
    fn at(&self, index: u8, window: &Window, place: Place) -> Option<Known> {
        let entry = &self.entries[usize::from(index)];
        if entry.place != place || !entry.is_at(window) {
            return None;
        }
        let length = usize::from(entry.length) % (MAX_BYTES + 1);
        Some(Known { entry: index, length, child: entry.child })
    }

    /// Remembers a key that came after the entry `last`: these bytes. Returns its entry.
    pub(super) fn remember(&mut self, last: u8, bytes: &[u8], place: Place, child: usize) -> u8 {
        let length = bytes.len();
        if self.budget == 0 || length > MAX_BYTES || !bytes.is_ascii() {
            return last;
        }
        self.budget -= 1;
        let compared = (1u32 << length) - 1;
        let compared = [compared as u16, (compared >> LANES) as u16];
        let mut entry = Entry { compared, place, child, length: length as u8, ..EMPTY };
        entry.bytes[..length].copy_from_slice(bytes);
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
            let Self { of_lines, budget, .. } = *self;
            *self = Self { of_lines, budget, ..Self::default() };
        }
        self.entries[usize::from(self.count)] = entry;
        self.by_hash[hash] = self.count;
        self.count += 1;
        self.count - 1
    }
}

impl Entry {
    /// Whether the window starts with these bytes.
    #[inline(always)]
    fn is_at(&self, window: &Window) -> bool {
        let differs = |half: usize| {
            let bytes = |of| Bytes16::at(of, LANES * half);
            let (Some(own), Some(found)) = (bytes(&self.bytes), bytes(window)) else { return true };
            found.differences(own) & self.compared[half] != 0
        };
        !differs(0) && (usize::from(self.length) <= LANES || !differs(1))
    }

    /// A number below [`ENTRIES`].
    fn hash(&self) -> usize {
        let start = (self.place.0 as u32).wrapping_mul(31);
        let mix = |hash: u32, word: u32| ((hash ^ word).wrapping_mul(0x9e37_79b1)).rotate_left(13);
        let (words, _) = self.bytes.as_chunks();
        let hash = words.iter().fold(start, |hash, word| mix(hash, u32::from_le_bytes(*word)));
        (hash ^ hash >> 16) as usize % ENTRIES
    }
}
