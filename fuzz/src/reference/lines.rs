//! Lines of text: as in the documentation of the decoder, one line at a time.

use pipemill_plugin::testing::{Outcome, Setup};

use super::{Expected, max_record};
use crate::decoders::option;

/// Compares the outcome with this module's.
pub(crate) fn compare(setup: &Setup, input: &[u8], outcome: &Outcome) {
    read(input, setup).compare(outcome);
}

fn read(input: &[u8], setup: &Setup) -> Expected {
    let is = |name, value| option(setup, name) == Some(value);
    let (mut expected, mut at) = (Expected::default(), 0);
    for with_end in input.split_inclusive(|byte| *byte == b'\n') {
        let line = match with_end.strip_suffix(b"\n") {
            Some(line) if is("strip_cr", "false") => line,
            Some(line) => line.strip_suffix(b"\r").unwrap_or(line),
            None => with_end,
        };
        if line.len() > max_record(setup) || !is("utf8", "false") && str::from_utf8(line).is_err() {
            return expected.failed_at(at);
        }
        if !(line.is_empty() && is("skip_blank", "true")) {
            expected.records.push((at, line.to_vec()));
        }
        at += with_end.len();
    }
    expected
}
