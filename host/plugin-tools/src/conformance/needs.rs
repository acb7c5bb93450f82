//! Checks whether the decoder says how many bytes it needs, and whether that is true.

use std::sync::Arc;

use pipemill_decode::{Bytes, DecodeOutcome};

use super::structure::Structure;
use crate::decode_run::PluginUnderTest;
use crate::trace::Shown;

/// Number of calls after which the check ends.
const MAX_CALLS: u64 = 20_000;

/// Checks each number of bytes that the decoder says it needs: with one byte less it makes no
/// progress. (The host checks that it makes progress with all of them, or asks for more.) Returns
/// how many numbers were checked. The check ends at the first error in the input.
///
/// # Errors
/// The error is one line with the first number that is too large.
pub(super) fn check(tested: &PluginUnderTest, input: &Arc<[u8]>) -> Result<u64, String> {
    let mut stream = tested.open(&[]).map_err(|fault| fault.message)?;
    let bytes: Bytes = Arc::new(input.clone());
    let (mut at, mut available) = (0, input.len().min(1));
    // The number that is being checked.
    let mut probed: Option<usize> = None;
    let mut checked = 0;
    for _ in 0..MAX_CALLS {
        let outcome = stream.decode(&bytes, at..available, false, 0);
        let (consumed, need, more) = match outcome.map_err(|fault| fault.message)? {
            DecodeOutcome::Progress { consumed, need, more } => (consumed, need, more),
            DecodeOutcome::Bad { .. } => return Ok(checked),
        };
        let records = stream.decoded().records;
        if let Some(need) = probed.take() {
            checked += 1;
            if consumed > 0 || records > 0 {
                return Err(format!(
                    "`need` is over-claimed: at byte {at} the decoder says that it needs {need} \
                     bytes, but with {} it consumes {consumed} and emits {records} records",
                    need - 1
                ));
            }
        }
        at += consumed;
        let left = available - at;
        if more || (1..=left).contains(&need) {
            continue;
        }
        let next = match need {
            // The decoder does not know the number, so it gets a few more bytes.
            0 if left < 64 => left + 1,
            0 => left + left / 2,
            need if need - 1 > left => {
                probed = Some(need);
                need - 1
            }
            need => need,
        };
        match at.checked_add(next).filter(|to| *to <= input.len()) {
            Some(to) => available = to,
            None => break,
        }
    }
    Ok(checked)
}

/// The cost of a decoder that does not know how many bytes it needs.
pub(super) struct Looks {
    /// Size of a piece of the input, in bytes.
    pub(super) piece: usize,
    /// Number of calls.
    pub(super) calls: u64,
    /// Average number of times that a byte was passed.
    pub(super) per_byte: f64,
}

/// Number of pieces in which the longest record arrives.
const PIECES: usize = 64;

/// Counts how often bytes are passed again, if the longest record arrives in pieces.
pub(super) fn count_looks(tested: &PluginUnderTest, structure: &Structure) -> Looks {
    let lengths =
        (0..structure.units.len()).map(|unit| structure.end_of(unit) - structure.units[unit]);
    let piece = (lengths.max().unwrap_or(0) as usize / PIECES).max(1);
    let pieces = vec![piece; structure.input.len() / piece];
    let shown = Shown { pieces: &pieces, max_calls: MAX_CALLS, ..Shown::default() };
    let trace = tested.trace(&structure.input, shown);
    let per_byte = trace.bytes_shown as f64 / trace.consumed.max(1) as f64;
    Looks { piece, calls: trace.calls, per_byte }
}
