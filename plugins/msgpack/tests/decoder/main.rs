//! Tests of the msgpack decoder: every form of a value, types of fields, options, each error, a model
//! on random and damaged input, any split, the public test suite, files that Python wrote.

mod errors;
mod forms;
mod limits;
mod model;
mod numbers;
mod options;
mod other_formats;
mod real_files;
mod splits;
mod suite;
mod values;
mod write;

use pipemill_msgpack::Msgpack;
use pipemill_plugin::testing::{Record, Setup, assert_all_splits};

/// Records, and errors as (offset, bytes skipped, message).
type Decoded = (Vec<Record>, Vec<(u64, u64, String)>);

/// The outcome, which is the same for every split.
fn outcome(setup: &Setup, bytes: &[u8]) -> Decoded {
    let whole = assert_all_splits::<Msgpack>(setup, bytes);
    (whole.records, whole.errors)
}

/// The records of bytes without errors, with these fields.
fn records(fields: &str, bytes: &[u8]) -> Vec<Record> {
    let (records, errors) = outcome(&Setup::new(&[("fields", fields)]), bytes);
    assert_eq!(errors, []);
    records
}
