//! The memory of batches of a fixed size, and their order: any thread fills them, and they are
//! handed over in the order in which they were planned.

use std::collections::VecDeque;
use std::sync::Arc;

use pipemill_types::{BatchSize, Column, Field, Tail, TakenMemory};

use super::job::{BatchJob, CopiedRecords, Filled, Filling, Found, Layout};
use super::queue::CopyQueue;
use crate::batch::copy::dense::row_sizes;
use crate::batch::large_batches::LargeBatches;
use crate::batch::{Batch, BatchStart};
use crate::sink::DeliveryCounts;
use crate::stats::monitor::Monitor;
use crate::stats::stage_timer::Activity;
use crate::{Sink, SinkMemory, StopReason};

/// Bytes of records that wait only to be copied, for each worker.
pub(crate) const COPY_BYTES: usize = 16 << 20;
/// Bytes of the columns of batches that are filled concurrently with the next one, for each worker.
pub(in crate::workers) const COLUMN_BYTES: usize = 4 << 20;
/// Bytes of index for each value: vectors may have twice the capacity, and the index is also
/// written into the batch.
const VALUE_BYTES: usize = 24;
/// Batches that are filled concurrently with the next one, at most.
const MAX_FILLING: usize = 64;
/// The index of a batch is counted from this many bytes on, and in steps of them.
const FREE_INDEX: u64 = 1 << 20;

/// A batch of the sink `S`, of the records `R`.
pub(crate) type Job<S, R> = Arc<BatchJob<<S as SinkMemory>::Memory, R>>;

/// The threads that fill batches.
#[derive(Clone)]
pub(crate) struct Fillers {
    /// The queue from which they take batches.
    pub(crate) copies: Arc<CopyQueue>,
    /// How many workers are among them.
    pub(crate) workers: usize,
}

/// Has batches of a fixed size filled by other threads, and hands them over.
pub(crate) struct BatchFiller<'s, S: Sink, R> {
    sink: &'s mut S,
    /// The monitor of the thread that plans.
    monitor: Monitor<'s>,
    layout: Layout,
    /// `None`: the thread that plans also fills the batches.
    fillers: Option<Fillers>,
    /// Batches that have all their records, in their order.
    filling: VecDeque<Job<S, R>>,
    /// Columns whose memory is used again.
    spare: Vec<Vec<Column>>,
    large: LargeBatches,
    /// The index of a batch, in the channel's budget.
    index_taken: Option<TakenMemory>,
    /// Bytes of index that a batch may have without being counted again.
    index_bytes: u64,
    counts: Arc<DeliveryCounts>,
}

impl<'s, S: Sink, R: CopiedRecords> BatchFiller<'s, S, R> {
    /// Gives batches of this size to `sink`.
    pub(crate) fn new(sink: &'s mut S, size: BatchSize, monitor: Monitor<'s>) -> Self {
        Self {
            sink,
            monitor,
            layout: Layout { size, row_sizes: Arc::default() },
            fillers: None,
            filling: VecDeque::new(),
            spare: Vec::new(),
            large: LargeBatches::default(),
            index_taken: None,
            index_bytes: FREE_INDEX,
            counts: Arc::default(),
        }
    }

    /// From now on, these threads fill the batches.
    pub(crate) fn fill_by(&mut self, fillers: Fillers) {
        self.fillers = Some(fillers);
    }

    /// The threads that fill batches, if there are any.
    pub(crate) fn fillers(&self) -> Option<&Fillers> {
        self.fillers.as_ref()
    }

    /// Takes the fields of all records.
    pub(crate) fn set_schema(&mut self, fields: &Arc<[Field]>) {
        self.layout.row_sizes = row_sizes(fields).into();
        self.sink.schema(fields);
    }

    pub(crate) fn size(&self) -> BatchSize {
        self.layout.size
    }

    pub(crate) fn sink(&mut self) -> &mut S {
        self.sink
    }

    pub(crate) fn sink_ref(&self) -> &S {
        self.sink
    }

    pub(crate) fn counts(&self) -> &Arc<DeliveryCounts> {
        &self.counts
    }

    /// Whether batches are being filled.
    pub(crate) fn is_filling(&self) -> bool {
        !self.filling.is_empty()
    }

