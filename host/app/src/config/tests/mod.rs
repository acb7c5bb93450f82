//! Tests of the configuration as a whole. Each file in this folder has one kind of tests.

mod docs;
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
