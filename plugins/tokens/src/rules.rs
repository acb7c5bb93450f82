//! The size of a record, according to the options.

use pipemill_parsing::field_spec::element_size;
use pipemill_plugin::Scalar;

/// The type and number of the tokens of a record.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) scalar: Scalar,
    /// Number of tokens of a record.
    pub(crate) length: u32,
    /// Whether a last record that is too short is dropped. Otherwise it is an error.
    pub(crate) drop_tail: bool,
}

impl Rules {
    /// Size of a token in bytes.
    pub(crate) fn token_bytes(&self) -> usize {
        element_size(self.scalar).unwrap_or(1)
    }
}
