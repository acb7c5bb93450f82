//! An object, or a section of one, that a worker decodes, and the worker's output.

use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};

use pipemill_source::Object;
use pipemill_types::Field;

use super::sections::SectionPart;
use crate::batch::Batch;
use crate::batch::block_memory::BlockMemory;
use crate::errors::policy::SkippedError;
use crate::pump::object::Begin;
use crate::{ChannelStats, StopReason};

/// The output of a worker.
pub(super) enum WorkerOutput {
    /// The fields of the records. Comes before the first records, if nobody knew the fields.
    Fields(Arc<[Field]>),
    /// A decode error that was skipped. Comes before the records that follow it.
    Skipped(SkippedError),
    /// Records.
    Records(BlockMemory, Batch),
    /// How the object, or the section of it, ended.
    Ended(Ended),
}

/// How an object, or a section of it, ended.
pub(super) struct Ended {
    pub(super) result: Result<(), StopReason>,
    /// Number of the record after the last one, as the worker counts.
    pub(super) records: u64,
    /// Number of the section that begins there. `None`: the object is at its end.
    pub(super) next: Option<u64>,
}

/// An object to decode.
pub(super) struct Job {
    /// Its number in the plan.
    pub(super) number: u64,
    pub(super) object: Object,
    pub(super) begin: Begin,
    /// The fields of the records, if earlier objects have declared them.
    pub(super) fields: Option<Arc<[Field]>>,
    /// Receives the worker's output.
    pub(super) deliveries: Sender<WorkerOutput>,
    /// The section of the object that is decoded, if it is not all of it.
    pub(super) section: Option<SectionPart>,
    /// Gets the statistics of the worker that has the object.
    pub(super) worker: Arc<OnceLock<Arc<ChannelStats>>>,
}
