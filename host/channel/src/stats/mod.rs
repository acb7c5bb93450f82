//! Counters of a channel: its totals so far, and its current stage. The channel's thread counts
//! once per chunk; any thread may read. Nothing is locked or allocated per record.
//!
//! - `log_fields`: the totals as fields of a log record.
//! - `monitor`: counts what a channel's thread does, and notifies its observers.
//! - `observer`: the interface for those that follow every step of a channel.
//! - `run_delay`: measures how long a thread could have run but had no core.
//! - `stage_timer`: measures how long a thread of a channel spends at each activity.
//! - `stages`: how the time of a channel's thread is divided among the stages.
//! - `timed_sink`: a sink whose waits for consumers are timed.

pub mod log_fields;
pub mod monitor;
pub mod observer;
mod run_delay;
pub(crate) mod stage_timer;
pub mod stages;
pub(crate) mod timed_sink;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pipemill_types::ErrorKind;

use crate::stats::run_delay::RunDelay;
use crate::stats::stage_timer::{Activity, StageTimer};
use crate::stats::stages::{Helpers, Readings, Stage, StageDivider, StageTimes};

/// The totals of a channel, and the time of each stage, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatsSnapshot {
    /// Bytes read, inflated.
    pub bytes: u64,
    /// Records that the decoder emitted.
    pub records: u64,
    /// Batches granted.
    pub batches: u64,
    /// Objects begun.
    pub objects: u64,
    /// Decode errors skipped.
    pub decode_errors: u64,
    /// The time of each stage.
    pub stages: StageTimes,
}

impl StatsSnapshot {
    /// The time of all stages.
    pub fn time(&self) -> Duration {
        self.stages.sum()
    }

    /// The time of a stage.
    pub fn of(&self, stage: Stage) -> Duration {
        self.stages.of(stage)
    }

    /// The difference to an earlier snapshot of the same channel.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            bytes: self.bytes - earlier.bytes,
            records: self.records - earlier.records,
            batches: self.batches - earlier.batches,
            objects: self.objects - earlier.objects,
            decode_errors: self.decode_errors - earlier.decode_errors,
            stages: self.stages.since(&earlier.stages),
        }
    }
}

/// The statistics of one epoch that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochStats {
    /// Its number, from 0.
    pub number: u32,
    /// Whether its consumers asked to end it before its end.
    pub early: bool,
    /// The channel's totals in it.
    pub totals: StatsSnapshot,
}

/// Upper bounds, inclusive, of the buckets in the histogram of the decoder's call times. Longer
/// calls count in one more bucket.
pub const DECODE_BUCKETS: [Duration; 9] = {
    let micros = [16, 64, 256, 1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000];
    let mut bounds = [Duration::ZERO; 9];
    let mut at = 0;
    while at < bounds.len() {
        bounds[at] = Duration::from_micros(micros[at]);
        at += 1;
    }
    bounds
};

/// During a stage of this time or more, nobody listens to the source. Shorter stages lie between
/// two reads of a silent source.
const LONG_STAGE: Duration = Duration::from_millis(500);

/// Epochs whose statistics are kept; older ones are dropped.
const MAX_EPOCHS: usize = 1000;

/// The statistics of a channel. Only the channel's thread writes. Memory orders are relaxed,
/// because the numbers do not depend on each other.
#[derive(Default)]
pub struct ChannelStats {
    timer: StageTimer,
    delay: RunDelay,
    helpers: Mutex<Helpers>,
    divider: Mutex<StageDivider>,
    bytes: AtomicU64,
    records: AtomicU64,
    batches: AtomicU64,
    objects: AtomicU64,
    /// By kind of error.
    decode_errors: [AtomicU64; ErrorKind::ALL.len()],
    epoch: AtomicU32,
    calls: [AtomicU64; DECODE_BUCKETS.len() + 1],
    call_nanos: AtomicU64,
    decoder_memory: AtomicU64,
    /// Time since which the source has given nothing, in nanoseconds from the timer's origin; 0 if
    /// it has given something.
    source_silent: AtomicU64,
    history: Mutex<EpochHistory>,
}

/// The current object and the epochs that have ended. It changes only with an object or epoch.
#[derive(Default)]
struct EpochHistory {
    /// Name of the object that began last.
    object: Option<String>,
    /// Whether that object has not ended.
    is_reading: bool,
    epochs: VecDeque<EpochStats>,
    /// The sum of all epochs that have ended.
    ended: StatsSnapshot,
}

