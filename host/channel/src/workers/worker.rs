//! A worker: decodes one object after the other, each with a stream of its own, and hands over
//! portions of its records.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use pipemill_decode::InputPieces;
use pipemill_types::{BatchMemory, Column, Field, VIEW_BYTES};

use super::ahead_limiter::AheadLimiter;
use super::fill::queue::CopyQueue;
use super::header_and_rest::HeaderAndRest;
use super::job::{Ended, Job, WorkerOutput};
use super::job_queue::JobQueue;
use super::search::{find_start, inside};
use super::sections::SectionPart;
use crate::batch::Batch;
use crate::batch::block_memory::BlockMemory;
use crate::batch::block_source::BlockSource;
use crate::batch::builder::{BatchBuilder, KeptInput};
use crate::batch::cut::CutPoint;
use crate::batch::writer::BatchWriter;
use crate::errors::policy::SkippedError;
use crate::pump::decode_loop::max_chunk;
use crate::pump::object::{Begin, Decoder, Decoding, Reading};
use crate::pump::section_end::SectionEnd;
use crate::stats::monitor::Monitor;
use crate::stats::stage_timer::Activity;
use crate::stats::timed_sink::TimedSink;
use crate::{ChannelStats, ErrorPolicy, SinkDelivery, StopReason};

/// Bytes of a portion that its name and its index need at least, without those of its records.
const INDEX_BYTES: usize = 4 << 10;

/// A portion of at most this many bytes, with its index, is copied: that takes less time than to
/// use memory that is in no core's cache.
const SHORT_PORTION: usize = 128 << 10;
/// Least number of bytes that are counted for a portion that waits.
const MIN_PORTION: usize = 1 << 10;

/// Parts that a worker keeps from one job to the next.
struct Kept<'a> {
    decoder: Decoder<'a>,
    /// Columns whose memory is used again.
    columns: Vec<Column>,
    input: KeptInput,
}

/// Memory that is used again and again.
pub(crate) struct MemoryPool {
    /// Lent memory is at the end: it is used first.
    spare: Mutex<VecDeque<BlockMemory>>,
    /// Batches whose columns have memory.
    batches: Mutex<Vec<Batch>>,
    /// Bytes of each piece.
    bytes: usize,
    /// Upper limit of the pieces that are kept.
    most: usize,
    /// Pieces that a decoder's window shows.
    shown: Option<InputPieces>,
}

impl MemoryPool {
    pub(super) fn new(bytes: usize, most: usize) -> Self {
        Self { spare: Mutex::default(), batches: Mutex::default(), bytes, most, shown: None }
    }

    /// A pool whose first `shown` pieces are shown in the windows of decoders.
    pub(super) fn with_shown(self, shown: usize) -> Self {
        let shown = InputPieces::new(shown, self.bytes);
        let shown = shown.inspect_err(|error| log::debug!("portions are copied: {error}")).ok();
        Self { shown, ..self }
    }

    fn take(&self) -> BlockMemory {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop_back();
        let shown = || self.shown.as_ref()?.next().map(BlockMemory::lent);
        spare.or_else(shown).unwrap_or_else(|| BlockMemory::new(self.bytes))
    }

    pub(super) fn give_back(&self, memory: BlockMemory) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.is_lent() {
            spare.push_back(memory);
        } else if spare.len() < self.most {
            let own = spare.partition_point(|memory| !memory.is_lent());
            spare.insert(own, memory);
        }
    }
}

impl MemoryPool {
    /// A batch without records that takes the place of this one. Its columns have memory, if there
    /// is some.
    fn batch_after(&self, batch: &Batch) -> Batch {
        let spare = self.batches.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut next = spare.unwrap_or_default();
        next.restart();
        next.start.position.epoch = batch.epoch();
        next.columns.resize_with(batch.columns.len(), Default::default);
        next
    }

    /// Keeps the memory of a batch's columns.
    pub(super) fn give_back_batch(&self, batch: Batch) {
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        if batches.len() < self.most {
            batches.push(batch);
        }
    }
}

/// The state of a worker's thread.
pub(super) struct Worker<'a> {
    pub(super) decoding: Decoding<'a>,
    pub(super) limiter: &'a Arc<AheadLimiter>,
    pub(super) jobs: &'a JobQueue,
    pub(super) copies: &'a Arc<CopyQueue>,
    pub(super) memory: &'a MemoryPool,
    /// How errors are handled.
    pub(super) policy: ErrorPolicy,
    pub(super) stats: Arc<ChannelStats>,
    /// Bytes of a section, in which its worker looks for the start of a record.
    pub(super) section_bytes: usize,
}

