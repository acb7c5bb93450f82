//! Second implementations of formats: plain ones after the format's document, or crates. They
//! define a decoder's expected result for an input.

pub(crate) mod csv;
pub(crate) mod length_prefixed;
pub(crate) mod lines;
pub(crate) mod recordio;
pub(crate) mod tfrecord;
pub(crate) mod webdataset;

use pipemill_plugin::testing::{Outcome, Setup};

/// The positions and bytes of records of one field, and the position of the first error.
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

    /// Compares with a decoder's result for the same input, up to its first error.
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
