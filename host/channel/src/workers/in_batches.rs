//! Gathers the portions of workers into batches of a fixed size, in their order. It plans which
//! records go into which batch, and other threads copy them there: see `fill`.

use std::collections::VecDeque;
use std::sync::Arc;

use pipemill_types::{BatchSize, Field, Tail};

use super::fill::filler::{BatchFiller, COLUMN_BYTES, COPY_BYTES, Fillers, Job};
use super::fill::portion::{Portion, Run};
use super::worker::MemoryPool;
use super::{AHEAD_BYTES, PortionSink};
use crate::batch::block_memory::BlockMemory;
use crate::batch::block_source::BlockSource;
use crate::batch::cut::{CutPoint, Fill, is_cut};
use crate::batch::{Batch, BatchStart};
use crate::sink::DeliveryCounts;
use crate::stats::monitor::Monitor;
use crate::{Sink, SinkDelivery, StopReason};

/// Bytes of a portion. The records of a decoder's last call may not fit and are copied: they should
/// be a small part of the portion.
const PORTION_BYTES: usize = 4 << 20;
/// A batch that is not full is copied in part once its portions have this many bytes.
const PART_BYTES: usize = PORTION_BYTES;

/// The batch that gets the next records.
struct OpenBatch<S: Sink> {
    start: BatchStart,
    /// Number of its records.
    records: usize,
    /// The records that no thread was asked to copy.
    runs: VecDeque<Run>,
    /// Bytes of their portions, and bytes of their values.
    portions: usize,
    values: usize,
    /// Copies the records, once the batch has memory.
    job: Option<Job<S, Run>>,
}

impl<S: Sink> Default for OpenBatch<S> {
    fn default() -> Self {
        let (start, runs, job) = Default::default();
        Self { start, records: 0, runs, portions: 0, values: 0, job }
    }
}

/// The sink of portions that become batches of a fixed size.
pub(crate) struct InBatchesSink<'s, S: Sink> {
    out: BatchFiller<'s, S, Run>,
    pool: Option<Arc<MemoryPool>>,
    open: OpenBatch<S>,
}

impl<'s, S: Sink> InBatchesSink<'s, S> {
    /// Gives batches of this size to `sink`.
    pub(crate) fn new(sink: &'s mut S, size: BatchSize, monitor: Monitor<'s>) -> Self {
        let out = BatchFiller::new(sink, size, monitor);
        Self { out, pool: None, open: OpenBatch::default() }
    }

    /// Lets the batch leave if the rule says so at this point.
    fn cut_at(&mut self, point: CutPoint) -> Result<(), StopReason> {
        let size = self.out.size();
        let fill = Fill { records: self.open.records, bytes: 0 };
        if !is_cut(fill, point, Some(size), || false) {
            return Ok(());
        }
        if size.tail == Tail::Drop && self.open.records < size.records {
            self.out.counts().dropped.add(self.open.records as u64);
            self.discard_open();
            return Ok(());
        }
        self.copy_open(true)?;
        match std::mem::take(&mut self.open).job {
            Some(job) => self.out.leave(job),
            None => Ok(()),
        }
    }

    fn discard_open(&mut self) {
        if let Some(job) = std::mem::take(&mut self.open).job {
            job.discard();
        }
    }

    /// Adds a run of records to the batch. It leaves if it is full.
    fn add(&mut self, run: Run) -> Result<(), StopReason> {
        let batch = run.portion.batch();
        if self.open.records == 0 {
            self.open.start.clone_from(&batch.start);
            self.open.start.position.advance(run.records.start as u64);
        }
        self.open.records += run.records.len();
        self.open.portions += run.portion.bytes();
        self.open.values += run.likely_bytes();
        self.open.runs.push_back(run);
        self.cut_at(CutPoint::Decoded)
    }

