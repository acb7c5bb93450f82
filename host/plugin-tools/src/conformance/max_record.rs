//! Checks whether a decoder refuses the records that are larger than `max_record`, and no others,
//! however the input is split.

use std::sync::Arc;

use fastrand::Rng;
use pipemill_decode::{Bytes, DecodeOutcome};
use pipemill_types::ErrorKind;

use super::case::{Case, Property};
use super::compare::show;
use super::random::random_pieces;
use super::run_check::check_run;
use crate::decode_run::{DecodeRun, PluginUnderTest};
use crate::trace::Shown;

/// The smallest `max_record` with which the input decodes as with the largest; `None` if the input
/// has errors.
pub(super) fn least(tested: &PluginUnderTest, input: &Arc<[u8]>) -> Option<u64> {
    let whole = tested.trace(input, Shown::default()).run;
    if !whole.errors.is_empty() {
        return None;
    }
    let suffices =
        |max: u64| tested.with_max_record(max).trace(input, Shown::default()).run == whole;
    let mut high = (input.len() as u64).min(tested.max_record);
    while !suffices(high) {
        if high >= tested.max_record {
            return None;
        }
        high = high.saturating_mul(2).max(1).min(tested.max_record);
    }
    let mut low = 0;
    while low < high {
        let middle = low + (high - low) / 2;
        if suffices(middle) { high = middle } else { low = middle + 1 }
    }
    Some(high)
}

/// Number of ways in which the input is split, in addition to single bytes.
const SPLITS: u64 = 4;
/// A longer input is not split into single bytes.
const MAX_SINGLE_BYTES: usize = 2 << 10;
/// Number of records that are not too large themselves, but may be lost with one that is.
const MAX_LOST: usize = 2;

/// Checks an input with this `max_record`.
///
/// # Errors
/// The error is one line that says what does not hold.
pub(super) fn check(tested: &PluginUnderTest, input: &Arc<[u8]>, max: u64) -> Result<(), String> {
    let base = tested.trace(input, Shown::default()).run;
    if !base.errors.is_empty() {
        return Ok(());
    }
    let limited = tested.with_max_record(max);
    let within = |broken: String| format!("with max_record = {max}: {broken}");
    let run = limited.trace(input, Shown { skip: true, ..Shown::default() }).run;
    check_run(tested, &run, input.len()).map_err(within)?;
    if run.errors.iter().any(|error| error.kind == ErrorKind::Refused) {
        // It refuses to start, which does not depend on the input.
        return Ok(());
    }
    if !tested.has_blocks {
        let size = input.len();
        only_large_ones(&before_end(&base, size), &before_end(&run, size), max).map_err(within)?;
    }
    let mut splits: Vec<Vec<usize>> =
        (0..SPLITS).map(|seed| random_pieces(&mut Rng::with_seed(seed), input.len())).collect();
    if input.len() <= MAX_SINGLE_BYTES {
        splits.push(vec![1; input.len()]);
    }
    for pieces in splits {
        let case = Case { input: input.clone(), property: Property::Pieces(pieces) };
        case.check(&limited).map_err(|broken| {
            within(format!("the refusal of a large record depends on the split: {broken}"))
        })?;
    }
    refused_at_once((tested, &limited), input, &run).map_err(within)
}

/// The run without the records that begin at the end of the input. The decoder makes them from all
/// others, so they change if one of those is lost.
fn before_end(run: &DecodeRun, size: usize) -> DecodeRun {
    let mut run = run.clone();
    run.records.retain(|record| record.start < size as u64);
    run
}

/// Checks that records are lost only where there is an error, and few small ones near each one.
fn only_large_ones(base: &DecodeRun, run: &DecodeRun, max: u64) -> Result<(), String> {
    let mut left = base.records.iter();
    if let Some(other) = run.records.iter().find(|record| !left.any(|known| known == *record)) {
        let shown = show(run.fields(), Some(other));
        return Err(format!("it gives a record that it does not give otherwise: {shown}"));
    }
    // It is not known what a decoder compares, so only a record of half the bytes is certainly
    // small.
    let is_small = |index: usize| {
        let record = &base.records[index];
        let next = base.records.get(index + 1).map_or(u64::MAX, |next| next.start);
        let values: usize = record.fields.iter().flatten().map(Vec::len).sum();
        (next - record.start).max(values as u64) <= max / 2
    };
    for error in &run.errors {
        let Some(place) = error.resumed.place() else { continue };
        let is_lost = |index: &usize| {
            let start = base.records[*index].start;
            error.offset < start && start < place && is_small(*index)
        };
        let lost = (0..base.records.len()).filter(is_lost).count();
        if lost > MAX_LOST {
            return Err(format!(
                "{lost} records that are not too large are lost: the error {error} goes on at \
                 {place}"
            ));
        }
    }
    let is_known = |start: u64| {
        let skipped = |place: u64| (place..).contains(&start);
        run.records.iter().any(|record| record.start == start)
            || run.errors.iter().any(|error| match error.resumed.place() {
                Some(place) => (error.offset..place).contains(&start),
                None => skipped(error.offset),
            })
    };
    match base.records.iter().position(|record| !is_known(record.start)) {
        None => Ok(()),
        Some(lost) => Err(format!(
            "record {lost} is lost without an error: {}",
            show(base.fields(), base.records.get(lost))
        )),
    }
}

/// Checks that the first refused record is refused as soon as its length is known, and not after
/// all of its bytes: a damaged length would make the host wait for bytes that never come.
///
/// The length is known if the decoder asks for bytes with which it could emit the record. So two
/// streams get the same chunks, and one of them has no limit.
fn refused_at_once(
    (tested, limited): (&PluginUnderTest, &PluginUnderTest),
    input: &Arc<[u8]>,
    run: &DecodeRun,
) -> Result<(), String> {
    let Some(refused) = run.errors.first() else { return Ok(()) };
    let bytes: Bytes = Arc::new(input.clone());
    let open = |plugin: &PluginUnderTest| plugin.open(&[]).map_err(|fault| fault.message);
    let (mut stream, mut unlimited) = (open(limited)?, open(tested)?);
    let (mut at, mut available, mut asked) = (0, refused.offset as usize, 0);
    for _ in 0..MAX_CALLS {
        let outcome = stream.decode(&bytes, at..available, false, 0);
        let same = unlimited.decode(&bytes, at..available, false, 0);
        // The size of a compressed record is not known before it is decompressed.
        let decoded = unlimited.decoded();
        let emits = same.is_ok() && decoded.records > 0 && !decoded.all_in_payload;
        match outcome.map_err(|fault| fault.message)? {
            DecodeOutcome::Bad { .. } if asked > 0 && available == at + asked && emits => {
                return Err(format!(
                    "a record is refused too late: at byte {at} the decoder asks for {asked} \
                     bytes, and refuses the record only when it has them; compare its length with \
                     max_record before the whole record is in the chunk"
                ));
            }
            DecodeOutcome::Bad { .. } => return Ok(()),
            DecodeOutcome::Progress { consumed, need, more } => {
                at += consumed;
                let left = available - at;
                if more || (1..=left).contains(&need) {
                    continue;
                }
                asked = need;
                available = at + if need > left { need } else { left + 1 };
            }
        }
        if available > input.len() {
            return Ok(());
        }
    }
    Ok(())
}

/// Number of calls after which a check ends.
const MAX_CALLS: u64 = 20_000;
