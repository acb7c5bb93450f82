//! Tests of the webdataset decoder: all forms of tar, samples, damage, any split, real files.

mod damage;
mod errors;
mod format;
mod interleaved;
mod need;
mod options;
mod other_formats;
mod real_files;
mod splits;
mod tar_crate;
mod trailing;
mod values;
mod write;

use pipemill_plugin::testing::{Outcome, Setup, assert_any_split, decode_split};
use pipemill_webdataset::WebDataset;

/// The outcome, which is the same for many splits in two and for small pieces.
fn outcome(setup: &Setup, file: &[u8]) -> Outcome {
    let whole = assert_any_split::<WebDataset>(setup, file, &vec![37; file.len() / 37]);
    for split in (1..file.len()).step_by(1 + file.len() / 200) {
        assert_eq!(whole, decode_split::<WebDataset>(setup, file, &[split]), "split at {split}");
    }
    whole
}

/// The records as text; `-` is an absent field.
fn texts(outcome: &Outcome) -> Vec<Vec<String>> {
    let text = |field: &Option<Vec<u8>>| match field {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => "-".to_owned(),
    };
    outcome.records.iter().map(|record| record.iter().map(text).collect()).collect()
}
