//! The context of a channel that runs.

use pipemill_source::Source;
use pipemill_types::BatchSize;

use crate::ErrorPolicy;
use crate::pump::object::Decoding;

/// The parts of a channel while it runs.
pub(super) struct RunContext<'a> {
    pub(super) decoding: Decoding<'a>,
    pub(super) source: &'a mut dyn Source,
    pub(super) policy: &'a mut ErrorPolicy,
    /// The number of records of each batch.
    pub(super) batch: Option<BatchSize>,
}