    fn fields(&self) -> usize {
        self.layout.row_sizes.len()
    }

    /// Batches that are filled concurrently with the next one, at most.
    fn most_filling(&self) -> usize {
        let workers = self.fillers.as_ref().map_or(0, |fillers| fillers.workers);
        let columns = VALUE_BYTES * self.size().records.saturating_mul(self.fields().max(1));
        (workers * COLUMN_BYTES / columns.max(1)).min(MAX_FILLING)
    }

    /// Begins a batch at `start`, with `records` records if that is known. If it is not known, this
    /// does not wait for memory while others are filled, and returns `None`.
    pub(crate) fn begin(
        &mut self,
        start: &BatchStart,
        records: Option<usize>,
    ) -> Result<Option<Job<S, R>>, StopReason> {
        let size = self.size();
        let is_padded = size.tail == Tail::Pad;
        let most = records.filter(|_| !is_padded).unwrap_or(size.records);
        let Some((memory, is_dedicated)) = self.memory(records.is_some())? else { return Ok(None) };
        let columns = self.spare.pop().unwrap_or_default();
        let mut batch = Batch { start: start.clone(), columns, ..Batch::default() };
        batch.restart();
        batch.columns.resize_with(self.fields(), Default::default);
        let room = self.room(&memory, most, &batch);
        let filling = Filling { memory, is_dedicated, room, batch };
        let queue = self.fillers.as_ref().map(|fillers| fillers.copies.clone());
        Ok(Some(BatchJob::new(filling, self.layout.clone(), queue)))
    }

    /// Memory for a batch, and whether it is a dedicated buffer.
    fn memory(&mut self, waits: bool) -> Result<Option<(S::Memory, bool)>, StopReason> {
        let fields = self.fields().max(1);
        loop {
            if let Some(free) = self.free_memory(fields) {
                return Ok(Some(free));
            }
            if self.filling.is_empty() {
                return Ok(Some(match self.large.next_bytes() {
                    None => (self.sink.memory()?, false),
                    Some(bytes) => (self.sink.memory_about(bytes, fields)?, true),
                }));
            }
            if !waits {
                return Ok(None);
            }
            self.finish_first()?;
        }
    }

    /// As [`memory`](Self::memory), of what is free now. There are few dedicated buffers: a batch
    /// gets one ahead of its turn only if all batches before it have theirs. So these can always
    /// be filled and leave.
    fn free_memory(&mut self, fields: usize) -> Option<(S::Memory, bool)> {
        let Some(bytes) = self.large.next_bytes() else {
            return self.sink.free_memory().map(|slot| (slot, false));
        };
        let is_ahead = !self.filling.is_empty();
        let takes = is_ahead && self.filling.iter().all(|job| job.is_dedicated());
        let free = takes.then(|| self.sink.free_dedicated_memory(bytes, fields)).flatten();
        free.map(|buffer| (buffer, true))
    }

    /// Bytes that the values may take; `None` if not even the index fits.
    fn room(&self, memory: &S::Memory, records: usize, batch: &Batch) -> Option<usize> {
        self.sink.room(memory, records, self.fields(), batch.start.facts())
    }

    /// Counts the index of a batch of this many records, to be called before they are copied.
    /// `is_complete`: no more come.
    pub(crate) fn count_index(
        &mut self,
        records: usize,
        is_complete: bool,
    ) -> Result<(), StopReason> {
        let BatchSize { records: most, tail, .. } = self.size();
        let records = if is_complete && tail == Tail::Pad { most } else { records };
        let bytes = VALUE_BYTES as u64 * records as u64 * self.fields() as u64;
        if bytes > self.index_bytes {
            // Rarely more than before, because the steps are large.
            let bytes = bytes.next_multiple_of(FREE_INDEX);
            self.sink.take_memory(&mut self.index_taken, bytes)?;
            self.index_bytes = bytes;
        }
        Ok(())
    }

    /// The batch has all its records: it leaves when it is filled.
    pub(crate) fn leave(&mut self, job: Job<S, R>) -> Result<(), StopReason> {
        self.filling.push_back(job);
        while self.filling.len() > self.most_filling() {
            self.finish_first()?;
        }
        self.grant_full()
    }

