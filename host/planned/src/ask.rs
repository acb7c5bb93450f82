//! Asks a decoder for the plan of an object, reads what it wants to see, and checks its answers.

use std::ops::Range;

use pipemill_decode::{PlanInstance, PlanPart, PlanPiece, PlanRange, PlanStep};
use pipemill_source::{Input, ReadOutcome, SourceError};
use pipemill_types::Fault;

use crate::input::Stored;
use crate::plan::Plan;

/// Steps until a decoder has to have a plan.
const MAX_STEPS: usize = 32;
/// Ranges that are read for a step.
const MAX_RANGES: usize = 64;
/// Bytes of an object that are read for its plan.
pub const MAX_READ_BYTES: u64 = 32 << 20;
/// Bytes that a plan may take.
pub const MAX_PLAN_BYTES: u64 = 8 << 20;
/// Bytes of a plan that count for each range and each part, in addition to its contexts.
const RANGE_BYTES: u64 = 16;
const PART_BYTES: u64 = 64;

/// How asking for a plan ended.
pub(crate) enum Asked {
    Plan(Plan),
    /// The object is shown as without a plan.
    Whole,
    /// A stop was requested.
    Stopped,
}

/// Why there is no plan.
pub(crate) enum NoPlan {
    /// The object can't be read.
    Source(SourceError),
    /// The decoder refuses the object, fails, or breaks the contract.
    Decoder(Fault),
}

