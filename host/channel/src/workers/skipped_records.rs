//! Removes the records that an index skips from the sections of an object. The worker of a section
//! does not know which records it begins with, so it decodes all of them.

use pipemill_source::KnownRecords;

use crate::batch::Batch;

/// The records of a divided object that are skipped.
pub(super) struct SectionSkips {
    known: KnownRecords,
    /// The last place from which a state can go on.
    place: RestartPlace,
}

/// A place at which decoding can begin.
#[derive(Clone, Copy, Default)]
struct RestartPlace {
    header: u32,
    offset: u64,
    /// Number of the object's records before it that are not skipped.
    kept: u64,
}

impl SectionSkips {
    /// Those of an object. `None` if none is skipped.
    pub(super) fn of(known: Option<KnownRecords>) -> Option<Self> {
        let known = known.filter(|known| !known.skipped.is_empty())?;
        Some(Self { known, place: RestartPlace::default() })
    }

    /// Number of the object's records before this one that are not skipped.
    pub(super) fn kept_before(&self, record: u64) -> u64 {
        let KnownRecords { first, skipped } = &self.known;
        skipped.kept_before(first.saturating_add(record)) - skipped.kept_before(*first)
    }

    /// Removes the records of a batch that are skipped. Its position counts all records of the
    /// object, and then those that are left. Its columns are not in its memory.
    pub(super) fn remove_from(&mut self, batch: &mut Batch) {
        let KnownRecords { first, skipped } = &self.known;
        let position = &batch.start.position;
        let (record, at_place) = (position.first_record, position.record_at_offset());
        // A state knows a place by the number of records before it that are left.
        if skipped.can_restart(*first, at_place) {
            let (header, offset) = (position.header, position.offset);
            self.place = RestartPlace { header, offset, kept: self.kept_before(at_place) };
        }
        let (kept, RestartPlace { header, offset, kept: kept_at_place }) =
            (self.kept_before(record), self.place);
        let ranges = skipped.inside(first.saturating_add(record), batch.records);
        let position = &mut batch.start.position;
        (position.header, position.offset) = (header, offset);
        (position.first_record, position.records) = (kept, kept.saturating_sub(kept_at_place));
        batch.remove(&ranges);
    }
}
