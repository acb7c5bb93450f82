//! Workers: threads that decode the objects of a channel concurrently. The records leave as with
//! one thread: in the same order, or in the order in which objects get ready.
//!
//! **Way**: the planner (`plan`) takes the source's objects in order and gives each one to the next
//! worker that is free. A worker (`worker`) decodes its object with a stream of its own, into
//! memory of its own. The channel's thread takes the workers' output (`sequence`): object by object
//! in the order of the source, or from any object that has some. It copies the records to batches
//! of the sink (`in_order`) or hands them to a shuffle's window. If batches have a fixed size, it
//! only plans which records go into which batch (`in_batches`), and other threads fill them
//! (`fill`).
//!
//! **Sections**: a long object is divided (`sections`): the planner reads it, and workers look for
//! the start of a record in their sections (`search`). All others handle a section as an object of
//! its own that begins where another one has ended.
//!
//! **Memory**: without a fixed number of records, a portion may lie in memory of the sink and leave
//! as a batch without a copy. The sink lends workers extra memory. The memory of the next batch is
//! separate, so workers never take it. When the extra memory runs out, a worker uses its own
//! buffer, and the records are copied.
//!
//! **AheadLimiter**: in strict order one object is current: the first that was not taken to its
//! end. In any order each object that is being taken is current, but not its later sections.
//! Workers of other objects wait once all of them together hold [`AHEAD_BYTES`] for each worker
//! (`ahead_limiter`), or less while the channel's thread is busy. The worker of the current object
//! waits only while there is output of its object to take. So each worker that waits is waiting for
//! the consumers, or for an earlier object or section. These chains end at the consumers. Copies
//! don't wait for anything.
//!
//! **Fields**: decoders are told the fields of earlier objects. So until an object has declared its
//! fields, one object is decoded at a time.
//!
//! **Errors** that are skipped go to the channel's thread, each with the number of the record that
//! follows it. The channel's policy decides there, in order.
//!
//! - `ahead_limiter`: decides which objects are current and how far workers of others may be ahead,
//!   and wakes threads.
//! - `header_and_rest`: the header of an object before a later part of it.
//! - `job`: an object, or a section of one, that a worker decodes, and the worker's output.
//! - `job_queue`: the jobs that wait for a worker.
//! - `skipped_records`: removes the records that an index skips from the sections of an object.

mod ahead_limiter;
pub(super) mod fill;
mod header_and_rest;
mod in_batches;
mod in_order;
mod job;
mod job_queue;
mod plan;
mod search;
mod sections;
mod sequence;
mod skipped_records;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{channel, sync_channel};
use std::thread;

use pipemill_types::{ErrorKind, Fault, Field};

use self::ahead_limiter::{AheadLimit, AheadLimiter};
use self::fill::filler::Fillers;
pub use self::fill::queue::CopiedBytes;
use self::fill::queue::{CopyQueue, SHORT_COPY};
pub(super) use self::in_batches::InBatchesSink;
pub(super) use self::in_order::{InOrderSink, PortionSink};
use self::job_queue::JobQueue;
use self::plan::{LONG_SECTION, Planner};
use self::sequence::Sequencer;
use self::worker::{MemoryPool, Worker};
use crate::batch::writer::BatchWriter;
use crate::run_context::RunContext;
use crate::stats::monitor::Monitor;
use crate::{ChannelStats, Resume, StopReason};

/// Bytes of objects that are not current, for each worker.
pub(super) const AHEAD_BYTES: usize = 64 << 20;
/// The same limit while the channel's thread is busy.
const AHEAD_WHILE_BUSY: usize = 8 << 20;
/// Bytes of a short section: of a part of an object that a worker of its own decodes. A multiple of
/// the block sizes of formats.
const SECTION_BYTES: usize = 4 << 20;
/// Upper limit of queued objects. Each of them has a portion of memory or none.
const MAX_PLANNED: usize = 1_024;

/// Bytes of portions that decoders are shown, for each worker, and for all of them: each decoder
/// sets as much of its addresses aside.
const SHOWN_BYTES: usize = 32 << 20;
const MAX_SHOWN_BYTES: usize = 256 << 20;

/// Objects that are taken at the same time in any order, for each worker. An object without a
/// worker is fully decoded: its records are queued.
const OPEN_OBJECTS: usize = 2;

/// The order in which the records of several objects leave. Those of one object keep theirs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordOrder {
    /// The order of the source, as with one worker.
    #[default]
    Strict,
    /// The order in which they get ready. A position in it does not tell which records came before.
    Any,
}

/// The workers of a channel.
pub struct Workers {
    /// The statistics of each of them.
    stats: Vec<Arc<ChannelStats>>,
    order: RecordOrder,
    /// Bytes of a short section of an object.
    section_bytes: usize,
    /// The channel's thread makes a copy of fewer bytes to a batch itself.
    short_copy: usize,
    copied: Arc<CopiedBytes>,
}

impl Workers {
    /// Objects that have more stored bytes than this are divided among several workers.
    pub const LONG_OBJECT: u64 = 2 * SECTION_BYTES as u64;

    /// Makes `count` workers, 1 or more. One worker is the channel's thread itself.
    pub fn new(count: usize) -> Self {
        let stats = (0..count.max(1)).map(|_| Arc::default()).collect();
        let (order, copied) = Default::default();
        Self { stats, order, section_bytes: SECTION_BYTES, short_copy: SHORT_COPY, copied }
    }

    /// These workers, with this order. A shuffle's window needs [`RecordOrder::Strict`], and so do
    /// batches of one object each.
    pub fn in_order(self, order: RecordOrder) -> Self {
        Self { order, ..self }
    }

