//! Second implementations of formats: plain ones after the format's document, or crates. They say
//! what a decoder must make of an input.

pub(crate) mod csv;
pub(crate) mod length_prefixed;
pub(crate) mod lines;
pub(crate) mod recordio;
pub(crate) mod tfrecord;
pub(crate) mod webdataset;

use pipemill_plugin::testing::{Outcome, Setup};

/// The places and bytes of records of one field, and the place of the first error.
#[derive(Debug, Default, PartialEq, Eq)]
struct Expected {
    records: Vec<(usize, Vec<u8>)>,
    error: Option<usize>,
}

impl Expected {
    /// The bytes at `at` are not a record.
    fn failed_at(self, at: usize) -> Self {
        Self { error: Some(at), ..self }
    }

    /// Compares with what a decoder made of the same input, up to its first error.
    fn compare(&self, outcome: &Outcome) {
        let fields = outcome.records.iter().map(|record| record[0].clone().unwrap_or_default());
        let starts = outcome.starts.iter().map(|start| *start as usize);
        let found = Self {
            records: starts.zip(fields).collect(),
            error: outcome.errors.first().map(|(offset, ..)| *offset as usize),
        };
        assert_eq!(*self, found, "the reference, then the decoder");
    }
}

/// The setup's limit on a record, in bytes.
fn max_record(setup: &Setup) -> usize {
    setup.max_record as usize
}
