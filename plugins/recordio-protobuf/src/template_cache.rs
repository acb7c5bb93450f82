//! A fast path for records that have the same layout as the record before them.
//!
//! # Advice for the next person
//!
//! **The idea.** The records of a file almost always differ only in their numbers and texts: every
//! tag, every length and every key is the same and at the same offset. So the last record that was
//! parsed is kept as a template: its length, and its bytes without the values (the *holes*). If the
//! next record matches the template, it need not be parsed: each value has the same offset as in
//! the previous record ([`crate::record`] moves the ranges). Comparing a kilobyte is much cheaper
//! than parsing it.
//!
//! **Invariants.** No byte in a hole may have any influence on how the record is parsed. That is
//! true for floats, bytes and texts, whose length is outside the hole. It is not true for varints,
//! so [`crate::tensor::Tensor::move_by`] also checks that the hole still holds the same number of
//! complete varints. A record with a sparse tensor, an empty one or a tensor in several pieces
//! never becomes a template: see `Record::find_holes`. A wrong match would give wrong records
//! without an error, so if you add a value that is read from a record, add it to `find_holes` and
//! `move_to`, or refuse to make a template.
//!
//! **Cost.** A file whose records all differ must not pay for the cache. So a template is kept only
//! after two consecutive records of the same length, and only up to [`MAX_TEMPLATE`] bytes.
//!
//! **Changing it.** The property test `similar_records_decode_as_if_alone` in
//! `tests/decoder/splits.rs` flips bytes in copies of one record, and compares each result with the
//! record decoded alone. Measure with:
//!
//! ```text
//! cargo run --release -p pipemill-recordio-protobuf --example recordio-protobuf-speed
//! ```

use std::ops::Range;

/// Largest template in bytes. Comparing a larger one would not be worth it.
const MAX_TEMPLATE: usize = 1024;

/// The bytes that the next record must share with the last one that was parsed.
#[derive(Debug, Default)]
pub(crate) struct TemplateCache {
    /// Length of the last record that was parsed, even if it did not become a template.
    length: usize,
    /// The ranges between the holes, counted from the start of the record. Empty if there is no
    /// template.
    ranges: Vec<Range<usize>>,
    /// The bytes of all ranges, joined.
    bytes: Vec<u8>,
}

impl TemplateCache {
    /// Whether the record has the length of the template, and its bytes outside the holes.
    #[inline]
    pub(crate) fn matches(&self, record: &[u8]) -> bool {
        if self.ranges.is_empty() || record.len() != self.length {
            return false;
        }
        let mut bytes = &self.bytes[..];
        self.ranges.iter().all(|range| {
            let (expected, rest) = bytes.split_at(range.len());
            bytes = rest;
            record[range.clone()] == *expected
        })
    }

    /// Removes the template.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Makes a template of a record that was parsed, if the record before it had the same length.
    /// `holes` are the ranges of its values, counted from its start; they are sorted here.
    pub(crate) fn keep(&mut self, record: &[u8], holes: &mut [Range<usize>]) {
        let same_length = record.len() == std::mem::replace(&mut self.length, record.len());
        let size = record.len() - holes.iter().map(Range::len).sum::<usize>();
        if !same_length || size > MAX_TEMPLATE {
            return;
        }
        holes.sort_unstable_by_key(|hole| hole.start);
        self.bytes.clear();
        let mut from = 0;
        for hole in holes {
            self.ranges.push(from..hole.start);
            from = hole.end;
        }
        self.ranges.push(from..record.len());
        for range in &self.ranges {
            self.bytes.extend_from_slice(&record[range.clone()]);
        }
    }
}
