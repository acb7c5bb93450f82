//! Records of a worker that are copied to batches: their memory is given back after the last copy.

use std::ops::Range;
use std::sync::Arc;

use super::job::CopiedRecords;
use super::queue::CopyQueue;
use crate::batch::Batch;
use crate::batch::block_memory::BlockMemory;
use crate::batch::copy::run::CopiedRun;
use crate::workers::worker::MemoryPool;

/// A portion of a worker. It counts in the queue of copies until it is dropped.
pub(in crate::workers) struct Portion {
    /// `None` only while it is dropped.
    memory: Option<BlockMemory>,
    batch: Batch,
    bytes: usize,
    queue: Arc<CopyQueue>,
    pool: Arc<MemoryPool>,
}

impl Portion {
    pub(in crate::workers) fn new(
        memory: BlockMemory,
        batch: Batch,
        queue: Arc<CopyQueue>,
        pool: Arc<MemoryPool>,
    ) -> Arc<Self> {
        let bytes = memory.as_ref().len();
        queue.hold(bytes);
        Arc::new(Self { memory: Some(memory), batch, bytes, queue, pool })
    }

    /// Bytes of its memory.
    pub(in crate::workers) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(in crate::workers) fn batch(&self) -> &Batch {
        &self.batch
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        self.queue.release(self.bytes);
        if let Some(memory) = self.memory.take().filter(|memory| !memory.is_dedicated()) {
            self.pool.give_back(memory);
        }
        self.pool.give_back_batch(std::mem::take(&mut self.batch));
    }
}

/// Records of a portion that follow each other, and go into one batch.
pub(in crate::workers) struct Run {
    pub(in crate::workers) portion: Arc<Portion>,
    pub(in crate::workers) records: Range<usize>,
}

impl Run {
    /// The copy, with the place of its values.
    fn copied(&self) -> CopiedRun<'_> {
        let memory = self.portion.memory.as_ref().map_or(&[][..], AsRef::as_ref);
        CopiedRun::new(&self.portion.batch, memory, self.records.clone())
    }

    /// Its share of the portion's bytes, if all records have the same size.
    pub(in crate::workers) fn likely_bytes(&self) -> usize {
        let Batch { payload, records, .. } = self.portion.batch;
        (payload as u64 * self.records.len() as u64 / records.max(1) as u64) as usize
    }
}

impl CopiedRecords for Run {
    fn append_to(
        &self,
        batch: &mut Batch,
        memory: &mut [u8],
        room: usize,
        _: &[Option<usize>],
    ) -> Result<usize, usize> {
        let copied = self.copied();
        let bytes = copied.payload();
        if batch.payload + bytes > room {
            return Err(batch.payload + bytes);
        }
        copied.append_to(batch, memory);
        Ok(bytes)
    }

    fn payload(&self) -> usize {
        self.copied().payload()
    }
}
