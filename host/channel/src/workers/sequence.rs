//! The channel's thread: takes the workers' output, and applies the channel's error policy. In
//! strict order it takes object by object, in the order of the source. Otherwise it takes from each
//! object that has some.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Duration;

use pipemill_types::{AddedField, BatchSize};

use super::PortionSink;
use super::ahead_limiter::AheadLimiter;
use super::job::{Ended, WorkerOutput};
use super::plan::{Planned, PlannedObject};
use super::skipped_records::SectionSkips;
use super::worker::MemoryPool;
use crate::batch::Batch;
use crate::batch::block_memory::BlockMemory;
use crate::batch::writer::BatchWriter;
use crate::epoch_end::end_epoch;
use crate::errors::policy::SkippedError;
use crate::pump::added_values::shift_numbers;
use crate::pump::object::Decoding;
use crate::stats::monitor::Monitor;
use crate::stats::stage_timer::Activity;
use crate::{ChannelStats, ErrorPolicy, Failure, Stage, StopReason};

/// How often a wait for a worker is interrupted, to ask for its stage and the consumers' wishes.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The state of the channel's thread.
pub(super) struct Sequencer<'a, 'b, 's, S: PortionSink> {
    pub(super) decoding: Decoding<'a>,
    pub(super) batch: Option<BatchSize>,
    /// Has the sink of portions, and no records of its own.
    pub(super) writer: &'b mut BatchWriter<'s, S>,
    pub(super) policy: &'b mut ErrorPolicy,
    pub(super) monitor: Monitor<'b>,
    pub(super) plan: Receiver<Planned>,
    pub(super) next_epoch: Sender<()>,
    pub(super) limiter: &'b AheadLimiter,
    pub(super) memory: &'b MemoryPool,
    pub(super) stats: &'b [Arc<ChannelStats>],
    /// Bytes that the workers read, of which the channel's statistics know.
    pub(super) bytes: u64,
    /// Upper limit of objects that are taken at the same time: 1 in strict order.
    pub(super) most_open: usize,
    pub(super) progress: SequenceProgress,
}

/// The progress of the channel's thread.
#[derive(Default)]
pub(super) struct SequenceProgress {
    /// The objects that are being taken, in the order of the source.
    open: VecDeque<OpenObject>,
    /// The item that follows these objects in the plan.
    after_open: Option<Planned>,
    /// The epoch of the object that was opened last.
    epoch: u32,
    /// Whether the consumers want no more of this epoch.
    early: bool,
    /// Whether the consumers ended an epoch early.
    left_early: bool,
}

/// An object that is being taken.
struct OpenObject {
    /// The section that is taken now; the object itself, if it has one.
    section: PlannedObject,
    /// The sections after it that were planned so far.
    later: VecDeque<PlannedObject>,
    /// Whether no object was planned after it, so that more of its sections may come.
    is_last: bool,
    /// The error that ends the channel, once the records before it were delivered.
    last_error: Option<SkippedError>,
    /// Number of the section's first record in the object.
    first_record: u64,
    /// The records of its sections that are skipped. `None` if its worker knows them.
    skips: Option<SectionSkips>,
}

impl OpenObject {
    fn new(mut section: PlannedObject) -> Self {
        let (later, last_error) = Default::default();
        let skips = SectionSkips::of(section.known.take());
        Self { section, later, is_last: true, last_error, first_record: 0, skips }
    }

    /// A worker counts the records of a section from 0.
    fn count_from_start(&self, failure: &mut Failure) {
        if let Some(record) = &mut failure.position.record {
            *record += self.first_record;
            if let Some(skips) = &self.skips {
                *record = skips.kept_before(*record);
            }
        }
    }
}

