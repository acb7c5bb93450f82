//! The interface that a channel needs of a ring, or of anything else that takes records.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pipemill_types::{BatchMemory, Field, TakenMemory};

use crate::{Batch, Failure};

/// Why a channel's thread stops.
#[derive(Debug)]
pub enum StopReason {
    /// The run is being stopped.
    Stopped,
    /// The consumers asked to end this epoch.
    EpochEnded,
    /// The consumers requested another place to begin at.
    Restart,
    /// The channel failed.
    Failed(Box<Failure>),
}

impl From<Failure> for StopReason {
    fn from(failure: Failure) -> Self {
        Self::Failed(Box::new(failure))
    }
}

impl From<Box<Failure>> for StopReason {
    fn from(failure: Box<Failure>) -> Self {
        Self::Failed(failure)
    }
}

/// Delivery counts of a channel. A window in a thread of its own shares them with the channel's
/// thread.
#[derive(Debug, Default)]
pub struct DeliveryCounts {
    /// Batches granted so far, of all objects.
    pub(super) granted: Count,
    /// Records that were dropped by [`Tail::Drop`](crate::Tail::Drop) and not reported yet.
    pub(super) dropped: Count,
    /// Records that are still to be skipped, because they were delivered already.
    pub(super) to_skip: Count,
    /// Records in a window that are not due yet.
    pub(super) in_window: Count,
}

/// A number that only one thread changes at a time. Other threads may see an older value until they
/// have waited for that thread.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Subtracts `most`, or the whole value if that is less. Returns the number that was
    /// subtracted.
    pub(super) fn take(&self, most: u64) -> u64 {
        let taken = self.get().min(most);
        self.0.fetch_sub(taken, Ordering::Relaxed);
        taken
    }
}

/// The memory of batches.
pub trait SinkMemory {
    /// Memory for one batch. A call of the decoder shares it, because the chunk lies in it.
    type Memory: BatchMemory + 'static;

    /// Memory for the next batch. Waits until a consumer has released some.
    ///
    /// # Errors
    /// The run is being stopped, or there is no memory.
    fn memory(&mut self) -> Result<Self::Memory, StopReason>;

    /// As [`memory`](Self::memory), without waiting: `None` if none is free now, or if the wait
    /// would end with an error. A batch that has it counts as the next one.
    fn free_memory(&mut self) -> Option<Self::Memory> {
        None
    }

    /// Memory for a later batch, which is filled concurrently with the next one. None if none is
    /// free now. It never takes the memory of the next batch.
    fn extra_memory(&mut self) -> Option<Self::Memory> {
        None
    }

    /// Memory for a batch that does not fit into memory from [`memory`](Self::memory): at least
    /// `payload` bytes of payload, and an index of one record with `fields` fields.
    ///
    /// # Errors
    /// As [`memory`](Self::memory).
    fn dedicated_memory(
        &mut self,
        payload: usize,
        fields: usize,
    ) -> Result<Self::Memory, StopReason>;

    /// As [`dedicated_memory`](Self::dedicated_memory), for a batch of a fixed number of records
    /// whose size is not known yet: `payload` is that of the largest one before. The memory may be
    /// somewhat smaller.
    ///
    /// # Errors
    /// As [`memory`](Self::memory).
    fn memory_about(&mut self, payload: usize, fields: usize) -> Result<Self::Memory, StopReason> {
        self.dedicated_memory(payload, fields)
    }

    /// As [`memory_about`](Self::memory_about), without waiting, for a later batch, which
    /// is filled concurrently with the next one. `None` if there is none now, and where it would
    /// not leave enough memory for the next one to grow.
    fn free_dedicated_memory(&mut self, _payload: usize, _fields: usize) -> Option<Self::Memory> {
        None
    }

    /// Enlarges memory that [`dedicated_memory`](Self::dedicated_memory) gave to at least `payload`
    /// bytes of payload. Its content stays. A growing batch calls this repeatedly, so it should
    /// enlarge by a part of the size.
    ///
    /// # Errors
    /// There is no memory.
    fn grow(&mut self, memory: &mut Self::Memory, payload: usize) -> Result<(), StopReason>;

    /// Makes `taken` count `bytes` bytes in the channel's budget, for memory other than that of
    /// batches. Waits until consumers have released enough batches for it.
    ///
    /// # Errors
    /// The channel may not take that much, or the run is being stopped.
    fn take_memory(&mut self, _: &mut Option<TakenMemory>, _: u64) -> Result<(), StopReason> {
        Ok(())
    }

    /// Bytes that the payload of a batch may take of this memory, if the batch has `records`
    /// records of `fields` fields and `texts` bytes of metadata and identity. `None` if not even
    /// their index fits.
    fn room(
        &self,
        memory: &Self::Memory,
        records: usize,
        fields: usize,
        texts: usize,
    ) -> Option<usize>;
}

/// The delivery of batches, and the demand of their consumers.
pub trait SinkDelivery: SinkMemory {
    /// Takes the fields of all records. Called at most once, before the first batch.
    fn schema(&mut self, fields: &Arc<[Field]>);

    /// Hands a batch over. If it has no columns, its index was [written](BatchMemory::write_index)
    /// into the memory. The sink may take the batch and leave another one with the same number of
    /// columns, which the caller fills from its start.
    ///
    /// # Errors
    /// The batch can't be handed over, or the run is being stopped.
    fn grant(&mut self, memory: Self::Memory, batch: &mut Batch) -> Result<(), StopReason>;

    /// Whether a consumer is waiting for a batch.
    fn has_demand(&self) -> bool;

    /// Whether the consumers asked to end this epoch.
    fn wants_epoch_end(&self, epoch: u32) -> bool;

    /// Ends the epoch: at its own end, or early because the consumers asked for it.
    ///
    /// # Errors
    /// The run is being stopped.
    fn end_epoch(&mut self, epoch: u32, early: bool) -> Result<(), StopReason>;

    /// Delivery counts kept by a sink that regroups records: the window of a shuffle. `None` for
    /// all other sinks.
    #[doc(hidden)]
    fn counts(&self) -> Option<&Arc<DeliveryCounts>> {
        None
    }

    /// For a window in a thread of its own: waits until it has processed everything that it got.
    ///
    /// # Errors
    /// As those of [`grant`](Self::grant).
    #[doc(hidden)]
    fn finish(&mut self) -> Result<(), StopReason> {
        Ok(())
    }
}

/// A sink of batches: memory for them, and their delivery.
pub trait Sink: SinkMemory + SinkDelivery {}

impl<S: SinkDelivery> Sink for S {}

/// Enlarges private memory to at least `payload` bytes, and to twice its size, so that growing
/// copies each byte at most once more in total.
pub(crate) fn grow_private(memory: &mut Vec<u8>, payload: usize) {
    memory.resize(payload.max(2 * memory.len()), 0);
}
