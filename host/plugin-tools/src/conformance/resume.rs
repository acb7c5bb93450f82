//! Checks where decoding continues after an error, and what is lost. One byte of a sound input is
//! changed, so the true places of all other records are known.
//!
//! A damaged length can lead a sound decoder anywhere. So a single wrong position proves nothing,
//! but many are a fault of the decoder if they don't depend on the value of the damaged byte: see
//! [`Evidence`].
//!
//! A delimiter, or a quote around one, can be damaged, too: the record then ends at another
//! delimiter, independent of the value of the byte. So a position right after the delimiter that
//! ends the decoder's search is not a fault: see [`Damages::ends_at_delimiter`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::compare::words;
use super::offsets::{FirstError, OffsetEvidence};
use super::structure::Structure;
use crate::decode_run::{DecodeRun, PluginUnderTest, Record, Resumed, RunError};
use crate::trace::Shown;

/// The effect of a damaged byte.
#[derive(Debug)]
pub(super) struct Effect {
    /// Whether there was an error.
    pub(super) noticed: bool,
    /// Whether a record changed without an error.
    pub(super) changed: bool,
    /// Whether decoding continued after all errors.
    pub(super) went_on: bool,
    /// Units after the damaged one that were lost.
    pub(super) lost: usize,
    /// Number of searches, and the largest number of units that one of them skipped.
    searches: u64,
    passed: usize,
    /// Whether there was an error where decoding continued after the first error in the damaged
    /// record.
    again: bool,
    /// The first error in the damaged record, and the place at which decoding continued.
    first: Option<(RunError, Place)>,
    /// Whether that error was found at the end of the input: nothing is known of the bytes after it
    /// then.
    at_end: bool,
    /// The first error of the run, for its offset.
    first_of_all: Option<FirstError>,
}

/// The place at which decoding continued, relative to the records of the sound input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At the start of a record, or between two records.
    Right,
    /// This many bytes after (or before) the start of a record.
    Near(i64),
    /// Anywhere else.
    Far,
}

/// Number of units after the damaged one that an error may lose. For example, a search in a
/// WebDataset archive skips the first sample that it finds, because nobody knows whether it is
/// complete.
pub(super) const MAX_LOST: usize = 2;
/// Number of units that a search may skip.
const MAX_PASSED: usize = 1;
/// At most one of this number of searches may skip more.
const PASSING_SHARE: u64 = 10;
/// More units are not counted.
const MAX_COUNTED: usize = 64;
/// Number of positions that must agree before something counts as a fault of the decoder.
const MIN_POSITIONS: usize = 3;
/// Number of words of a message that show the kind of the error. Later words may come from the
/// input.
const KIND_WORDS: usize = 3;
/// Distance in bytes from the start of a record that still counts as close to it.
const NEAR: u64 = 8;

/// Damages single bytes of a sound input.
pub(super) struct Damages<'a> {
    tested: &'a PluginUnderTest,
    pub(super) structure: &'a Structure,
    /// Whether each unit is independent: then an input that ends before it has lost nothing.
    own: HashMap<usize, bool>,
}

impl<'a> Damages<'a> {
    pub(super) fn new(tested: &'a PluginUnderTest, structure: &'a Structure) -> Self {
        Self { tested, structure, own: HashMap::new() }
    }

    /// Whether this unit can be decoded without the one before it. The records of one block can't,
    /// nor can records that a decoder makes from all others at the end of the input.
    fn is_own(&mut self, unit: usize) -> bool {
        let (tested, structure) = (self.tested, self.structure);
        *self.own.entry(unit).or_insert_with(|| {
            let start = structure.units[unit] as usize;
            if start >= structure.input.len() {
                return false;
            }
            tested.trace_cut(&structure.input, start).records.len()
                >= structure.records_before(unit)
        })
    }

    /// The unit that contains this byte; `None` if the byte is before the first one.
    pub(super) fn unit_at(&self, at: usize) -> Option<usize> {
        self.structure.units.partition_point(|start| *start <= at as u64).checked_sub(1)
    }

