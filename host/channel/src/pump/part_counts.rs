//! Compares the records of the parts of a plan with the numbers that the plan gives.
//!
//! A decoder is shown all bytes before a part with a number of records, and all bytes up to its
//! end, before it is shown the next one. So the records between both are those of the part.

use std::sync::Arc;

use pipemill_types::{Fault, ObjectFacts, PlanParts};

/// The records of the parts that a stream decodes.
pub(crate) struct PartCounts {
    parts: Arc<PlanParts>,
    /// The part of which all records were counted so far. `None` after the last one, if decoding
    /// began inside of a part, or if an error was skipped in it.
    part: Option<usize>,
    /// Its records.
    records: u64,
    /// Whether an error was skipped since the last border.
    has_error: bool,
    /// The border up to which the decoder may be shown bytes now: the index of the part after it.
    border: Option<usize>,
}

impl PartCounts {
    /// For an object that is decoded from its start.
    pub(crate) fn new(facts: &ObjectFacts) -> Self {
        let parts = facts.parts.clone();
        let mut counts = Self { parts, part: None, records: 0, has_error: false, border: None };
        counts.begin_at(0);
        counts
    }

    /// Goes on at this place of the plan.
    pub(crate) fn begin_at(&mut self, place: u64) {
        self.begin_part(place);
        self.border = self.border_after(place);
    }

    /// Begins to count the records of the part that begins here, if one does.
    fn begin_part(&mut self, place: u64) {
        let first = self.parts.first_from(place);
        let is_here = self.parts.all().get(first).is_some_and(|part| part.start == place);
        (self.part, self.records, self.has_error) = (is_here.then_some(first), 0, false);
    }

    /// The first border after this place: the start of a part that has a number, or that follows
    /// one that has.
    fn border_after(&self, place: u64) -> Option<usize> {
        let (parts, first) = (self.parts.all(), self.parts.first_from(place.saturating_add(1)));
        let has_number = |part: usize| parts[part].records.is_some();
        (first..parts.len())
            .find(|part| has_number(*part) || part.checked_sub(1).is_some_and(has_number))
    }

    /// The place up to which the decoder may be shown bytes now.
    pub(crate) fn limit(&self) -> u64 {
        self.border.map_or(u64::MAX, |part| self.parts.all()[part].start)
    }

    /// Counts the records of a call.
    pub(crate) fn add(&mut self, records: usize) {
        self.records = self.records.saturating_add(records as u64);
    }

    /// Notes that an error was skipped: nobody knows how many records it took.
    pub(crate) fn error_skipped(&mut self) {
        (self.part, self.has_error) = (None, true);
    }

    /// Notes that the decoder has come to this place after it was shown all bytes before `shown`,
    /// which is at or after the limit. The limit moves on.
    ///
    /// # Errors
    /// A part has another number of records than the plan says, or the decoder has not used all of
    /// its bytes.
    pub(crate) fn reach(&mut self, place: u64, shown: u64) -> Result<(), Fault> {
        let limit = self.limit();
        if place < limit && !self.has_error {
            let part = self.border.map_or(0, |part| self.parts.all()[part].number);
            return Err(Fault::contract(format!(
                "was shown all bytes before part {part} of its plan and left the last {}: expected \
                 all to be used, because the plan says how many records there are",
                limit - place
            )));
        }
        self.end_part(place)?;
        self.border = self.border_after(shown.max(place));
        Ok(())
    }

