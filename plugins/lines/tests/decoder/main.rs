//! Tests of the lines decoder: line ends, each option, each error, any split, any bytes.

mod errors;
mod format;
mod other_formats;
mod splits;

use pipemill_lines::Lines;
use pipemill_plugin::testing::{Setup, assert_all_splits};

/// Records, and errors as (offset, bytes skipped, message).
type Decoded = (Vec<Vec<u8>>, Vec<(u64, u64, String)>);

/// The outcome, which is the same for every split.
fn outcome(setup: &Setup, text: &[u8]) -> Decoded {
    let whole = assert_all_splits::<Lines>(setup, text);
    let field = |mut record: Vec<Option<Vec<u8>>>| record.remove(0).expect("never absent");
    (whole.records.into_iter().map(field).collect(), whole.errors)
}