impl From<SourceError> for NoPlan {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

impl From<Fault> for NoPlan {
    fn from(fault: Fault) -> Self {
        Self::Decoder(fault)
    }
}

/// Asks for the plan of an object. `stored` has it and its companions, `sizes` their sizes.
pub(crate) fn ask(
    instance: &mut PlanInstance,
    options: &[(String, String)],
    stored: &[Stored],
    sizes: &[u64],
) -> Result<Asked, NoPlan> {
    let mut seen = Vec::new();
    for _ in 0..MAX_STEPS {
        match instance.step(options, &seen)? {
            PlanStep::Whole => return Ok(Asked::Whole),
            PlanStep::Parts(parts) => return Ok(Asked::Plan(checked(&parts, sizes)?)),
            PlanStep::Read(ranges) => {
                let before = seen.iter().map(|piece| piece.bytes.len() as u64).sum();
                let ranges = checked_ranges(&ranges, before, sizes)?;
                let Some(pieces) = read_all(stored, &ranges)? else { return Ok(Asked::Stopped) };
                seen.extend(pieces);
                // The first answer shows whether the store keeps the object compressed.
                if stored.iter().any(|one| one.input.range(0..0).is_none()) {
                    return Ok(Asked::Whole);
                }
            }
        }
    }
    Err(Fault::contract(format!("has no plan after {MAX_STEPS} steps")).into())
}

fn outside(range: PlanRange, sizes: &[u64]) -> Fault {
    let PlanRange { of, offset, length } = range;
    let wants = format!("wants {length} bytes from byte {offset} of");
    let size = usize::try_from(of).ok().and_then(|of| sizes.get(of));
    Fault::contract(match (of, size) {
        (0, Some(size)) => format!("{wants} an object of {size} bytes"),
        (_, Some(size)) => format!("{wants} companion {of} of an object, which has {size} bytes"),
        (_, None) => {
            let count = sizes.len().saturating_sub(1);
            format!("{wants} companion {of} of an object that has {count} companions")
        }
    })
}

/// The ranges that a step wants to see. `before` is the number of bytes that were read for the
/// steps before.
fn checked_ranges(
    ranges: &[PlanRange],
    before: u64,
    sizes: &[u64],
) -> Result<Vec<(u32, Range<u64>)>, Fault> {
    if ranges.is_empty() || ranges.len() > MAX_RANGES {
        let count = ranges.len();
        let what = format!("wants {count} ranges in a step of a plan; expected 1 to {MAX_RANGES}");
        return Err(Fault::contract(what));
    }
    let within = |range: &PlanRange| match range.within(sizes) {
        Some(bytes) => Ok((range.of, bytes)),
        None => Err(outside(*range, sizes)),
    };
    let checked = ranges.iter().map(within).collect::<Result<Vec<_>, _>>()?;
    let bytes =
        checked.iter().fold(before, |sum, (_, one)| sum.saturating_add(one.end - one.start));
    if bytes > MAX_READ_BYTES {
        return Err(Fault::contract(format!(
            "wants to see {bytes} bytes of an object for its plan; expected at most \
             {MAX_READ_BYTES}"
        )));
    }
    Ok(checked)
}

fn checked(parts: &[PlanPart], sizes: &[u64]) -> Result<Plan, Fault> {
    let bytes = |part: &PlanPart| {
        part.context.len() as u64 + part.ranges.len() as u64 * RANGE_BYTES + PART_BYTES
    };
    let bytes: u64 = parts.iter().map(bytes).sum();
    if bytes > MAX_PLAN_BYTES {
        return Err(Fault::contract(format!(
            "has a plan of {bytes} bytes; expected at most {MAX_PLAN_BYTES}"
        )));
    }
    let is_empty = |part: &PlanPart| {
        part.context.is_empty() && part.ranges.iter().all(|range| range.length == 0)
    };
    let has_lost = |part: &PlanPart| is_empty(part) && part.records.is_some_and(|count| count > 0);
    if let Some(number) = parts.iter().position(has_lost) {
        let records = parts[number].records.unwrap_or_default();
        return Err(Fault::contract(format!(
            "says that part {number} of its plan has {records} records, and the part has no bytes"
        )));
    }
    let ranges = parts.iter().flat_map(|part| &part.ranges);
    if let Some(range) = ranges.copied().find(|range| range.within(sizes).is_none()) {
        return Err(outside(range, sizes));
    }
    Plan::of(parts, sizes).ok_or_else(|| Fault::contract("has a plan without an end".to_owned()))
}

/// Ranges of a step that are requested before the first of them is read, if they have at most this
/// many bytes together.
const SMALL_STEP: u64 = 64 << 10;

/// Reads these bytes of an object and its companions. A store is asked for many small ranges at
/// once, for large ones one after the other. `None` if a stop was requested.
fn read_all(
    stored: &[Stored],
    ranges: &[(u32, Range<u64>)],
) -> Result<Option<Vec<PlanPiece>>, SourceError> {
    let bytes: u64 = ranges.iter().map(|(_, range)| range.end - range.start).sum();
    let are_small = bytes <= SMALL_STEP;
    // The numbers were checked.
    let open = |(of, range): &(u32, Range<u64>)| {
        let stored = &stored[*of as usize];
        // A file has nothing to fetch ahead.
        let is_store = stored.input.room_ahead().is_some() && !range.is_empty();
        let reader = (are_small && is_store).then(|| stored.input.range(range.clone())).flatten();
        reader.transpose().map_err(|error| stored.named(error))
    };
    let readers = ranges.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let mut pieces = Vec::with_capacity(ranges.len());
    for ((of, range), reader) in ranges.iter().zip(readers) {
        let stored = &stored[*of as usize];
        let read = read(&*stored.input, range.clone(), reader);
        let Some(bytes) = read.map_err(|error| stored.named(error))? else { return Ok(None) };
        pieces.push(PlanPiece { of: *of, offset: range.start, bytes });
    }
    Ok(Some(pieces))
}

/// Reads these bytes of an object, by the reader that was opened for them if there is one. `None`
/// if a stop was requested.
fn read(
    input: &dyn Input,
    range: Range<u64>,
    mut reader: Option<Box<dyn Input>>,
) -> Result<Option<Vec<u8>>, SourceError> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    let mut read = 0;
    while read < bytes.len() {
        if reader.is_none() {
            reader = input.range(range.clone()).transpose()?;
        }
        let Some(reader) = &mut reader else { return Err(ended(range.start, read, bytes.len())) };
        match reader.read(&mut bytes[read..], None)? {
            ReadOutcome::Bytes(count) => read += count,
            ReadOutcome::Nothing => {}
            ReadOutcome::Stopped => return Ok(None),
            ReadOutcome::End => return Err(ended(range.start, read, bytes.len())),
        }
    }
    Ok(Some(bytes))
}

/// The error for an object that ends in a range.
pub(crate) fn ended(start: u64, read: usize, wanted: usize) -> SourceError {
    let message = format!(
        "ends early: {wanted} bytes from its byte {start} on were to be read, and {read} came"
    );
    let error = SourceError::new("", message, "read it again when nobody writes it");
    SourceError { object: None, ..error }
}