impl<S: PortionSink> Sequencer<'_, '_, '_, S> {
    /// Takes all objects. Returns whether the consumers ended an epoch early.
    pub(super) fn take_all(mut self) -> Result<bool, StopReason> {
        loop {
            let wakeups = self.limiter.wakeups();
            match self.open_planned() {
                Err(StopReason::EpochEnded) => {
                    self.leave_epoch();
                    continue;
                }
                other => other?,
            }
            if self.progress.open.is_empty() {
                match self.progress.after_open.take() {
                    Some(Planned::End) => return Ok(self.progress.left_early),
                    Some(Planned::Failed(failure)) => return Err(failure.into()),
                    Some(Planned::EpochEnd(epoch)) => self.end_epoch(epoch)?,
                    Some(Planned::Object(_)) | None => {}
                }
                continue;
            }
            match self.take_round() {
                Ok(true) => {}
                Ok(false) => self.wait(wakeups),
                Err(StopReason::EpochEnded) => self.leave_epoch(),
                Err(other) => return Err(other),
            }
        }
    }

    /// Opens the objects that were planned, as many as may be open.
    fn open_planned(&mut self) -> Result<(), StopReason> {
        while self.progress.open.len() < self.most_open && self.progress.after_open.is_none() {
            let planned = match self.plan.try_recv() {
                Ok(planned) => planned,
                Err(_) if !self.progress.open.is_empty() => return Ok(()),
                Err(_) => {
                    // Batches that are full don't wait for the source.
                    self.writer.finish()?;
                    self.monitor.enter(Activity::Source);
                    // If the planner has panicked, the panic continues where its thread is joined.
                    self.plan.recv().map_err(|_| StopReason::Stopped)?
                }
            };
            match planned {
                Planned::Object(object) => self.open(object),
                other => self.progress.after_open = Some(other),
            }
        }
        Ok(())
    }

    fn open(&mut self, object: PlannedObject) {
        let mut open = self.progress.open.iter_mut();
        if self.progress.early {
            self.limiter.end(object.number);
        } else if !object.goes_on {
            open.for_each(|other| other.is_last = false);
            self.limiter.begin(object.number);
            self.progress.epoch = object.epoch;
            self.monitor.object_begins(object.epoch, &object.name);
            self.progress.open.push_back(OpenObject::new(object));
        } else if let Some(last) = open.find(|other| other.is_last) {
            last.later.push_back(object);
        } else {
            // The section before went beyond its start, to the end of the object.
            self.limiter.drop_job(object.number);
        }
    }

    fn end_epoch(&mut self, epoch: u32) -> Result<(), StopReason> {
        let early = std::mem::take(&mut self.progress.early);
        self.progress.left_early |=
            end_epoch(&self.decoding, self.batch, self.writer, self.monitor, epoch, early)?;
        // The planner may have ended.
        let _ = self.next_epoch.send(());
        Ok(())
    }

    /// Leaves the epoch, of which the consumers want no more.
    fn leave_epoch(&mut self) {
        (self.progress.early, self.progress.left_early) = (true, true);
        self.limiter.end_epoch(self.progress.epoch);
        for object in std::mem::take(&mut self.progress.open) {
            self.limiter.end_epoch(object.section.epoch);
            self.close(object);
        }
    }

    fn close(&self, object: OpenObject) {
        self.limiter.end(object.section.number);
        for section in object.later {
            self.limiter.drop_job(section.number);
        }
        self.monitor.object_ends();
    }

    /// Takes the next output of each open object's worker. Returns whether there was some.
    fn take_round(&mut self) -> Result<bool, StopReason> {
        self.writer.sink().progress()?;
        let (mut has_taken, mut at) = (false, 0);
        while let Some(object) = self.progress.open.get_mut(at) {
            let delivery = match object.section.deliveries.try_recv() {
                Ok(delivery) => delivery,
                Err(TryRecvError::Empty) => {
                    at += 1;
                    continue;
                }
                // The worker has panicked. The panic continues where the thread is joined.
                Err(TryRecvError::Disconnected) => return Err(StopReason::Stopped),
            };
            has_taken = true;
            self.monitor.enter(Activity::Batch);
            self.count_bytes();
            let Some(mut object) = self.progress.open.remove(at) else { break };
            let epoch = object.section.epoch;
            let taken = self.take(&mut object, delivery);
            if matches!(taken, Err(StopReason::EpochEnded)) {
                // Before it is closed: its worker would hold bytes that nobody takes.
                self.limiter.end_epoch(epoch);
            }
            if let Ok(false) = taken {
                self.progress.open.insert(at, object);
                at += 1;
            } else {
                self.close(object);
            }
            taken?;
            self.check_wanted(epoch)?;
        }
        if !has_taken && let Some(object) = self.progress.open.front() {
            self.check_wanted(object.section.epoch)?;
        }
        Ok(has_taken)
    }

    /// # Errors
    /// The consumers want no more of this epoch.
    fn check_wanted(&mut self, epoch: u32) -> Result<(), StopReason> {
        if self.writer.wants_epoch_end(epoch) {
            self.limiter.end_epoch(epoch);
            return Err(StopReason::EpochEnded);
        }
        Ok(())
    }

    /// Takes the output of an object's worker. Returns whether the object is at its end.
    fn take(
        &mut self,
        object: &mut OpenObject,
        delivery: WorkerOutput,
    ) -> Result<bool, StopReason> {
        match delivery {
            WorkerOutput::Fields(fields) => {
                // No object has declared fields before, so they agree.
                let _ = self.writer.set_schema(&fields);
            }
            WorkerOutput::Skipped(mut error) => {
                self.limiter.taken(object.section.number, error.bytes());
                object.count_from_start(&mut error.failure);
                self.take_error(object, error)?;
            }
            WorkerOutput::Records(mut memory, mut batch) => {
                self.limiter.taken(object.section.number, memory.as_ref().len());
                batch.start.position.first_record += object.first_record;
                let added = self.decoding.added_fields;
                let is_shifted = object.first_record > 0 && added.contains(&AddedField::Index);
                if is_shifted || object.skips.is_some() {
                    batch.take_columns(&mut memory);
                }
                if is_shifted {
                    shift_numbers(added, object.first_record, &batch.columns, memory.as_mut());
                }
                if let Some(skips) = &mut object.skips {
                    skips.remove_from(&mut batch);
                }
                self.give(memory, batch, &mut object.last_error)?;
            }
            WorkerOutput::Ended(ended) => return self.take_end(object, ended),
        }
        Ok(false)
    }

    fn take_end(&mut self, object: &mut OpenObject, ended: Ended) -> Result<bool, StopReason> {
        let Ended { mut result, records, next } = ended;
        if let Some(error) = object.last_error.take() {
            self.apply(&error)?;
        }
        if let Err(StopReason::Failed(failure)) = &mut result {
            object.count_from_start(failure);
        }
        result?;
        let Some(next) = next else {
            self.writer.sink().object_ended()?;
            return Ok(true);
        };
        self.limiter.end(object.section.number);
        object.section = self.section(object, next)?;
        object.first_record += records;
        self.limiter.begin(next);
        Ok(false)
    }

    /// The section of this number, which continues the object. The sections before it belong to the
    /// one that has ended there.
    fn section(&self, object: &mut OpenObject, number: u64) -> Result<PlannedObject, StopReason> {
        loop {
            let section = match object.later.pop_front() {
                Some(section) => section,
                // The section was planned before a worker had it, and no other object was planned
                // since.
                None => match self.plan.recv() {
                    Ok(Planned::Object(section)) => section,
                    _ => return Err(StopReason::Stopped),
                },
            };
            if section.number == number {
                return Ok(section);
            }
            self.limiter.drop_job(section.number);
        }
    }

    /// Waits until a worker or the planner has something, at most for a short time.
    fn wait(&mut self, wakeups: u64) {
        // The channel's activity follows from the activities of the workers.
        let reads = |object: &OpenObject| {
            object.section.worker.get().and_then(|worker| worker.stage()) == Some(Stage::Source)
        };
        let all_read = self.progress.open.iter().all(reads);
        self.monitor.enter(if all_read { Activity::ReadingWorkers } else { Activity::Workers });
        let SequenceProgress { open, after_open, .. } = &self.progress;
        let for_plan = open.len() < self.most_open && after_open.is_none();
        self.limiter.wait_for_wakeup(wakeups, for_plan, POLL_INTERVAL);
        self.writer.sink().lend(self.memory);
        self.count_bytes();
    }

    fn count_bytes(&mut self) {
        let bytes = self.monitor.calls_of(self.stats);
        if bytes > self.bytes {
            self.monitor.bytes_read((bytes - self.bytes) as usize);
            self.bytes = bytes;
        }
    }

    /// Applies the policy to an error. An error that may end the channel waits for the records
    /// before it, which come later. So at most one error waits.
    fn take_error(
        &mut self,
        object: &mut OpenObject,
        error: SkippedError,
    ) -> Result<(), StopReason> {
        if self.policy.ends_with(&error.failure) {
            object.last_error.get_or_insert(error);
            return Ok(());
        }
        Ok(self.apply(&error)?)
    }

    /// Hands records over to the sink: those before the error that ends the channel.
    fn give(
        &mut self,
        mut memory: BlockMemory,
        mut batch: Batch,
        last_error: &mut Option<SkippedError>,
    ) -> Result<(), StopReason> {
        let first = batch.start.position.first_record;
        let end = first + batch.records as u64;
        let record = |error: &SkippedError| error.failure.position.record.unwrap_or(0);
        let mut failed = None;
        if let Some(error) = last_error.take_if(|error| record(error) < end)
            && let Err(failure) = self.apply(&error)
        {
            batch.take_columns(&mut memory);
            batch.truncate(record(&error).saturating_sub(first) as usize);
            failed = Some(failure);
        }
        let records = batch.records;
        if self.writer.schema().is_none()
            // Another object has declared them, whose output may come later.
            && let Some(fields) = self.limiter.fields()
        {
            let _ = self.writer.set_schema(&fields);
        }
        if records > 0 {
            self.writer.sink().give(memory, batch)?;
            self.writer.sink().take_back(self.memory);
            self.monitor.records_decoded(records, self.writer.granted());
        } else {
            self.memory.give_back(memory);
            self.memory.give_back_batch(batch);
        }
        failed.map_or(Ok(()), |failure| Err(failure.into()))
    }

    fn apply(&mut self, error: &SkippedError) -> Result<(), Box<Failure>> {
        let SkippedError { failure, length, kept } = error;
        self.monitor.error_skipped(failure, *length);
        self.policy.error_skipped(failure, *length, kept)
    }
}