impl ChannelStats {
    /// All counts and times so far.
    pub fn snapshot(&self) -> StatsSnapshot {
        StatsSnapshot {
            bytes: self.bytes.load(Ordering::Relaxed),
            records: self.records.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
            objects: self.objects.load(Ordering::Relaxed),
            decode_errors: self.decode_errors().iter().map(|(_, count)| count).sum(),
            stages: self.stages(),
        }
    }

    /// The time of each stage so far.
    pub(crate) fn stages(&self) -> StageTimes {
        // A panic can't leave the divider half changed.
        let mut divider = self.divider.lock().unwrap_or_else(PoisonError::into_inner);
        let (workers, window) = self.helpers().stages();
        let (times, _) = self.timer.read();
        divider.divide(Readings { times, delay: self.delay.read(), workers, window })
    }

    /// Counts and times of the current epoch so far.
    pub fn this_epoch(&self) -> StatsSnapshot {
        // Read under the lock: the sum of the ended epochs can't grow meanwhile.
        let history = self.history();
        self.snapshot().since(&history.ended)
    }

    /// Decode errors that were skipped, by kind.
    pub fn decode_errors(&self) -> [(ErrorKind, u64); ErrorKind::ALL.len()] {
        ErrorKind::ALL.map(|kind| (kind, self.decode_errors[kind as usize].load(Ordering::Relaxed)))
    }

    /// The stage that the channel is at; `None` before its start and after its end.
    pub fn stage(&self) -> Option<Stage> {
        self.timer.read().1.map(Activity::stage)
    }

    /// Number of the current epoch, from 0.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Name of the object that began last.
    pub fn object(&self) -> Option<String> {
        self.history().object.clone()
    }

    /// Name of the object that is read now; `None` between two objects.
    pub fn current_object(&self) -> Option<String> {
        let history = self.history();
        history.object.clone().filter(|_| history.is_reading)
    }

    /// The time since which the channel reads its source and the source has given nothing: no byte,
    /// no object, no end of an object or epoch. `None` if the last read gave something.
    pub fn source_silent_since(&self) -> Option<Instant> {
        let since = self.source_silent.load(Ordering::Relaxed);
        (since > 0).then(|| self.timer.at(Duration::from_nanos(since)))
    }

    /// The epochs that have ended, in order; only the last 1,000 of them.
    pub fn epochs(&self) -> Vec<EpochStats> {
        self.history().epochs.iter().copied().collect()
    }

    /// Number of the decoder's calls in each bucket of [`DECODE_BUCKETS`]. The last number counts
    /// the calls that took longer.
    pub fn calls(&self) -> [u64; DECODE_BUCKETS.len() + 1] {
        std::array::from_fn(|bucket| self.calls[bucket].load(Ordering::Relaxed))
    }

    /// The time of all calls of the decoder.
    pub fn call_time(&self) -> Duration {
        Duration::from_nanos(self.call_nanos.load(Ordering::Relaxed))
    }

    /// Size of the linear memory of the decoder's last instance, in bytes. With workers, the size
    /// of all their last instances.
    pub fn decoder_memory(&self) -> u64 {
        self.decoder_memory.load(Ordering::Relaxed)
    }

    /// Begins an activity of the calling thread. Returns how long the one before it took.
    pub(crate) fn enter(&self, activity: Activity) -> Duration {
        if self.timer.is_stopped() {
            self.delay.begin();
        }
        let elapsed = self.timer.enter(activity);
        if matches!(activity, Activity::Source | Activity::ReadingWorkers) {
            self.source_asked(elapsed);
        }
        elapsed
    }

    /// Ends the last activity of the calling thread.
    pub(crate) fn stop(&self) {
        self.timer.stop();
        self.delay.stop();
    }

    /// When the last activity began.
    pub(crate) fn activity_since(&self) -> Instant {
        self.timer.since()
    }

    /// Sets the workers, or the inputs of a mix, that the channel's thread waits for.
    pub(crate) fn set_workers(&self, workers: &[Arc<ChannelStats>]) {
        self.helpers().workers = workers.to_vec();
    }

    /// Sets the statistics of the window's thread, which the channel's thread waits for.
    pub(crate) fn set_window(&self, window: Arc<ChannelStats>) {
        self.helpers().window = Some(window);
    }

