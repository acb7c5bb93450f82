//! Checks whether errors begin with the framing of the bad record. If errors are skipped, the bytes
//! from an error's offset to the point where decoding continues are kept in the quarantine. So
//! bytes of a bad record before that offset would be in no record and in no error: silently lost.
//!
//! One byte of a sound input is changed, so it is known where the bad record begins. But the
//! changed byte may be a delimiter, so that the record is cut in two. So a single offset proves
//! nothing. If the distance from the record's start is the same at many bytes, independent of their
//! values, it is a fault of the decoder: see [`OffsetEvidence`].

use std::collections::{BTreeMap, BTreeSet};

use super::compare::words;
use super::structure::Structure;
use crate::decode_run::{DecodeRun, RunError};

/// The first error of an input with one changed byte.
#[derive(Debug, Clone)]
pub(super) struct FirstError {
    /// The error.
    pub(super) error: RunError,
    /// Bytes from the start of the changed record to the error's offset. Negative if the error
    /// begins before it.
    distance: i64,
}

impl FirstError {
    /// The first error of the run of an input in whose unit `unit` a byte was changed; `None` if
    /// nothing is known about it.
    pub(super) fn of(structure: &Structure, unit: usize, run: &DecodeRun) -> Option<Self> {
        let (start, end) = (structure.units[unit], structure.end_of(unit));
        let error = run.errors.first()?;
        // Records before the changed one stay as they are. A record that begins with the changed
        // one, or in it, contains the bytes before the error.
        let is_covered = error.records != structure.records_before(unit);
        let before = unit.checked_sub(1).map_or(0, |unit| structure.units[unit]);
        let is_close = (before + 1..end).contains(&error.offset) || error.offset == start;
        if is_covered || !is_close || structure.run.has_blocks() {
            return None;
        }
        Some(Self { error: error.clone(), distance: error.offset as i64 - start as i64 })
    }

    /// The fault of the offset, with the `damage` that caused it.
    pub(super) fn broken(&self, damage: &str) -> Option<String> {
        let Self { error, distance } = self;
        let bytes = distance.unsigned_abs();
        let (side, loss) = match distance {
            0 => return None,
            1.. => ("after", "so these bytes are in no record and in no error"),
            _ => ("before", "so the error has bytes of the record before it"),
        };
        Some(format!(
            "an error's offset is wrong: {damage}: the error {error} begins {bytes} bytes {side} \
             the start of that record, {loss}; the offset is where the framing of the bad record \
             begins"
        ))
    }
}

/// The offsets of errors that many changed bytes show together.
#[derive(Debug, Default)]
pub(super) struct OffsetEvidence {
    /// For each kind of error, by its words: the distances at each position, with the value of the
    /// byte.
    distances: BTreeMap<String, BTreeMap<usize, Vec<(u8, i64)>>>,
}

/// Number of positions that must agree before they count as a fault of the decoder.
const MIN_POSITIONS: usize = 3;
/// Number of values that must agree at a position.
const MIN_VALUES: usize = 2;
/// Number of words of a message that show the kind of the error. Later words may come from the
/// input.
const KIND_WORDS: usize = 3;

impl OffsetEvidence {
    /// Adds the first error after the byte at this place became `byte`.
    pub(super) fn add(&mut self, at: usize, byte: u8, first: &FirstError) {
        let of_words = self.distances.entry(words(&first.error.message, KIND_WORDS)).or_default();
        of_words.entry(at).or_default().push((byte, first.distance));
    }

    /// Position and value of a changed byte whose error has a wrong offset: for errors with the
    /// same words, at more positions than not, the error begins on the same side of the record's
    /// start, as far from it whatever the value, and in several records. `unit_at` returns the
    /// record of a position.
    pub(super) fn fault(
        &self,
        unit_at: impl Fn(usize) -> Option<usize>,
        units: usize,
    ) -> Option<(usize, u8)> {
        for positions in self.distances.values() {
            // The positions by side.
            let mut wrong: BTreeMap<i64, Vec<(usize, u8)>> = BTreeMap::new();
            for (at, found) in positions {
                let (byte, distance) = found[0];
                let agree = found.iter().all(|(_, other)| *other == distance);
                if distance != 0 && agree && found.len() >= MIN_VALUES {
                    wrong.entry(distance.signum()).or_default().push((*at, byte));
                }
            }
            for same in wrong.values() {
                let of: BTreeSet<_> = same.iter().map(|(at, _)| unit_at(*at)).collect();
                let is_fault = same.len() >= MIN_POSITIONS
                    && same.len() * 2 > positions.len()
                    && of.len() >= 2.min(units);
                if is_fault {
                    return same.first().copied();
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{FirstError, OffsetEvidence};
    use crate::decode_run::{Resumed, RunError};
    use pipemill_types::ErrorKind;

    /// The fault that errors show at these positions, of which ten belong to a record.
    fn fault(distances: &[(usize, i64)]) -> Option<(usize, u8)> {
        let mut evidence = OffsetEvidence::default();
        for (at, distance) in distances {
            let (message, kind) = ("a wrong sum".to_owned(), ErrorKind::Decode);
            let error = RunError { offset: 0, message, kind, records: 0, resumed: Resumed::No };
            let first = FirstError { error, distance: *distance };
            (1..=2).for_each(|byte| evidence.add(*at, byte, &first));
        }
        evidence.fault(|at| Some(at / 10), 5)
    }

    #[test]
    fn the_same_side_in_several_records_is_a_fault() {
        assert_eq!(fault(&[(3, 3), (5, 3), (13, 3)]), Some((3, 1)));
        assert_eq!(fault(&[(3, 3), (5, 5), (13, 3)]), Some((3, 1)));
        assert_eq!(fault(&[(3, -1), (5, -1), (13, -1)]), Some((3, 1)));
    }

    #[test]
    fn offsets_that_prove_nothing() {
        assert_eq!(fault(&[(3, 0), (5, 0), (13, 0)]), None);
        // In one record, at few positions, on both sides, and at less than half of them.
        assert_eq!(fault(&[(3, 3), (5, 3), (6, 3)]), None);
        assert_eq!(fault(&[(3, 3), (13, 3)]), None);
        assert_eq!(fault(&[(3, 3), (5, -1), (13, 3)]), None);
        assert_eq!(fault(&[(3, 3), (5, 3), (13, 3), (4, 0), (6, 0), (14, 0)]), None);
    }
}