    /// Has the records copied that the batch has so far. Of a batch that is not complete, nothing
    /// is copied if there is no memory while others are filled.
    fn copy_open(&mut self, is_complete: bool) -> Result<(), StopReason> {
        self.out.count_index(self.open.records, is_complete)?;
        let job = match self.open.job.take() {
            Some(job) => job,
            None => {
                let records = is_complete.then_some(self.open.records);
                match self.out.begin(&self.open.start, records)? {
                    Some(job) => job,
                    None => return Ok(()),
                }
            }
        };
        let OpenBatch { runs, values, .. } = &mut self.open;
        let is_short = |fillers: &Fillers| fillers.copies.is_short(*values);
        let is_short = is_complete && self.out.fillers().is_none_or(is_short);
        job.add(runs, is_complete, is_short);
        (self.open.job, self.open.portions, self.open.values) = (Some(job), 0, 0);
        Ok(())
    }

    /// Waits until the portions that wait to be copied take no more memory than allowed.
    fn limit_portions(&mut self) -> Result<(), StopReason> {
        if self.open.portions >= PART_BYTES {
            self.copy_open(false)?;
        }
        while self.holds_too_much() {
            if self.out.is_filling() {
                self.out.finish_first()?;
                continue;
            }
            self.copy_open(false)?;
            return match self.open.job.clone() {
                Some(job) => self.out.wait_for(&job),
                None => Ok(()),
            };
        }
        Ok(())
    }

    fn holds_too_much(&self) -> bool {
        let is_too_much = |fillers: &Fillers| fillers.copies.held() > fillers.workers * COPY_BYTES;
        self.out.fillers().is_some_and(is_too_much)
    }
}

impl<S: Sink> PortionSink for InBatchesSink<'_, S> {
    const AHEAD_BYTES: usize = AHEAD_BYTES - COPY_BYTES - COLUMN_BYTES;
    const HAS_COPIER: bool = true;
    const SHOWS_PORTIONS: bool = true;

    fn portion_bytes(&mut self) -> Result<usize, StopReason> {
        Ok(PORTION_BYTES)
    }

    fn begin(&mut self, fillers: Fillers, pool: &Arc<MemoryPool>) {
        self.out.fill_by(fillers);
        self.pool = Some(pool.clone());
    }

    fn give(&mut self, memory: BlockMemory, portion: Batch) -> Result<(), StopReason> {
        let (Some(Fillers { copies, .. }), Some(pool)) = (self.out.fillers(), &self.pool) else {
            return Ok(());
        };
        let portion = Portion::new(memory, portion, copies.clone(), pool.clone());
        let records = portion.batch().records;
        let mut from = self.out.counts().to_skip.take(records as u64) as usize;
        while from < records {
            let missing = self.out.size().records - self.open.records;
            let to = records.min(from + missing);
            self.add(Run { portion: portion.clone(), records: from..to })?;
            from = to;
        }
        drop(portion);
        self.limit_portions()
    }

    fn progress(&mut self) -> Result<(), StopReason> {
        self.out.grant_full()
    }

    fn object_ended(&mut self) -> Result<(), StopReason> {
        self.cut_at(CutPoint::ObjectEnd)
    }
}

/// Portions have memory of their own.
impl<S: Sink> BlockSource for InBatchesSink<'_, S> {
    fn block(&mut self) -> Result<BlockMemory, StopReason> {
        Ok(BlockMemory::new(PORTION_BYTES))
    }
}

impl<S: Sink> SinkDelivery for InBatchesSink<'_, S> {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.out.set_schema(fields);
    }

    fn grant(&mut self, memory: BlockMemory, batch: &mut Batch) -> Result<(), StopReason> {
        self.give(memory, batch.clone())
    }

    fn has_demand(&self) -> bool {
        self.out.sink_ref().has_demand()
    }

    fn wants_epoch_end(&self, epoch: u32) -> bool {
        self.out.sink_ref().wants_epoch_end(epoch)
    }

    fn end_epoch(&mut self, epoch: u32, early: bool) -> Result<(), StopReason> {
        if early {
            self.discard_open();
        } else {
            self.cut_at(CutPoint::EpochEnd)?;
        }
        self.out.end_epoch(epoch, early)
    }

    fn counts(&self) -> Option<&Arc<DeliveryCounts>> {
        Some(self.out.counts())
    }

    fn finish(&mut self) -> Result<(), StopReason> {
        self.out.finish()
    }
}