    /// The effect of this byte at this position; `None` if it is there already, or belongs to no
    /// record.
    pub(super) fn effect(&mut self, at: usize, byte: u8) -> Option<Effect> {
        let unit = self.unit_at(at)?;
        let mut input = self.structure.input.to_vec();
        if std::mem::replace(input.get_mut(at)?, byte) == byte {
            return None;
        }
        let input: Arc<[u8]> = input.into();
        let trace = self.tested.trace(&input, SKIPPING);
        let run = trace.run;
        let noticed = !run.errors.is_empty();
        let lost = self.count_lost(unit, &run);
        let first = self.first_in(unit, at, &run).filter(|(error, place)| {
            *place == Place::Right && lost == 0
                || !self.ends_at_delimiter(unit, &input, &run, error)
        });
        let to = first.as_ref().and_then(|(error, _)| error.resumed.place());
        let index =
            run.errors.iter().position(|error| first.as_ref().is_some_and(|(one, _)| one == error));
        let (searches, passed) = self.searches(unit, &run);
        Some(Effect {
            noticed,
            changed: !noticed && run.records != self.structure.run.records,
            went_on: run.errors.iter().all(|error| error.resumed != Resumed::No),
            lost,
            searches,
            passed,
            again: run.errors.iter().any(|error| Some(error.offset) == to),
            first,
            first_of_all: FirstError::of(self.structure, unit, &run),
            at_end: index.is_some_and(|index| index >= trace.errors_before_end),
        })
    }

    /// Number of independent units after this one that are lost.
    fn count_lost(&mut self, unit: usize, run: &DecodeRun) -> usize {
        let structure = self.structure;
        let from = structure.records_before(unit + 1);
        let lost = missing(&structure.run.records[from..], &run.records);
        let lost: Vec<_> =
            lost.into_iter().map(|start| structure.units.binary_search(&start)).collect();
        let own = lost.into_iter().flatten().filter(|unit| self.is_own(*unit));
        own.take(MAX_COUNTED).count()
    }

    /// Number of searches, and the largest number of units after this one that one of them skipped.
    /// Only independent units count.
    fn searches(&mut self, unit: usize, run: &DecodeRun) -> (u64, usize) {
        let units = &self.structure.units;
        let (mut searches, mut most) = (0, 0);
        for error in &run.errors {
            let Resumed::Found { from, at } = error.resumed else { continue };
            let first = units.partition_point(|start| *start < from).max(unit + 1);
            let passed = first..units.partition_point(|start| *start < at).max(first);
            searches += 1;
            most = most.max(passed.filter(|unit| self.is_own(*unit)).take(MAX_COUNTED).count());
        }
        (searches, most)
    }

    /// The first error in this unit after which decoding continued, and where it continued. Nothing
    /// is known if it is after the damaged byte: the byte was taken for a sound one then.
    fn first_in(&mut self, unit: usize, at: usize, run: &DecodeRun) -> Option<(RunError, Place)> {
        let structure = self.structure;
        let (start, end) = (structure.units[unit], structure.end_of(unit));
        let error = run.errors.iter().find(|error| (start..end).contains(&error.offset))?;
        if error.offset > at as u64 {
            return None;
        }
        let place = error.resumed.place()?;
        // Nothing is known beyond the last record.
        if unit + 1 >= structure.units.len() {
            return None;
        }
        let size = structure.input.len() as u64;
        if place >= size || structure.units.binary_search(&place).is_ok() {
            return Some((error.clone(), Place::Right));
        }
        let next = (unit + 1..structure.units.len()).find(|next| self.is_own(*next));
        let next = next.map_or(size, |next| structure.units[next]);
        let after = |records: &[Record]| -> Vec<Record> {
            records.iter().filter(|record| record.start >= next.min(place)).cloned().collect()
        };
        let intact = run.errors.len() == 1
            && after(&run.records)
                == after(&structure.run.records)
                    .into_iter()
                    .filter(|record| record.start >= next)
                    .collect::<Vec<_>>();
        if intact {
            return Some((error.clone(), Place::Right));
        }
        let near = ((end - start) / 4).clamp(1, NEAR);
        let distance = structure.units[unit + 1..]
            .iter()
            .map(|start| place as i64 - *start as i64)
            .find(|distance| distance.unsigned_abs() <= near);
        Some((error.clone(), distance.map_or(Place::Far, Place::Near)))
    }

