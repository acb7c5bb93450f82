//! Records after lengths of a fixed size, one record at a time. Varints are left out.

use pipemill_plugin::testing::{Outcome, Setup};

use super::{Expected, max_record};
use crate::decoders::option;

/// Compares the outcome with this module's, unless the lengths are varints.
pub(crate) fn compare(setup: &Setup, input: &[u8], outcome: &Outcome) {
    let (size, big) = match option(setup, "prefix").unwrap_or("u32le") {
        "u16le" => (2, false),
        "u16be" => (2, true),
        "u32le" => (4, false),
        "u32be" => (4, true),
        "u64le" => (8, false),
        "u64be" => (8, true),
        _ => return,
    };
    let without = if option(setup, "includes_prefix") == Some("true") { size } else { 0 };
    let (mut expected, mut at) = (Expected::default(), 0);
    while at < input.len() {
        match record(&input[at..], (size, big), without as u64, max_record(setup)) {
            Some(data) => {
                expected.records.push((at, data.to_vec()));
                at += size + data.len();
            }
            None => {
                expected = expected.failed_at(at);
                break;
            }
        }
    }
    expected.compare(outcome);
}

/// The data of the first record. `without` is the number of bytes that its length
/// counts in addition to the data.
fn record(input: &[u8], (size, big): (usize, bool), without: u64, max: usize) -> Option<&[u8]> {
    let (prefix, rest) = input.split_at_checked(size)?;
    let add = |length: u64, byte: &u8| length << 8 | u64::from(*byte);
    let length = match big {
        true => prefix.iter().fold(0, add),
        false => prefix.iter().rev().fold(0, add),
    };
    let length = usize::try_from(length.checked_sub(without)?).ok()?;
    rest.get(..length).filter(|_| length <= max)
}
