//! Tests of the lines decoder: the ends of lines, each option, each error, any split, any bytes.

mod errors;
mod format;
mod splits;

use pipemill_lines::Lines;
use pipemill_plugin::testing::{Setup, assert_any_split, decode_split};

/// Records, and errors as (offset, bytes passed over, message).
type Told = (Vec<Vec<u8>>, Vec<(u64, u64, String)>);

/// Decodes whole, then at every split in two and byte by byte.
fn outcome(setup: &Setup, text: &[u8]) -> Told {
    let whole = assert_any_split::<Lines>(setup, text, &vec![1; text.len()]);
    for split in 1..text.len() {
        assert_eq!(whole, decode_split::<Lines>(setup, text, &[split]), "split at {split}");
    }
    let field = |mut record: Vec<Option<Vec<u8>>>| record.remove(0).expect("never absent");
    (whole.records.into_iter().map(field).collect(), whole.errors)
}