    /// Whether decoding continued right after a delimiter: after the same byte with which the sound
    /// record ends, which is also the byte that proves the error. The damaged record may end there,
    /// because only delimiters show where it ends.
    fn ends_at_delimiter(
        &self,
        unit: usize,
        input: &[u8],
        run: &DecodeRun,
        error: &RunError,
    ) -> bool {
        let Resumed::At(place) = error.resumed else { return false };
        let (place, end) = (place as usize, self.structure.end_of(unit) as usize);
        if place == 0 || input.get(place - 1) != Some(&self.structure.input[end - 1]) {
            return false;
        }
        let before = run.errors.iter().take_while(|other| *other != error).count();
        let is_proven_by = |size: usize| {
            let trace = self.tested.trace(&input[..size].into(), SKIPPING);
            trace.errors_before_end > before
        };
        is_proven_by(place) && !is_proven_by(place - 1)
    }
}

/// Decodes an input and skips its errors.
const SKIPPING: Shown<'_> = Shown {
    pieces: &[],
    end_with_last: false,
    skip: true,
    max_calls: 0,
    extensions: &[],
    saves: false,
    saved: None,
};

/// The starts of the records that `found` lacks, each start once.
fn missing(records: &[Record], found: &[Record]) -> Vec<u64> {
    let mut starts = Vec::new();
    for record in records {
        let from = found.partition_point(|other| other.start < record.start);
        let mut same = found[from..].iter().take_while(|other| other.start == record.start);
        if !same.any(|other| other == record) && starts.last() != Some(&record.start) {
            starts.push(record.start);
        }
    }
    starts
}

/// Checks one damaged byte.
///
/// # Errors
/// The error is one line that says where decoding continued, or how much was lost.
pub(super) fn check(
    tested: &PluginUnderTest,
    input: &Arc<[u8]>,
    at: usize,
    byte: u8,
) -> Result<(), String> {
    let Some(structure) = Structure::of(tested, input) else { return Ok(()) };
    let mut damages = Damages::new(tested, &structure);
    let (Some(unit), Some(effect)) = (damages.unit_at(at), damages.effect(at, byte)) else {
        return Ok(());
    };
    let damage = describe(&structure, unit, at, byte);
    effect.broken(&damage).map_or(Ok(()), Err)
}

impl Effect {
    /// The fault of the decoder that the effect of a damage shows, if it is one.
    fn broken(&self, damage: &str) -> Option<String> {
        match &self.first {
            Some((error, Place::Near(distance))) => Some(wrong_place(damage, error, *distance)),
            _ if self.went_on && self.lost > MAX_LOST || self.passed > MAX_PASSED => {
                Some(too_much_lost(damage, self.lost.max(self.passed)))
            }
            Some((error, Place::Far)) if self.lost > 0 || self.again => {
                Some(no_record_there(damage, error))
            }
            Some((error, _)) if self.lost > 0 => Some(record_lost(damage, error)),
            _ => self.first_of_all.as_ref().and_then(|first| first.broken(damage)),
        }
    }
}

/// A damage for a message.
fn describe(structure: &Structure, unit: usize, at: usize, byte: u8) -> String {
    let (record, start) = (structure.records_before(unit), structure.units[unit]);
    format!(
        "byte {at} changed from {:02x} to {byte:02x}, in record {record}, which begins at {start}",
        structure.input[at]
    )
}

fn wrong_place(damage: &str, error: &RunError, distance: i64) -> String {
    let (bytes, side) = (distance.unsigned_abs(), if distance > 0 { "after" } else { "before" });
    let place = error.resumed.place().unwrap_or_default();
    format!(
        "the place to go on at is wrong: {damage}: the error {error} goes on at {place}, {bytes} \
         bytes {side} the start of a record, and that record is lost or changed"
    )
}

