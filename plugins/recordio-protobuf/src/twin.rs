//! The record before: those of a file are nearly always alike but for the numbers in them, with each
//! tag and length at the same place. Then all that was read of the one holds for the other.

use std::ops::Range;

/// Most bytes, besides numbers and texts, of records that are worth comparing.
const MOST: usize = 1024;

/// What of a record must be the same in the next one.
#[derive(Debug, Default)]
pub(crate) struct Twin {
    /// Its length, whether or not more is known of it.
    length: usize,
    /// The places, counted from its start, and what stands there. None if nothing is known.
    same: Vec<Range<usize>>,
    bytes: Vec<u8>,
}

impl Twin {
    /// Whether this record is alike.
    #[inline]
    pub(crate) fn is(&self, record: &[u8]) -> bool {
        if self.same.is_empty() || record.len() != self.length {
            return false;
        }
        let mut bytes = &self.bytes[..];
        self.same.iter().all(|place| {
            let (expected, rest) = bytes.split_at(place.len());
            bytes = rest;
            record[place.clone()] == *expected
        })
    }

    /// Forgets what was known.
    pub(crate) fn forget(&mut self) {
        self.same.clear();
    }

    /// Keeps a record that was read. Of the bytes in `holes`, counted from its start, none told how to
    /// read it. Two of the same length must come first, so that files of others don't pay for it.
    pub(crate) fn keep(&mut self, record: &[u8], holes: &mut [Range<usize>]) {
        let worth_it = record.len() == std::mem::replace(&mut self.length, record.len());
        let size = record.len() - holes.iter().map(Range::len).sum::<usize>();
        if !worth_it || size > MOST {
            return;
        }
        holes.sort_unstable_by_key(|hole| hole.start);
        self.bytes.clear();
        let mut from = 0;
        for hole in holes {
            self.same.push(from..hole.start);
            from = hole.end;
        }
        self.same.push(from..record.len());
        for place in &self.same {
            self.bytes.extend_from_slice(&record[place.clone()]);
        }
    }
}
