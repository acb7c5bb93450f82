//! Tests of the csv decoder through its public interface: any split, comparison with two other
//! readers, files by other writers, and the text of every message.

mod crate_csv;
mod dense;
mod differences;
mod files;
mod header_guess;
mod hints;
mod inputs;
mod learn;
mod messages;
mod objects;
mod options;
mod python;
mod quotes;
mod real_files;
mod search;
mod splits;
mod vectors;

use pipemill_plugin::testing::Outcome;

/// The rows as text; `-` is an absent field.
fn text(outcome: &Outcome) -> Vec<Vec<String>> {
    let field = |field: &Option<Vec<u8>>| match field {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => "-".to_owned(),
    };
    outcome.records.iter().map(|record| record.iter().map(field).collect()).collect()
}