    /// These workers, with sections of this many bytes, 1 or more.
    #[doc(hidden)]
    pub fn with_section_bytes(self, section_bytes: usize) -> Self {
        Self { section_bytes, ..self }
    }

    /// Largest number of bytes that this many workers hold, without their decoders, if records are
    /// not larger than usual: records, and the bytes of an object that is divided.
    pub fn bytes(count: usize) -> u64 {
        let sections = (count + 1) * LONG_SECTION * SECTION_BYTES;
        if count > 1 { (count * AHEAD_BYTES + sections) as u64 } else { 0 }
    }

    /// Largest number of bytes of the portions of batches of a fixed size that decoders are shown.
    pub fn shown_bytes(count: usize) -> u64 {
        if count > 1 { (count * SHOWN_BYTES).min(MAX_SHOWN_BYTES) as u64 } else { 0 }
    }

    /// These workers. The channel's thread makes a copy of fewer bytes to a batch itself.
    #[doc(hidden)]
    pub fn with_short_copy(self, short_copy: usize) -> Self {
        Self { short_copy, ..self }
    }

    /// The bytes that they and the channel's thread copy to batches of a fixed size.
    #[doc(hidden)]
    pub fn copied(&self) -> &Arc<CopiedBytes> {
        &self.copied
    }

    /// Number of them.
    pub fn count(&self) -> usize {
        self.stats.len()
    }
}

/// Number of portions of this size that decoders are shown.
fn shown_portions(workers: usize, portion_bytes: usize) -> usize {
    Workers::shown_bytes(workers) as usize / portion_bytes
}

impl Workers {
    /// Decodes all objects, several at a time. Returns whether the consumers ended an epoch early.
    /// `known`: the fields of the records, if they are known by now.
    pub(super) fn decode<S: PortionSink>(
        &self,
        context: RunContext<'_>,
        resume: Option<Resume>,
        known: Option<Arc<[Field]>>,
        writer: &mut BatchWriter<'_, S>,
        monitor: Monitor<'_>,
    ) -> Result<bool, StopReason> {
        let Workers { stats, order, section_bytes, short_copy, copied } = self;
        let (order, section_bytes) = (*order, *section_bytes);
        let RunContext { decoding, source, policy, batch } = context;
        writer.skip_records(resume.as_ref().map_or(0, Resume::to_skip));
        let ahead = stats.len() * S::AHEAD_BYTES;
        let while_busy = stats.len() * AHEAD_WHILE_BUSY;
        let limiter = Arc::new(AheadLimiter::new(AheadLimit { while_waiting: ahead, while_busy }));
        if let Some(fields) = &known {
            limiter.know_fields(fields);
        }
        let jobs = JobQueue::new(limiter.clone());
        let portion_bytes = writer.sink().portion_bytes()?;
        let memory = MemoryPool::new(portion_bytes, ahead / portion_bytes);
        let memory = Arc::new(match S::SHOWS_PORTIONS {
            true => memory.with_shown(shown_portions(stats.len(), portion_bytes)),
            false => memory,
        });
        let copies = Arc::new(CopyQueue::new(limiter.clone(), copied.clone(), *short_copy));
        let fillers = Fillers { copies: copies.clone(), workers: stats.len() };
        writer.sink().begin(fillers, &memory);
        writer.sink().lend(&memory);
        let (planned, plan) = sync_channel(MAX_PLANNED);
        let (next_epoch, may_go_on) = channel();
        let copier = Arc::<ChannelStats>::default();
        let threads: Vec<_> = stats.iter().chain([&copier]).cloned().collect();
        monitor.waits_for_workers(&threads);
        let decoded = thread::scope(|scope| {
            // Ends the others also if this thread panics.
            let _end = limiter.end_at_drop();
            let no_thread = |error: io::Error| {
                let remedy = "allow more threads, or set fewer `workers`";
                let fault = Fault::new(ErrorKind::Host, error.to_string(), remedy);
                StopReason::from(decoding.epoch_failure(0, fault))
            };
            for (number, stats) in stats.iter().enumerate() {
                let (limiter, jobs, copies, memory) = (&limiter, &jobs, &copies, &memory);
                let policy = policy.unused();
                let stats = stats.clone();
                let worker = Worker {
                    decoding,
                    limiter,
                    jobs,
                    copies,
                    memory,
                    policy,
                    stats,
                    section_bytes,
                };
                let name = format!("worker-{number}-{}", decoding.channel);
                let thread = thread::Builder::new().name(name);
                thread.spawn_scoped(scope, move || worker.work()).map_err(no_thread)?;
            }
            if S::HAS_COPIER {
                let thread = thread::Builder::new().name(format!("copier-{}", decoding.channel));
                let (copies, stats) = (&copies, copier.clone());
                thread.spawn_scoped(scope, move || copies.work(&stats)).map_err(no_thread)?;
            }
            let planner = Planner {
                decoding,
                source,
                limiter: &limiter,
                jobs: &jobs,
                workers: stats.len(),
                section_bytes,
                planned,
                may_go_on,
            };
            let thread = thread::Builder::new().name(format!("planner-{}", decoding.channel));
            thread.spawn_scoped(scope, move || planner.plan(resume)).map_err(no_thread)?;
            let bytes = monitor.calls_of(stats);
            let sequencer = Sequencer {
                decoding,
                batch,
                writer,
                policy,
                monitor,
                plan,
                next_epoch,
                limiter: &limiter,
                memory: &memory,
                stats,
                bytes,
                most_open: match order {
                    RecordOrder::Strict => 1,
                    RecordOrder::Any => OPEN_OBJECTS * stats.len(),
                },
                progress: Default::default(),
            };
            sequencer.take_all()
        });
        // Breaks the cycle: a batch refers to the queue, and the queue to the batch.
        copies.clear();
        decoded
    }
}