fn no_record_there(damage: &str, error: &RunError) -> String {
    format!(
        "the place to go on at is wrong: {damage}: the error {error} goes on at {}, where no \
         record begins",
        error.resumed.place().unwrap_or_default()
    )
}

fn record_lost(damage: &str, error: &RunError) -> String {
    format!(
        "too much is lost after an error: {damage}: the error {error} goes on at {}, where a \
         record begins, but a sound record is lost or changed",
        error.resumed.place().unwrap_or_default()
    )
}

fn too_much_lost(damage: &str, lost: usize) -> String {
    format!(
        "too much is lost after an error: {damage}: {lost} sound records after it are lost or \
         passed over by a search; at most {MAX_LOST} may be lost, and {MAX_PASSED} passed over"
    )
}

/// The combined results of many damages.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// Number of damages.
    pub(super) tried: u64,
    /// Number of damages that gave an error.
    pub(super) noticed: u64,
    /// Number of damages that changed a record without an error.
    pub(super) changed: u64,
    /// Number of damages after whose errors decoding continued.
    went_on: u64,
    /// Number of units that were lost after those.
    lost: u64,
    /// The damage that lost the most.
    worst: Option<(usize, u8, usize)>,
    /// Number of damages after which the decoder searched.
    searched: u64,
    /// Damages after which a resync lost too many records: their number, and the first one.
    lossy: (u64, Option<(usize, u8)>),
    /// Damages with a search that skipped too many records: their number, and the first one.
    passing: (u64, Option<(usize, u8)>),
    /// For each kind of error, by its words: the results at each position.
    places: BTreeMap<String, BTreeMap<usize, Vec<(u8, Place)>>>,
    /// By position: the offset at which decoding continued as the decoder said, and whether no
    /// record begins there or too much was lost.
    resumed: BTreeMap<usize, Vec<(u8, u64, bool)>>,
    offsets: OffsetEvidence,
}

/// A fault of the decoder that a damage shows: position and value of the byte, and the fault.
pub(super) type Shows = (usize, u8, String);

impl Evidence {
    /// Adds the effect of a damage.
    pub(super) fn add(&mut self, at: usize, byte: u8, effect: Effect) {
        self.tried += 1;
        self.noticed += u64::from(effect.noticed);
        self.changed += u64::from(effect.changed);
        if effect.noticed && effect.went_on {
            self.went_on += 1;
            self.lost += effect.lost as u64;
            if self.worst.is_none_or(|(_, _, lost)| lost < effect.lost) {
                self.worst = Some((at, byte, effect.lost));
            }
        }
        if effect.searches > 0 {
            self.searched += 1;
            let count = |is_so: bool, (count, first): &mut (u64, Option<(usize, u8)>)| {
                *count += u64::from(is_so);
                *first = first.or(is_so.then_some((at, byte)));
            };
            count(effect.went_on && effect.lost > MAX_LOST, &mut self.lossy);
            count(effect.passed > MAX_PASSED, &mut self.passing);
        }
        if let Some(first) = &effect.first_of_all {
            self.offsets.add(at, byte, first);
        }
        let Some((error, place)) = effect.first else { return };
        let of_words = self.places.entry(words(&error.message, KIND_WORDS)).or_default();
        of_words.entry(at).or_default().push((byte, place));
        if let (Resumed::At(to), false) = (error.resumed, effect.at_end) {
            let is_bad = effect.lost > 0 || effect.again && place != Place::Right;
            self.resumed.entry(at).or_default().push((byte, to, is_bad));
        }
    }

    /// A fault that the damages show together.
    pub(super) fn fault(&self, damages: &mut Damages<'_>) -> Option<Shows> {
        self.wrong_place(damages)
            .or_else(|| self.too_much_lost(damages))
            .or_else(|| self.wrong_offset(damages))
    }

    /// Errors that don't begin where the bad record does.
    fn wrong_offset(&self, damages: &mut Damages<'_>) -> Option<Shows> {
        let units = damages.structure.units.len();
        let (at, byte) = self.offsets.fault(|at| damages.unit_at(at), units)?;
        let unit = damages.unit_at(at)?;
        let damage = describe(damages.structure, unit, at, byte);
        let broken = damages.effect(at, byte)?.first_of_all?.broken(&damage)?;
        Some((at, byte, broken))
    }