    pub(crate) fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.source_gave();
    }

    pub(crate) fn add_call(&self, elapsed: Duration, memory: u64) {
        let bucket = DECODE_BUCKETS.partition_point(|bound| *bound < elapsed);
        self.calls[bucket].fetch_add(1, Ordering::Relaxed);
        self.call_nanos.fetch_add(elapsed.as_nanos() as u64, Ordering::Relaxed);
        self.decoder_memory.store(memory, Ordering::Relaxed);
    }

    pub(crate) fn add_records(&self, records: usize) {
        self.records.fetch_add(records as u64, Ordering::Relaxed);
    }

    pub(crate) fn set_batches(&self, batches: u64) {
        self.batches.store(batches, Ordering::Relaxed);
    }

    pub(crate) fn add_decode_error(&self, kind: ErrorKind) {
        self.decode_errors[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_errors_of(&self, inputs: &[Arc<ChannelStats>]) {
        for (kind, count) in self.decode_errors.iter().enumerate() {
            let of_input =
                |input: &Arc<ChannelStats>| input.decode_errors[kind].load(Ordering::Relaxed);
            count.store(inputs.iter().map(of_input).sum(), Ordering::Relaxed);
        }
    }

    /// Takes the calls of the decoder from these workers. Returns the bytes that they read.
    pub(crate) fn set_calls_of(&self, workers: &[Arc<ChannelStats>]) -> u64 {
        let sum = |get: &dyn Fn(&ChannelStats) -> &AtomicU64| {
            workers.iter().map(|worker| get(worker).load(Ordering::Relaxed)).sum::<u64>()
        };
        for bucket in 0..self.calls.len() {
            self.calls[bucket].store(sum(&|worker| &worker.calls[bucket]), Ordering::Relaxed);
        }
        self.call_nanos.store(sum(&|worker| &worker.call_nanos), Ordering::Relaxed);
        self.decoder_memory.store(sum(&|worker| &worker.decoder_memory), Ordering::Relaxed);
        sum(&|worker| &worker.bytes)
    }

    pub(crate) fn begin_object(&self, epoch: u32, name: &str) {
        self.epoch.store(epoch, Ordering::Relaxed);
        self.objects.fetch_add(1, Ordering::Relaxed);
        self.source_gave();
        let mut history = self.history();
        (history.object, history.is_reading) = (Some(name.to_owned()), true);
    }

    pub(crate) fn end_object(&self) {
        self.source_gave();
        self.history().is_reading = false;
    }

    pub(crate) fn end_epoch(&self, number: u32, early: bool) -> EpochStats {
        let snapshot = self.snapshot();
        self.source_gave();
        let mut history = self.history();
        let epoch = EpochStats { number, early, totals: snapshot.since(&history.ended) };
        history.ended = snapshot;
        if history.epochs.len() == MAX_EPOCHS {
            history.epochs.pop_front();
        }
        history.epochs.push_back(epoch);
        self.epoch.store(number + 1, Ordering::Relaxed);
        epoch
    }

    /// Notes that the source is read from now on. `elapsed` is the time of the stage before. A
    /// source does not count as silent while nobody listens to it.
    fn source_asked(&self, elapsed: Duration) {
        if self.source_silent.load(Ordering::Relaxed) == 0 || elapsed >= LONG_STAGE {
            self.source_silent.store(self.timer.moment().max(1), Ordering::Relaxed);
        }
    }

    fn source_gave(&self) {
        self.source_silent.store(0, Ordering::Relaxed);
    }

    fn helpers(&self) -> MutexGuard<'_, Helpers> {
        self.helpers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn history(&self) -> MutexGuard<'_, EpochHistory> {
        // A panic can't leave it half changed.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_silent_from_when_it_is_asked_until_it_gives() {
        let stats = ChannelStats::default();
        assert_eq!(stats.source_silent_since(), None);
        stats.source_asked(Duration::ZERO);
        let first = stats.source_silent_since().expect("it is asked");
        // The source is read repeatedly.
        stats.source_asked(LONG_STAGE - Duration::from_nanos(1));
        assert_eq!(stats.source_silent_since(), Some(first));
        stats.add_bytes(1);
        assert_eq!(stats.source_silent_since(), None);
    }

    #[test]
    fn a_source_is_not_silent_while_the_channel_waits_for_others() {
        let stats = ChannelStats::default();
        stats.source_asked(Duration::ZERO);
        let first = stats.source_silent_since().expect("it is asked");
        while stats.timer.at(Duration::from_nanos(stats.timer.moment())) == first {}
        stats.source_asked(LONG_STAGE);
        assert!(stats.source_silent_since().is_some_and(|since| since > first));
    }

    #[test]
    fn the_object_that_is_read_has_not_ended() {
        let stats = ChannelStats::default();
        stats.begin_object(0, "a");
        assert_eq!(stats.current_object().as_deref(), Some("a"));
        stats.end_object();
        assert_eq!((stats.current_object(), stats.object().as_deref()), (None, Some("a")));
    }
}
