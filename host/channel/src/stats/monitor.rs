//! Counts what a channel's thread does, and notifies the channel's observers. Called a few times
//! per chunk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::stats::observer::{Event, Observer};
use crate::stats::stage_timer::Activity;
use crate::{ChannelStats, EpochStats, Failure, StatsSnapshot};

/// The statistics and the observers of a channel that runs.
#[derive(Clone, Copy)]
pub(crate) struct Monitor<'a> {
    stats: &'a ChannelStats,
    observers: &'a [Box<dyn Observer>],
}

impl<'a> Monitor<'a> {
    pub(crate) fn new(stats: &'a ChannelStats, observers: &'a [Box<dyn Observer>]) -> Self {
        Self { stats, observers }
    }

    /// The channel's thread begins another activity. Returns how long the one before it took.
    pub(crate) fn enter(&self, activity: Activity) -> Duration {
        let elapsed = self.stats.enter(activity);
        let stage = activity.stage();
        // The timer's own moment, so that the times between the events add up to the counted times.
        self.notify_at(self.stats.activity_since(), &Event::StageBegins(stage));
        elapsed
    }

    /// The channel's thread has ended its last activity.
    pub(crate) fn stopped(&self) {
        self.stats.stop();
        self.notify_at(self.stats.activity_since(), &Event::Stopped);
    }

    /// The channel's thread waits for these workers, or inputs of a mix.
    pub(crate) fn waits_for_workers(&self, workers: &[Arc<ChannelStats>]) {
        self.stats.set_workers(workers);
    }

    /// The channel's thread waits for the thread of a window.
    pub(crate) fn waits_for_window(&self, window: Arc<ChannelStats>) {
        self.stats.set_window(window);
    }

    /// The totals so far.
    pub(crate) fn totals(&self) -> StatsSnapshot {
        self.stats.snapshot()
    }

    pub(crate) fn failed(&self, failure: &Failure) {
        self.notify(&Event::Failed(failure));
    }

    pub(crate) fn bytes_read(&self, bytes: usize) {
        self.stats.add_bytes(bytes);
        self.notify(&Event::BytesRead(bytes));
    }

    /// A call of the decoder is over; `memory` is the size of its linear memory in bytes.
    pub(crate) fn call_ended(&self, memory: u64) {
        let elapsed = self.enter(Activity::Batch);
        self.stats.add_call(elapsed, memory);
    }

    /// The call that ended last emitted `records`, and `batches` were granted so far in all.
    pub(crate) fn records_decoded(&self, records: usize, batches: u64) {
        self.stats.add_records(records);
        self.stats.set_batches(batches);
        self.notify(&Event::RecordsDecoded(records));
    }

    /// An input of a mix gave this many records.
    pub(crate) fn records_mixed(&self, records: usize) {
        self.stats.add_records(records);
        self.notify(&Event::RecordsDecoded(records));
    }

    /// The errors of a mix are those of its inputs.
    pub(crate) fn errors_of(&self, inputs: &[Arc<ChannelStats>]) {
        self.stats.set_errors_of(inputs);
    }

    /// The calls of the decoder are those of the workers. Returns the bytes that they read so far.
    pub(crate) fn calls_of(&self, workers: &[Arc<ChannelStats>]) -> u64 {
        self.stats.set_calls_of(workers)
    }

    /// `batches` were granted so far in all.
    pub(crate) fn batches_granted(&self, batches: u64) {
        self.stats.set_batches(batches);
    }

    /// A decode error was skipped, and `bytes` bytes with it.
    pub(crate) fn error_skipped(&self, failure: &Failure, bytes: u64) {
        self.stats.add_decode_error(failure.fault.kind);
        self.notify(&Event::DecodeErrorSkipped { failure, bytes });
    }

    pub(crate) fn object_begins(&self, epoch: u32, name: &str) {
        self.stats.begin_object(epoch, name);
        self.notify(&Event::ObjectBegins { epoch, name });
    }

    pub(crate) fn object_ends(&self) {
        self.stats.end_object();
        self.notify(&Event::ObjectEnds);
    }

    pub(crate) fn epoch_ends(&self, number: u32, early: bool) {
        let epoch: EpochStats = self.stats.end_epoch(number, early);
        self.notify(&Event::EpochEnds(&epoch));
    }

    fn notify(&self, event: &Event<'_>) {
        if !self.observers.is_empty() {
            self.notify_at(Instant::now(), event);
        }
    }

    fn notify_at(&self, at: Instant, event: &Event<'_>) {
        for observer in self.observers {
            observer.event(at, event);
        }
    }
}