    /// Does this thread's part of the work on a batch. Returns the batch when it is full.
    fn serve(
        &mut self,
        job: &Job<S, R>,
        found: Found<S::Memory>,
    ) -> Result<Option<Filled<S::Memory>>, StopReason> {
        match found {
            Found::Idle | Found::Busy => Ok(None),
            Found::Full(filled) => Ok(Some(filled)),
            Found::NoRoom(filling, payload) => {
                let filling = self.enlarge(filling, payload)?;
                job.go_on(filling);
                Ok(None)
            }
            // Its thread has panicked. The panic continues where the thread is joined.
            Found::Gone => Err(StopReason::Stopped),
        }
    }

    /// Gives a batch memory for this many bytes of values.
    fn enlarge(
        &mut self,
        mut filling: Filling<S::Memory>,
        payload: usize,
    ) -> Result<Filling<S::Memory>, StopReason> {
        let fields = self.fields().max(1);
        let bytes = payload + 8 * filling.batch.records * fields;
        if filling.is_dedicated {
            self.sink.grow(&mut filling.memory, bytes)?;
        } else {
            let mut memory = self.sink.dedicated_memory(bytes, fields)?;
            self.large.left_slot(filling.memory.as_ref().len());
            let used = filling.batch.payload;
            memory.as_mut()[..used].copy_from_slice(&filling.memory.as_ref()[..used]);
            (filling.memory, filling.is_dedicated) = (memory, true);
        }
        // A dedicated buffer grows for its index.
        filling.room = Some(filling.memory.as_ref().len());
        Ok(filling)
    }

    /// Waits until no thread has to do anything for a batch.
    fn wait(&self, job: &Job<S, R>) -> Found<S::Memory> {
        if self.fillers.is_some() {
            self.monitor.enter(Activity::Workers);
        }
        let found = job.wait();
        self.monitor.enter(Activity::Batch);
        found
    }

    /// Waits until all records of a batch that is not complete were copied.
    pub(crate) fn wait_for(&mut self, job: &Job<S, R>) -> Result<(), StopReason> {
        loop {
            match self.wait(job) {
                Found::Idle => return Ok(()),
                found => drop(self.serve(job, found)?),
            }
        }
    }

    /// Waits for the first batch that is filled, and hands it over.
    pub(crate) fn finish_first(&mut self) -> Result<(), StopReason> {
        while let Some(job) = self.filling.front().cloned() {
            let found = self.wait(&job);
            if let Some(filled) = self.serve(&job, found)? {
                return self.grant_first(filled);
            }
        }
        Ok(())
    }

    /// Hands over the batches that are full, up to the first one that is not.
    pub(crate) fn grant_full(&mut self) -> Result<(), StopReason> {
        while let Some(job) = self.filling.front().cloned() {
            let found = job.look();
            match self.serve(&job, found)? {
                Some(filled) => self.grant_first(filled)?,
                None => break,
            }
        }
        Ok(())
    }

    fn grant_first(&mut self, filled: Filled<S::Memory>) -> Result<(), StopReason> {
        self.filling.pop_front();
        let Filled { memory, is_dedicated, mut batch, columns } = filled;
        if is_dedicated {
            self.large.used(batch.payload + 8 * batch.records * self.fields());
        }
        self.sink.grant(memory, &mut batch)?;
        self.counts.granted.add(1);
        if self.spare.len() <= self.filling.len() {
            self.spare.push(columns.unwrap_or(batch.columns));
        }
        Ok(())
    }

    /// Waits until all batches are filled, and hands them over.
    pub(crate) fn finish(&mut self) -> Result<(), StopReason> {
        while self.is_filling() {
            self.finish_first()?;
        }
        Ok(())
    }

    /// Ends an epoch. If it ends early, nobody wants the batches that are being filled.
    pub(crate) fn end_epoch(&mut self, epoch: u32, early: bool) -> Result<(), StopReason> {
        if early {
            self.filling.drain(..).for_each(|job| job.discard());
        } else {
            self.finish()?;
        }
        self.sink.end_epoch(epoch, early)
    }
}
