//! Asks a decoder for the plan of an object, reads what it wants to see, and checks its answers.

use std::ops::Range;

use pipemill_decode::{PlanInstance, PlanPart, PlanPiece, PlanRange, PlanStep};
use pipemill_source::{Input, ReadOutcome, SourceError};
use pipemill_types::Fault;

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

/// Asks for the plan of an object of `size` bytes.
pub(crate) fn ask(
    instance: &mut PlanInstance,
    options: &[(String, String)],
    input: &dyn Input,
    size: u64,
) -> Result<Asked, NoPlan> {
    let mut seen = Vec::new();
    for _ in 0..MAX_STEPS {
        match instance.step(options, &seen)? {
            PlanStep::Whole => return Ok(Asked::Whole),
            PlanStep::Parts(parts) => return Ok(Asked::Plan(checked(&parts, size)?)),
            PlanStep::Read(ranges) => {
                let before = seen.iter().map(|piece| piece.bytes.len() as u64).sum();
                let ranges = checked_ranges(&ranges, before, size)?;
                for range in ranges {
                    let Some(bytes) = read(input, range.clone())? else {
                        return Ok(Asked::Stopped);
                    };
                    seen.push(PlanPiece { offset: range.start, bytes });
                }
                // The first answer shows whether the store keeps the object compressed.
                if input.range(0..0).is_none() {
                    return Ok(Asked::Whole);
                }
            }
        }
    }
    Err(Fault::contract(format!("has no plan after {MAX_STEPS} steps")).into())
}

fn outside(range: PlanRange, size: u64) -> Fault {
    let PlanRange { offset, length } = range;
    Fault::contract(format!("wants {length} bytes from byte {offset} of an object of {size} bytes"))
}

/// The ranges that a step wants to see. `before` is the number of bytes that were read for the
/// steps before.
fn checked_ranges(ranges: &[PlanRange], before: u64, size: u64) -> Result<Vec<Range<u64>>, Fault> {
    if ranges.is_empty() || ranges.len() > MAX_RANGES {
        let count = ranges.len();
        let what = format!("wants {count} ranges in a step of a plan; expected 1 to {MAX_RANGES}");
        return Err(Fault::contract(what));
    }
    let within = |range: &PlanRange| range.within(size).ok_or_else(|| outside(*range, size));
    let checked = ranges.iter().map(within).collect::<Result<Vec<_>, _>>()?;
    let bytes = checked.iter().fold(before, |sum, one| sum.saturating_add(one.end - one.start));
    if bytes > MAX_READ_BYTES {
        return Err(Fault::contract(format!(
            "wants to see {bytes} bytes of an object for its plan; expected at most \
             {MAX_READ_BYTES}"
        )));
    }
    Ok(checked)
}

fn checked(parts: &[PlanPart], size: u64) -> Result<Plan, Fault> {
    let bytes = |part: &PlanPart| {
        part.context.len() as u64 + part.ranges.len() as u64 * RANGE_BYTES + PART_BYTES
    };
    let bytes: u64 = parts.iter().map(bytes).sum();
    if bytes > MAX_PLAN_BYTES {
        return Err(Fault::contract(format!(
            "has a plan of {bytes} bytes; expected at most {MAX_PLAN_BYTES}"
        )));
    }
    let ranges = parts.iter().flat_map(|part| &part.ranges);
    if let Some(range) = ranges.copied().find(|range| range.within(size).is_none()) {
        return Err(outside(range, size));
    }
    Plan::of(parts, size).ok_or_else(|| Fault::contract("has a plan without an end".to_owned()))
}

/// Reads these bytes of an object. `None` if a stop was requested.
fn read(input: &dyn Input, range: Range<u64>) -> Result<Option<Vec<u8>>, SourceError> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    let (mut reader, mut read) = (None, 0);
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
