//! The channel's thread: takes what the workers decoded, object by object in the order of the
//! source, and applies the channel's error policy.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use pipemill_types::BatchSize;

use super::PortionSink;
use super::plan::{Planned, PlannedObject};
use super::turns::Turns;
use super::worker::{Delivery, Ended, MemoryPool};
use crate::batch::Batch;
use crate::batch_builder::BatchBuilder;
use crate::block_memory::BlockMemory;
use crate::channel::end_epoch;
use crate::error_policy::SkippedError;
use crate::monitor::Monitor;
use crate::object::Decoding;
use crate::{ChannelStats, ErrorPolicy, Failure, Stage, StopReason};

/// How often a wait for a worker is interrupted, to see what it does and what the consumers want.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What the channel's thread has.
pub(super) struct Sequencer<'a, 'b, 's, S: PortionSink> {
    pub(super) decoding: Decoding<'a>,
    pub(super) batch: Option<BatchSize>,
    /// Has the sink of portions, and no records of its own.
    pub(super) builder: &'b mut BatchBuilder<'s, S>,
    pub(super) policy: &'b mut ErrorPolicy,
    pub(super) monitor: Monitor<'b>,
    pub(super) plan: Receiver<Planned>,
    pub(super) next_epoch: Sender<()>,
    pub(super) turns: &'b Turns,
    pub(super) memory: &'b MemoryPool,
    pub(super) stats: &'b [Arc<ChannelStats>],
    /// Bytes that the workers read, as far as they were counted.
    pub(super) bytes: u64,
    /// The section that goes on where the one before has ended.
    pub(super) next_section: Option<u64>,
    /// Number of the section's first record in the object; 0 in an object's first section.
    pub(super) first_record: u64,
}

impl<S: PortionSink> Sequencer<'_, '_, '_, S> {
    /// Takes all objects. Returns whether the consumers ended an epoch early.
    pub(super) fn take_all(mut self) -> Result<bool, StopReason> {
        let (mut early, mut left_early) = (false, false);
        loop {
            self.monitor.enter(Stage::Source);
            // The planner has panicked; the panic goes on where the thread is waited for.
            let planned = self.plan.recv().map_err(|_| StopReason::Stopped)?;
            match planned {
                Planned::End => return Ok(left_early),
                Planned::Failed(failure) => return Err(failure.into()),
                Planned::EpochEnd(epoch) => {
                    let early = std::mem::take(&mut early);
                    let (builder, monitor) = (&mut *self.builder, self.monitor);
                    left_early |=
                        end_epoch(&self.decoding, self.batch, builder, monitor, epoch, early)?;
                    // The planner may have ended.
                    let _ = self.next_epoch.send(());
                }
                Planned::Object(object) if early => self.turns.end(object.number),
                // The section before went beyond its start.
                Planned::Object(object)
                    if object.goes_on && self.next_section != Some(object.number) =>
                {
                    self.turns.drop_job(object.number);
                }
                Planned::Object(object) => {
                    let (number, epoch) = (object.number, object.epoch);
                    self.turns.begin(number);
                    if !object.goes_on {
                        self.first_record = 0;
                        self.monitor.object_begins(epoch, &object.name);
                    }
                    let taken = self.take(object);
                    self.turns.end(number);
                    self.next_section = *taken.as_ref().unwrap_or(&None);
                    if self.next_section.is_none() {
                        self.monitor.object_ends();
                    }
                    match taken.map(|_| ()) {
                        Err(StopReason::EpochEnded) => {
                            (early, left_early) = (true, true);
                            self.turns.end_epoch(epoch);
                        }
                        other => other?,
                    }
                }
            }
        }
    }

    /// Takes an object, or a section of it, to its end. Returns the number of the section that goes
    /// on there.
    fn take(&mut self, object: PlannedObject) -> Result<Option<u64>, StopReason> {
        let mut errors = VecDeque::new();
        loop {
            match self.receive(&object)? {
                Delivery::Fields(fields) => {
                    // Nobody has said fields before, so they agree.
                    let _ = self.builder.set_schema(&fields);
                }
                Delivery::Skipped(mut error) => {
                    self.count_from_start(&mut error.failure);
                    errors.push_back(error);
                }
                Delivery::Records(memory, mut batch) => {
                    self.turns.taken(object.number, memory.as_ref().len());
                    batch.start.first_record += self.first_record;
                    self.give(memory, batch, &mut errors)?;
                }
                Delivery::Ended(Ended { mut result, records, next }) => {
                    for error in errors {
                        self.apply(&error)?;
                    }
                    if let Err(StopReason::Failed(failure)) = &mut result {
                        self.count_from_start(failure);
                    }
                    result?;
                    self.first_record += records;
                    if next.is_none() {
                        self.builder.sink().object_ended()?;
                    }
                    return Ok(next);
                }
            }
            if self.builder.wants_epoch_end(object.epoch) {
                return Err(StopReason::EpochEnded);
            }
        }
    }

    /// A worker counts the records of a section from 0.
    fn count_from_start(&self, failure: &mut Failure) {
        if let Some(record) = &mut failure.position.record {
            *record += self.first_record;
        }
    }

    /// What the object's worker has next.
    fn receive(&mut self, object: &PlannedObject) -> Result<Delivery, StopReason> {
        let delivery = loop {
            if let Ok(delivery) = object.deliveries.try_recv() {
                break delivery;
            }
            // The channel waits for what the worker waits for.
            let stage = object.worker.get().and_then(|worker| worker.stage());
            self.monitor.enter(if stage == Some(Stage::Source) {
                Stage::Source
            } else {
                Stage::Decoder
            });
            match object.deliveries.recv_timeout(POLL_INTERVAL) {
                Ok(delivery) => break delivery,
                // The worker has panicked; the panic goes on where the thread is waited for.
                Err(RecvTimeoutError::Disconnected) => return Err(StopReason::Stopped),
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.count_bytes();
            if self.builder.wants_epoch_end(object.epoch) {
                return Err(StopReason::EpochEnded);
            }
        };
        self.monitor.enter(Stage::Consumer);
        self.count_bytes();
        Ok(delivery)
    }

    fn count_bytes(&mut self) {
        let bytes = self.monitor.calls_of(self.stats);
        if bytes > self.bytes {
            self.monitor.bytes_read((bytes - self.bytes) as usize);
            self.bytes = bytes;
        }
    }

    /// Gives records to the sink, and applies the policy to the errors before their end.
    fn give(
        &mut self,
        memory: BlockMemory,
        mut batch: Batch,
        errors: &mut VecDeque<SkippedError>,
    ) -> Result<(), StopReason> {
        let first = batch.start.first_record;
        let end = first + batch.records as u64;
        let record = |error: &SkippedError| error.failure.position.record.unwrap_or(0);
        let mut failed = None;
        while let Some(error) = errors.pop_front_if(|error| record(error) < end) {
            if let Err(failure) = self.apply(&error) {
                batch.truncate(record(&error).saturating_sub(first) as usize);
                failed = Some(failure);
                break;
            }
        }
        let records = batch.records;
        if records > 0 {
            self.builder.sink().give(memory, batch)?;
            let spare = self.builder.sink().memory()?;
            self.memory.give_back(spare);
            self.monitor.records_decoded(records, self.builder.granted());
        }
        failed.map_or(Ok(()), |failure| Err(failure.into()))
    }

    fn apply(&mut self, error: &SkippedError) -> Result<(), Box<Failure>> {
        let SkippedError { failure, length, kept } = error;
        self.monitor.error_skipped(failure, *length);
        self.policy.error_skipped(failure, *length, kept)
    }
}
