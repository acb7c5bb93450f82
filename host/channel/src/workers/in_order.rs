//! Makes batches of the portions of workers, in their order, where batches have no fixed number of
//! records. Each portion becomes a batch: without a copy if it lies in memory of the sink,
//! otherwise as a copy.

use std::sync::Arc;

use pipemill_types::Field;

use super::AHEAD_BYTES;
use super::fill::filler::{COLUMN_BYTES, COPY_BYTES, Fillers};
use super::worker::MemoryPool;
use crate::batch::Batch;
use crate::batch::block_memory::BlockMemory;
use crate::batch::block_source::BlockSource;
use crate::batch::writer::BatchWriter;
use crate::shuffle::WindowSink;
use crate::sink::DeliveryCounts;
use crate::{Sink, SinkDelivery, StopReason};

/// A sink of portions.
pub(crate) trait PortionSink: Sink<Memory = BlockMemory> {
    /// Bytes of objects that are not current, for each worker.
    const AHEAD_BYTES: usize = AHEAD_BYTES;
    /// Whether other threads copy records for it.
    const HAS_COPIER: bool = false;
    /// Whether its portions are memory of the pool that decoders are shown, not lent memory.
    const SHOWS_PORTIONS: bool = false;

    /// Bytes of the memory that portions should have.
    ///
    /// # Errors
    /// As those of [`Sink::memory`].
    fn portion_bytes(&mut self) -> Result<usize, StopReason>;

    /// Called when the workers begin. `fillers` make the copies that this sink adds to their queue.
    fn begin(&mut self, fillers: Fillers, pool: &Arc<MemoryPool>) {
        let _ = (fillers, pool);
    }

    /// Takes a portion.
    /// # Errors
    /// As those of [`Sink::grant`].
    fn give(&mut self, memory: BlockMemory, portion: Batch) -> Result<(), StopReason>;

    /// Gives memory to the pool, in exchange for the memory of a portion that it has taken.
    fn take_back(&mut self, pool: &MemoryPool) {
        let _ = pool;
    }

    /// Lends memory of batches to the pool of portions, if some is free now.
    fn lend(&mut self, pool: &MemoryPool) {
        let _ = pool;
    }

    /// Hands over the batches that other threads have filled.
    ///
    /// # Errors
    /// As those of [`Sink::grant`].
    fn progress(&mut self) -> Result<(), StopReason> {
        Ok(())
    }

    /// Called when all portions of an object were handed over.
    ///
    /// # Errors
    /// As those of [`Sink::grant`].
    fn object_ended(&mut self) -> Result<(), StopReason> {
        Ok(())
    }
}

impl<S: Sink> PortionSink for WindowSink<'_, S> {
    const AHEAD_BYTES: usize = AHEAD_BYTES - COPY_BYTES - COLUMN_BYTES;
    const HAS_COPIER: bool = true;

    fn begin(&mut self, fillers: Fillers, _: &Arc<MemoryPool>) {
        self.fill_by(fillers);
    }

    fn progress(&mut self) -> Result<(), StopReason> {
        self.grant_full()
    }

    fn portion_bytes(&mut self) -> Result<usize, StopReason> {
        Ok(self.block_bytes())
    }

    fn give(&mut self, memory: BlockMemory, portion: Batch) -> Result<(), StopReason> {
        self.add(memory, portion)
    }

    fn take_back(&mut self, pool: &MemoryPool) {
        // This sink always has memory.
        if let Ok(memory) = self.block() {
            pool.give_back(memory);
        }
    }
}

/// The sink of portions that leave in the order in which they come.
pub(crate) struct InOrderSink<'s, S: Sink> {
    out: BatchWriter<'s, S>,
    spare: Vec<BlockMemory>,
    spare_batches: Vec<Batch>,
    bytes: usize,
}

impl<'s, S: Sink> InOrderSink<'s, S> {
    /// Gives batches to `sink`.
    pub(crate) fn new(sink: &'s mut S) -> Self {
        let out = BatchWriter::new(sink, None);
        Self { out, spare: Vec::new(), spare_batches: Vec::new(), bytes: 0 }
    }

    /// How many of the first `records` records to skip, because they were delivered already.
    fn skip_records(&mut self, records: usize) -> usize {
        self.out.counts().to_skip.take(records as u64) as usize
    }

    fn give_copy(
        &mut self,
        mut memory: BlockMemory,
        mut portion: Batch,
        passed: usize,
    ) -> Result<(), StopReason> {
        if passed > 0 {
            portion.take_columns(&mut memory);
            portion.remove_first(passed);
        }
        match memory.into_lent::<S::Memory>() {
            Ok(memory) if portion.records > 0 => self.out.give(memory, &mut portion)?,
            Ok(_) => {}
            Err(memory) => {
                if portion.records > 0 {
                    self.out.give_copy(memory.as_ref(), &mut portion)?;
                }
                self.keep(memory);
            }
        }
        if !portion.columns.is_empty() {
            self.spare_batches.push(portion);
        }
        Ok(())
    }

    /// Keeps memory for other portions.
    fn keep(&mut self, memory: BlockMemory) {
        if !memory.is_dedicated() {
            self.spare.push(memory);
        }
    }
}

impl<S: Sink> PortionSink for InOrderSink<'_, S> {
    fn portion_bytes(&mut self) -> Result<usize, StopReason> {
        // So each portion fits into a batch.
        self.bytes = self.out.memory_bytes()?;
        Ok(self.bytes)
    }

    fn give(&mut self, memory: BlockMemory, portion: Batch) -> Result<(), StopReason> {
        let passed = self.skip_records(portion.records);
        self.give_copy(memory, portion, passed)
    }

    fn take_back(&mut self, pool: &MemoryPool) {
        for memory in self.spare.drain(..) {
            pool.give_back(memory);
        }
        for batch in self.spare_batches.drain(..) {
            pool.give_back_batch(batch);
        }
        self.lend(pool);
    }

    fn lend(&mut self, pool: &MemoryPool) {
        while let Some(memory) = self.out.sink().extra_memory() {
            pool.give_back(BlockMemory::lent(memory));
        }
    }
}

impl<S: Sink> BlockSource for InOrderSink<'_, S> {
    fn block(&mut self) -> Result<BlockMemory, StopReason> {
        Ok(self.spare.pop().unwrap_or_else(|| BlockMemory::new(self.bytes)))
    }
}

impl<S: Sink> SinkDelivery for InOrderSink<'_, S> {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        // This refuses only other fields than the first ones.
        let _ = self.out.set_schema(fields);
    }

    fn grant(&mut self, memory: BlockMemory, batch: &mut Batch) -> Result<(), StopReason> {
        self.give(memory, batch.clone())
    }

    fn has_demand(&self) -> bool {
        self.out.has_demand()
    }

    fn wants_epoch_end(&self, epoch: u32) -> bool {
        self.out.wants_epoch_end(epoch)
    }

    fn end_epoch(&mut self, epoch: u32, early: bool) -> Result<(), StopReason> {
        self.out.end_epoch(epoch, early)
    }

    fn counts(&self) -> Option<&Arc<DeliveryCounts>> {
        Some(self.out.counts())
    }
}
