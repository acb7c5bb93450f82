//! The checks that hold for every decoder and every input.

use pipemill_plugin::Decoder;
use pipemill_plugin::testing::{Outcome, Setup, decode_split, decode_whole, open};

use super::case::Case;

/// Checks a decoder on a case, and returns its result for the whole input, up to the first error.
/// `None` if it refused the options.
///
/// # Panics
/// If the decoder breaks its contract: the outcome depends on the split, a skip makes no progress,
/// records or errors are out of order, or skipping changes the records before the first error.
pub(super) fn check<D: Decoder>(case: &Case) -> Option<Outcome> {
    if let Err(why) = open::<D>(&case.setup) {
        assert!(!why.is_empty(), "the options were refused without a reason");
        return None;
    }
    let failing = any_split::<D>(&case.setup, case);
    let skipping = any_split::<D>(&case.setup.clone().skipping(), case);
    assert!(failing.errors.len() <= 1, "it went on after an error");
    let before = failing.records.len();
    assert_eq!(skipping.records.get(..before), Some(&*failing.records), "records before the error");
    let first = |outcome: &Outcome| {
        outcome.errors.first().map(|(offset, _, message)| (*offset, message.clone()))
    };
    assert_eq!(first(&failing), first(&skipping), "the first error");
    Some(failing)
}

/// Decodes the whole and in pieces, and checks the order of the results.
fn any_split<D: Decoder>(setup: &Setup, case: &Case) -> Outcome {
    let whole = decode_whole::<D>(setup, &case.input);
    let split = decode_split::<D>(setup, &case.input, &case.pieces);
    assert_eq!(whole, split, "the whole, then in pieces of {:?}", case.pieces);
    assert!(whole.starts.is_sorted(), "starts out of order: {:?}", whole.starts);
    let mut end = 0;
    for (offset, length, message) in &whole.errors {
        assert!(*offset >= end, "an error at {offset}, inside of what was skipped up to {end}");
        assert!(!message.is_empty(), "an error without a reason");
        end = offset + length;
    }
    let last = whole.starts.last().copied().max(Some(end)).unwrap_or_default();
    assert!(last <= case.input.len() as u64, "a place after the end of the input");
    whole
}
