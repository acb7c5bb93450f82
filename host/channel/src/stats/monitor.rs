//! Counts the work of a channel's thread, and notifies the channel's observers. Called a few times
//! per chunk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::stats::observer::{Event, Observer};
use crate::stats::stage_timer::Activity;
use crate::{ChannelStats, EpochStats, Failure, StatsSnapshot};

/// The statistics and the observers of a running channel.
#[derive(Clone, Copy)]
pub(crate) struct Monitor<'a> {
    stats: &'a ChannelStats,
    observers: &'a [Box<dyn Observer>],
}

impl<'a> Monitor<'a> {
    pub(crate) fn new(stats: &'a ChannelStats, observers: &'a [Box<dyn Observer>]) -> Self {
        Self { stats, observers }
    }

    /// Begins another activity of the channel's thread. Returns how long the one before it took.
    pub(crate) fn enter(&self, activity: Activity) -> Duration {
        let elapsed = self.stats.enter(activity);
        let stage = activity.stage();
        // The timer's own moment, so that the times between the events add up to the counted times.
        self.notify_at(self.stats.activity_since(), &Event::StageBegins(stage));
        elapsed
    }

    /// Ends the last activity of the channel's thread.
    pub(crate) fn stopped(&self) {
        self.stats.stop();
        self.notify_at(self.stats.activity_since(), &Event::Stopped);
    }

    /// Sets the workers, or the inputs of a mix, that the channel's thread waits for.
    pub(crate) fn waits_for_workers(&self, workers: &[Arc<ChannelStats>]) {
        self.stats.set_workers(workers);
    }

    /// Sets the statistics of the window's thread, which the channel's thread waits for.
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

    /// Counts a call of the decoder that is over. `memory` is the size of its linear memory in
    /// bytes.
    pub(crate) fn call_ended(&self, memory: u64) {
        let elapsed = self.enter(Activity::Batch);
        self.stats.add_call(elapsed, memory);
    }

    /// Counts the `records` of the last call, and sets the total of granted batches.
    pub(crate) fn records_decoded(&self, records: usize, batches: u64) {
        self.stats.add_records(records);
        self.stats.set_batches(batches);
        self.notify(&Event::RecordsDecoded(records));
    }

    /// Counts records that an input of a mix handed over.
    pub(crate) fn records_mixed(&self, records: usize) {
        self.stats.add_records(records);
        self.notify(&Event::RecordsDecoded(records));
    }

    /// Takes the errors of a mix from its inputs.
    pub(crate) fn errors_of(&self, inputs: &[Arc<ChannelStats>]) {
        self.stats.set_errors_of(inputs);
    }

    /// Takes the calls of the decoder from the workers. Returns the bytes that they read so far.
    pub(crate) fn calls_of(&self, workers: &[Arc<ChannelStats>]) -> u64 {
        self.stats.set_calls_of(workers)
    }

    /// Sets the total of granted batches.
    pub(crate) fn batches_granted(&self, batches: u64) {
        self.stats.set_batches(batches);
    }

    /// Counts a skipped decode error, and the bytes skipped with it.
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
