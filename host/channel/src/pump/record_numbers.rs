//! The numbers of records as an index counts them, which may skip some. All other numbers of a
//! channel count only those that are not skipped.

use pipemill_decode::DecodedRecords;
use pipemill_source::{Block, KnownRecords, SkippedRecords};

/// Counts the records that a decoder emits, and removes those that are skipped.
pub(crate) struct RecordNumbers {
    known: KnownRecords,
    /// Number of the next record, with those that are skipped, among those of all objects.
    next: u64,
}

impl RecordNumbers {
    /// At the start of an object. At that of a section, the numbers count from there, and none is
    /// skipped: the channel's thread knows which records a section has.
    pub(crate) fn new(known: Option<KnownRecords>, is_section: bool) -> Self {
        let mut known = known.unwrap_or_default();
        if is_section {
            known.skipped = SkippedRecords::default();
        }
        Self { next: known.first, known }
    }

    /// After this number of the object's records that are not skipped: at the start of a block, or
    /// at a place at which decoding [can restart](Self::can_restart).
    pub(crate) fn begin_at(&mut self, kept: u64, block: Option<Block>) {
        let KnownRecords { first, skipped } = &self.known;
        self.next = match (block, kept.checked_sub(1)) {
            (Some(block), _) => first + kept + block.skipped,
            (None, None) => *first,
            (None, Some(last)) => skipped.number_of(skipped.kept_before(*first) + last) + 1,
        };
    }

    /// Number of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Counts the records of a call, and removes those that are skipped.
    pub(crate) fn pass(&mut self, decoded: &mut DecodedRecords) {
        let (first, records) = (self.next, decoded.records);
        self.next = first.saturating_add(records as u64);
        if !self.known.skipped.is_empty() {
            decoded.remove(&self.known.skipped.inside(first, records));
        }
    }

    /// Whether the number of the next record follows from that of the records before it that are
    /// not skipped. A state knows only that one.
    pub(crate) fn can_restart(&self) -> bool {
        let KnownRecords { first, skipped } = &self.known;
        skipped.can_restart(*first, self.next - first)
    }
}
