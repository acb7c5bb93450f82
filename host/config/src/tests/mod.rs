//! Tests of the configuration as a whole. Each file in this folder has one kind of tests.
//!
//! - `generated`: the schema and the tables of docs/configuration.md are those of the keys, and
//!   each example of the page is a valid configuration.
//! - `golden`: the texts of the messages: a file with many faults and the messages for it, and
//!   short texts with one fault each.
//! - `mixes`: channels that are mixed: where they end up, and what is wrong with them.
//! - `properties`: properties of all texts and all configurations: no text makes the parser panic,
//!   a configuration that was shown can be read back, and so can single values; variables are
//!   replaced.
//! - `suggest`: the names that are suggested for a wrong name.
//! - `values`: single values: valid sizes and times and the messages for others, both ends of each
//!   range, and the defaults of a short file.

mod generated;
mod golden;
mod mixes;
mod properties;
mod suggest;
mod values;

use super::*;

/// An environment without variables.
fn no_variables(_: &str) -> Option<String> {
    None
}

fn parse_bare(text: &str) -> Result<Config, Vec<Fault>> {
    parse(text, "pipemill.toml", &no_variables)
}

/// The messages for a text, one for each fault.
fn messages(text: &str) -> Vec<String> {
    match parse_bare(text) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().map(Fault::to_string).collect(),
    }
}