    /// Notes that the decoder has come to this place, at which a part may end.
    ///
    /// # Errors
    /// As [`reach`](Self::reach).
    pub(crate) fn end_part(&mut self, place: u64) -> Result<(), Fault> {
        let parts = self.parts.all();
        let ended = self.part.and_then(|part| {
            let end = parts.get(part + 1).map_or(self.parts.size(), |next| next.start);
            Some(&parts[part]).filter(|_| end == place)
        });
        let (found, counted) = (self.records, ended.map(|part| (part.number, part.records)));
        if let Some((number, Some(expected))) = counted
            && found != expected
        {
            return Err(Fault::contract(format!(
                "says that part {number} of its plan has {expected} records, and has found {found} \
                 in it"
            )));
        }
        self.begin_part(place);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pipemill_types::PlannedPart;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn facts(parts: &[(u64, Option<u64>)]) -> ObjectFacts {
        let mut start = 0;
        let part = |(number, (bytes, records)): (usize, &(u64, Option<u64>))| {
            let part = PlannedPart { number, start, records: *records };
            start += bytes;
            part
        };
        let all = parts.iter().enumerate().map(part).collect();
        ObjectFacts { parts: Arc::new(PlanParts::new(all, start)), ..ObjectFacts::default() }
    }

    /// Decodes from this place on: each byte is a record. Returns the error.
    fn decode(facts: &ObjectFacts, from: u64, step: u64) -> Result<(), Fault> {
        let mut counts = PartCounts::new(facts);
        counts.begin_at(from);
        let (mut place, size) = (from, facts.parts.size());
        while place < size {
            let to = (place + step).min(counts.limit()).min(size);
            counts.add((to - place) as usize);
            place = to;
            if place == counts.limit() {
                counts.reach(place, place)?;
                assert!(counts.limit() > place);
            }
        }
        counts.end_part(place)
    }

    proptest! {
        #[test]
        fn a_wrong_number_of_each_part_that_was_decoded_as_a_whole_is_found(
            parts in vec((1_u64..9, any::<bool>()), 1..9),
            wrong in any::<prop::sample::Index>(),
            from in any::<prop::sample::Index>(),
            step in 1_u64..20,
            change in 1_u64..5,
        ) {
            let counted =
                parts.iter().map(|(bytes, known)| (*bytes, known.then_some(*bytes)));
            let mut counted: Vec<_> = counted.collect();
            let sound = facts(&counted);
            let from = from.index(sound.parts.size() as usize) as u64;
            prop_assert_eq!(decode(&sound, from, step), Ok(()));
            let wrong = wrong.index(parts.len());
            counted[wrong].1 = Some(counted[wrong].0 + change);
            let lie = facts(&counted);
            let is_seen = lie.parts.all()[wrong].start >= from;
            let found = decode(&lie, from, step);
            prop_assert_eq!(found.is_err(), is_seen, "{:?}", found);
            if let Err(fault) = found {
                let (bytes, said) = (counted[wrong].0, counted[wrong].0 + change);
                let names = format!("part {wrong} of its plan has {said} records, and has found \
                                     {bytes} in it");
                prop_assert!(fault.message.contains(&names), "{}", fault.message);
            }
        }
    }

    #[test]
    fn bytes_that_are_left_before_a_part_with_a_number_are_an_error() {
        let mut counts = PartCounts::new(&facts(&[(4, None), (4, Some(4))]));
        assert_eq!(counts.limit(), 4);
        counts.add(3);
        let fault = counts.reach(3, 4).expect_err("a byte is left");
        assert!(fault.message.contains("before part 1 of its plan and left the last 1"), "{fault}");
    }

    #[test]
    fn a_part_with_a_skipped_error_is_not_compared_and_the_next_one_is() {
        let mut counts = PartCounts::new(&facts(&[(4, Some(4)), (4, Some(4)), (4, Some(4))]));
        counts.add(1);
        counts.error_skipped();
        assert_eq!(counts.reach(4, 4), Ok(()));
        assert_eq!(counts.limit(), 8);
        counts.add(3);
        assert!(counts.reach(8, 8).is_err());
        // The search for the next record may have led beyond the border.
        counts.error_skipped();
        assert_eq!(counts.reach(7, 11), Ok(()));
        assert_eq!(counts.limit(), u64::MAX);
        counts.add(1);
        assert_eq!(counts.end_part(12), Ok(()));
    }
}