impl Worker<'_> {
    /// Does jobs until no more come.
    pub(super) fn work(&self) {
        // If this panics, nobody waits for its result.
        let end = self.limiter.end_at_drop();
        let mut kept = Kept {
            decoder: Decoder::new(self.decoding),
            columns: Vec::new(),
            input: KeptInput::new(max_chunk(self.decoding.max_record)),
        };
        let monitor = Monitor::new(&self.stats, &[]);
        while let Some(mut job) = self.jobs.next(self.copies, monitor) {
            // Only this thread sets it.
            let _ = job.worker.set(self.stats.clone());
            let ended = match job.section.take() {
                None => self.decode(&mut job, None, &mut kept),
                Some(part) => {
                    let ended = self.decode_section(&mut job, &part, &mut kept);
                    part.finish();
                    ended
                }
            };
            // The receiver may be gone.
            let _ = job.deliveries.send(WorkerOutput::Ended(ended));
            self.limiter.tell_of(job.number);
            self.limiter.end_decoding();
            // The wait for another job is a wait for the channel's thread.
            monitor.enter(Activity::Consumer);
        }
        std::mem::forget(end);
        self.stats.stop();
    }

    /// Looks for the section's first record, and decodes from there on.
    fn decode_section(&self, job: &mut Job, part: &SectionPart, kept: &mut Kept<'_>) -> Ended {
        let stopped = Ended { result: Err(StopReason::Stopped), records: 0, next: None };
        if !part.is_first() {
            let Some(from) = part.search() else { return stopped };
            Monitor::new(&self.stats, &[]).enter(Activity::Decoder);
            let schema = job.begin.schema.take().map(|(_, fields)| fields);
            let found = if part.is_told(from) {
                Some(from)
            } else {
                let (decoder, schema) = (&mut kept.decoder, schema.as_deref());
                find_start(decoder, &job.object, part, from, schema, self.section_bytes)
                    .unwrap_or(None)
            };
            part.found(found);
            let Some(start) = found else { return stopped };
            let header = part.header.len() as u32;
            job.begin = Begin::new(Some(inside(header, start, schema)), None);
        }
        let input = HeaderAndRest::new(part.header.clone(), Box::new(part.input()));
        job.object.input = Box::new(input);
        let mut end = part.end();
        let ended = self.decode(job, Some(&mut end), kept);
        Ended { next: end.next, ..ended }
    }

    /// Decodes an object, or a section of it.
    fn decode(
        &self,
        job: &mut Job,
        section: Option<&mut (dyn SectionEnd + 'static)>,
        kept: &mut Kept<'_>,
    ) -> Ended {
        let mut policy = self.policy.of_worker(self.forward_errors(job));
        let monitor = Monitor::new(&self.stats, &[]);
        let mut sink = PortionOutput {
            object: job.number,
            epoch: job.object.epoch,
            deliveries: &job.deliveries,
            limiter: self.limiter,
            copies: self.copies,
            monitor,
            memory: self.memory,
        };
        let mut sink = TimedSink::new(&mut sink, monitor, Activity::Consumer);
        let mut writer = BatchWriter::new(&mut sink, None);
        writer.swap_columns(&mut kept.columns);
        if let Some(fields) = &job.fields {
            writer.expect_schema(fields);
        }
        let mut builder = BatchBuilder::new(&mut writer, &mut kept.input);
        builder.begin_object(&job.object);
        monitor.enter(Activity::Decoder);
        let mut result = kept.decoder.decode(
            &mut job.object,
            &job.begin,
            section.map_or(Reading::Input, Reading::Section),
            &mut builder,
            &mut policy,
            monitor,
        );
        let records = builder.records();
        if matches!(result, Err(StopReason::Failed(_)))
            // Records decoded before the failure are good.
            && let Err(stopped) = writer.cut_at(CutPoint::Failed)
        {
            result = Err(stopped);
        }
        if let Some(memory) = writer.take_memory().filter(|memory| !memory.is_dedicated()) {
            self.memory.give_back(memory);
        }
        writer.swap_columns(&mut kept.columns);
        Ended { result, records, next: None }
    }

    /// Hands over the errors of an object. Waits while the output that waits takes too much memory.
    fn forward_errors(&self, job: &Job) -> impl FnMut(SkippedError) + Send + 'static + use<> {
        let (object, epoch, errors) = (job.number, job.object.epoch, job.deliveries.clone());
        let (limiter, copies) = (self.limiter.clone(), self.copies.clone());
        let stats = self.stats.clone();
        move |error| {
            let run_copy = || copies.run_taken(Monitor::new(&stats, &[]));
            // If nobody wants them, the worker sees it when it continues.
            if limiter.hold(object, epoch, error.bytes(), run_copy).is_ok() {
                let _ = errors.send(WorkerOutput::Skipped(error));
                limiter.tell_of(object);
            }
        }
    }
}

