//! Tests of the jsonl decoder: lines, options, each error, comparison with serde_json and Python's
//! `json`, any split.

mod errors;
mod lines;
mod options;
mod other_formats;
mod python;
mod serde;
mod splits;
mod texts;
mod values;

use pipemill_jsonl::Jsonl;
use pipemill_plugin::testing::{Record, Setup, assert_all_splits};

/// Records, and errors as (offset, bytes skipped, message).
type Decoded = (Vec<Record>, Vec<(u64, u64, String)>);

/// The outcome, which is the same for every split.
fn outcome(setup: &Setup, text: &[u8]) -> Decoded {
    let whole = assert_all_splits::<Jsonl>(setup, text);
    (whole.records, whole.errors)
}

/// The records of a text without errors, with these fields.
fn records(fields: &str, text: &str) -> Vec<Record> {
    let (records, errors) = outcome(&Setup::new(&[("fields", fields)]), text.as_bytes());
    assert_eq!(errors, []);
    records
}