    /// For errors with the same words: at most positions, decoding continues at the same distance
    /// from a record, independent of the value of the damaged byte, and in several records. A
    /// damaged length leads to a different offset with each value.
    fn wrong_place(&self, damages: &mut Damages<'_>) -> Option<Shows> {
        for positions in self.places.values() {
            let right = positions
                .values()
                .filter(|places| places.iter().any(|(_, place)| *place == Place::Right));
            let mut near: BTreeMap<i64, Vec<(usize, u8)>> = BTreeMap::new();
            for (at, places) in positions {
                if let (Some((byte, Place::Near(distance))), true) =
                    (places.first(), places.len() >= 2)
                    && places.iter().all(|(_, place)| *place == Place::Near(*distance))
                {
                    near.entry(*distance).or_default().push((*at, *byte));
                }
            }
            let right = right.count();
            for near in near.values() {
                let units: BTreeSet<_> = near.iter().map(|(at, _)| damages.unit_at(*at)).collect();
                let enough = units.len() >= 2.min(damages.structure.units.len().saturating_sub(1));
                if near.len() >= MIN_POSITIONS && near.len() > right && enough {
                    let (at, byte) = near[0];
                    let unit = damages.unit_at(at)?;
                    let damage = describe(damages.structure, unit, at, byte);
                    let (error, place) = damages.effect(at, byte)?.first?;
                    let Place::Near(distance) = place else { return None };
                    return Some((at, byte, wrong_place(&damage, &error, distance)));
                }
            }
        }
        None
    }

    /// Too much is lost after searches, or after offsets that the decoder names and that don't
    /// depend on the value of the damaged byte.
    fn too_much_lost(&self, damages: &mut Damages<'_>) -> Option<Shows> {
        let enough = |count: u64| count >= MIN_POSITIONS as u64;
        let (lossy, first_lossy) = self.lossy;
        let (passing, first_passing) = self.passing;
        let by_search = match () {
            () if enough(lossy) && lossy * 2 > self.searched => first_lossy,
            () if enough(passing) && passing * PASSING_SHARE > self.searched => first_passing,
            () => None,
        };
        let is_fixed = |places: &&Vec<(u8, u64, bool)>| {
            places.len() >= 2 && places.iter().all(|(_, to, _)| *to == places[0].1)
        };
        let fixed = self.resumed.values().filter(is_fixed).count();
        let bad = self
            .resumed
            .iter()
            .filter(|(_, places)| is_fixed(places) && places.iter().all(|(_, _, bad)| *bad));
        let bad: Vec<_> = bad.map(|(at, places)| (*at, places[0].0)).collect();
        let is_fault = enough(bad.len() as u64) && bad.len() * 2 > fixed;
        let by_place = bad.first().copied().filter(|_| is_fault);
        let (at, byte) = by_search.or(by_place)?;
        let unit = damages.unit_at(at)?;
        let damage = describe(damages.structure, unit, at, byte);
        let broken = damages.effect(at, byte)?.broken(&damage)?;
        Some((at, byte, broken))
    }

    /// The text of a report.
    pub(super) fn details(&self) -> String {
        let unnoticed = self.tried - self.noticed - self.changed;
        let mut text = format!(
            "{} changed bytes: {} give an error, {} change a record without one, {unnoticed} \
             change nothing",
            self.tried, self.noticed, self.changed
        );
        if let Some((at, byte, lost)) = self.worst {
            let average = self.lost as f64 / self.went_on as f64;
            text.push_str(&format!(
                "; decoding goes on after {} of them, and loses {average:.1} records after the \
                 damaged one on average, at most {lost}",
                self.went_on
            ));
            if lost > 0 {
                text.push_str(&format!(" (byte {at} as {byte:02x})"));
            }
        } else if self.noticed > 0 {
            text.push_str("; decoding goes on after none of them");
        }
        text
    }
}
