//! Tests of the npy decoder: headers, types, errors, any split, damage, files that numpy wrote.

mod damage;
mod errors;
mod headers;
mod need;
mod other_formats;
mod real_files;
mod splits;
mod write;

use pipemill_npy::Npy;
use pipemill_plugin::Field;
use pipemill_plugin::testing::{Outcome, Setup, assert_all_splits};

/// The outcome, which is the same for every split.
fn outcome(setup: &Setup, file: &[u8]) -> Outcome {
    assert_all_splits::<Npy>(setup, file)
}

/// The fields of a file without errors, and the records, whose fields must all be present.
fn read(file: &[u8]) -> (Vec<Field>, Vec<Vec<Vec<u8>>>) {
    let outcome = outcome(&Setup::new(&[]), file);
    assert_eq!(outcome.errors, []);
    let record = |record: &Vec<Option<Vec<u8>>>| {
        record.iter().map(|field| field.clone().expect("never absent")).collect()
    };
    (outcome.schema.expect("there is an array"), outcome.records.iter().map(record).collect())
}
