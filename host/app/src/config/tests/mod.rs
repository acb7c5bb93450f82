//! Tests of the configuration as a whole; each file beside this one has one kind of them.

mod docs;
mod golden;
mod properties;
mod suggest;
mod values;

use super::*;

/// No variable is set.
fn bare(_: &str) -> Option<String> {
    None
}

fn parse_bare(text: &str) -> Result<Config, Vec<Fault>> {
    parse(text, "pipemill.toml", &bare)
}

/// The faults of a text, one line each.
fn messages(text: &str) -> Vec<String> {
    match parse_bare(text) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().map(Fault::to_string).collect(),
    }
}
