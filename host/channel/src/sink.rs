//! Where batches go: what the mill needs of a ring, or of anything else that takes records.

use std::sync::Arc;

use super::{Batch, Failure};
use pipemill_types::Field;

/// Why the mill has to leave off.
#[derive(Debug)]
pub enum Halt {
    /// Somebody asked to stop.
    Stopped,
    /// The consumer wants no more of this epoch.
    EpochEnded,
    /// The channel failed.
    Failed(Box<Failure>),
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self::Failed(Box::new(failure))
    }
}

impl From<Box<Failure>> for Halt {
    fn from(failure: Box<Failure>) -> Self {
        Self::Failed(failure)
    }
}

/// Where batches go.
pub trait Sink {
    /// Memory that a batch is laid out in. Shared with the decoder while it looks at its chunk.
    type Memory: AsRef<[u8]> + AsMut<[u8]> + Send + Sync + 'static;

    /// Memory for the next batch; waits until a consumer has left some.
    ///
    /// # Errors
    /// Somebody asked to stop, or the memory can't be had.
    fn memory(&mut self) -> Result<Self::Memory, Halt>;

    /// Memory for a batch that does not fit into what [`memory`](Self::memory) gives: at least so many
    /// bytes of payload, and an index of one record with so many fields.
    ///
    /// # Errors
    /// As [`memory`](Self::memory).
    fn large_memory(&mut self, payload: usize, fields: usize) -> Result<Self::Memory, Halt>;

    /// How many bytes of a batch's memory its payload may take, if it has so many records.
    fn room(&self, memory: &Self::Memory, records: usize, fields: usize) -> usize;

    /// The fields of the records, once, before the first batch.
    fn schema(&mut self, fields: &Arc<[Field]>);

    /// Hands a batch over.
    ///
    /// # Errors
    /// It can't be handed over, or somebody asked to stop.
    fn grant(&mut self, memory: Self::Memory, batch: &Batch) -> Result<(), Halt>;

    /// Whether a consumer waits for a batch right now.
    fn is_hungry(&self) -> bool;

    /// Whether the consumers want no more of this epoch.
    fn wants_epoch_end(&self, epoch: u32) -> bool;

    /// The epoch is at its end, by itself or early.
    ///
    /// # Errors
    /// Somebody asked to stop.
    fn end_epoch(&mut self, epoch: u32, early: bool) -> Result<(), Halt>;
}