/// The sink of a worker's batch builder: each batch is a portion.
struct PortionOutput<'a> {
    object: u64,
    epoch: u32,
    deliveries: &'a Sender<WorkerOutput>,
    limiter: &'a AheadLimiter,
    copies: &'a CopyQueue,
    /// The monitor of the worker.
    monitor: Monitor<'a>,
    memory: &'a MemoryPool,
}

impl PortionOutput<'_> {
    fn check_wanted(&self) -> Result<(), StopReason> {
        if self.limiter.is_unwanted(self.object, self.epoch) {
            return Err(StopReason::Stopped);
        }
        Ok(())
    }

    /// The memory of this batch. Few bytes are copied to memory of their size. So the worker uses
    /// the other memory again at once, and a portion that waits holds no more memory than it needs.
    fn short_copy(&self, memory: BlockMemory, batch: &Batch) -> BlockMemory {
        let bytes = batch.payload + 8 * batch.records * batch.columns.len();
        if memory.is_dedicated() || bytes > SHORT_PORTION {
            return memory;
        }
        let mut copy = BlockMemory::dedicated(bytes.max(MIN_PORTION));
        copy.as_mut()[..batch.payload].copy_from_slice(&memory.as_ref()[..batch.payload]);
        self.memory.give_back(memory);
        copy
    }
}

impl BlockSource for PortionOutput<'_> {
    fn block(&mut self) -> Result<BlockMemory, StopReason> {
        self.check_wanted()?;
        Ok(self.memory.take())
    }

    fn dedicated_block(&mut self, payload: usize) -> Result<BlockMemory, StopReason> {
        self.check_wanted()?;
        Ok(BlockMemory::dedicated(payload))
    }

    fn room_of(
        &self,
        memory: &BlockMemory,
        records: usize,
        fields: usize,
        texts: usize,
    ) -> Option<usize> {
        let size = memory.as_ref().len();
        if memory.is_dedicated() {
            return Some(size);
        }
        // A portion that has room for its index fits into a batch of the same size.
        let views = memory.wanted_views();
        let columns =
            records.saturating_mul(8 * fields + VIEW_BYTES * views) + 128 * fields + 64 * views;
        size.checked_sub(columns + texts + INDEX_BYTES)
    }
}

impl SinkDelivery for PortionOutput<'_> {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.limiter.know_fields(fields);
        let _ = self.deliveries.send(WorkerOutput::Fields(fields.clone()));
    }

    fn grant(&mut self, memory: BlockMemory, batch: &mut Batch) -> Result<(), StopReason> {
        let mut memory = self.short_copy(memory, batch);
        let portion = batch.with_written_index(&mut memory).unwrap_or_else(|| {
            let next = self.memory.batch_after(batch);
            std::mem::replace(batch, next)
        });
        let run_copy = || self.copies.run_taken(self.monitor);
        self.limiter.hold(self.object, self.epoch, memory.as_ref().len(), run_copy)?;
        let delivery = WorkerOutput::Records(memory, portion);
        // Fails if nobody takes the records of this object any more.
        let sent = self.deliveries.send(delivery).map_err(|_| StopReason::Stopped);
        self.limiter.tell_of(self.object);
        sent?;
        self.copies.run_waiting(self.monitor);
        Ok(())
    }

    fn has_demand(&self) -> bool {
        // A portion that has to wait may as well fill its memory.
        self.limiter.is_due(self.object)
    }

    fn wants_epoch_end(&self, epoch: u32) -> bool {
        self.limiter.is_unwanted(self.object, epoch)
    }

    fn end_epoch(&mut self, _: u32, _: bool) -> Result<(), StopReason> {
        // An object has no end of an epoch.
        Ok(())
    }
}
