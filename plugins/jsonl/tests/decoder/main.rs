//! Tests of the jsonl decoder: lines, options, each error, JSON as serde_json and Python's `json` read
//! it, any split.

mod errors;
mod lines;
mod options;
mod python;
mod serde;
mod splits;
mod texts;
mod values;

use pipemill_jsonl::Jsonl;
use pipemill_plugin::testing::{Record, Setup, assert_any_split, decode_split};

/// Records, and errors as (offset, bytes passed over, message).
type Told = (Vec<Record>, Vec<(u64, u64, String)>);

/// Decodes whole, then at every split in two and byte by byte.
fn outcome(setup: &Setup, text: &[u8]) -> Told {
    let whole = assert_any_split::<Jsonl>(setup, text, &vec![1; text.len()]);
    for split in 1..text.len() {
        assert_eq!(whole, decode_split::<Jsonl>(setup, text, &[split]), "split at {split}");
    }
    (whole.records, whole.errors)
}

/// The records of a sound text with these fields.
fn chosen(fields: &str, text: &str) -> Vec<Record> {
    let (records, errors) = outcome(&Setup::new(&[("fields", fields)]), text.as_bytes());
    assert_eq!(errors, []);
    records
}
