//! The handle that all other threads have to a channel: its ring, its statistics and its state,
//! while it runs and after.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use log::{Level, kv};
use pipemill_channel::{ChannelStats, Failure, Outcome};
use pipemill_ring::host::{Ring, Status};
use pipemill_source::cache::{CacheCounters, CacheCounts};
use pipemill_source::{Awaited, TotalSize};
use pipemill_types::log::log_with;

use super::bottleneck::Cores;
use super::summary;
use super::waits::{Observed, Wait};
use pipemill_config::Source;

/// The state of a channel.
#[derive(Debug, Clone, Copy)]
pub enum ChannelState<'a> {
    /// It runs, or is about to start. A channel whose source has ended runs until its consumers
    /// have read all of it.
    Running,
    /// Its source ended, and all of it was read.
    Ended,
    /// It was stopped before that.
    Stopped,
    /// It failed.
    Failed(&'a Failure),
}

impl ChannelState<'_> {
    /// The words of all states, as in metrics and reports.
    pub const WORDS: [&'static str; 4] = ["running", "ended", "stopped", "failed"];

    /// The word of this state.
    pub fn word(self) -> &'static str {
        let [running, ended, stopped, failed] = Self::WORDS;
        match self {
            Self::Running => running,
            Self::Ended => ended,
            Self::Stopped => stopped,
            Self::Failed(_) => failed,
        }
    }
}

/// A channel, as threads other than its own see it.
pub struct ChannelHandle {
    /// The channel's name.
    pub name: String,
    /// Its source, as configured.
    pub source: Source,
    /// The cores that decode it.
    pub cores: Cores,
    /// The decoder's name.
    pub decoder: String,
    /// Counts and times. Only the channel's thread writes them.
    pub stats: ChannelStats,
    /// The ring that its batches go to.
    pub ring: Arc<Ring>,
    /// Tells the object that its source waits for.
    awaited: Awaited,
    /// The number of bytes of each epoch, if it is known.
    total: OnceLock<TotalSize>,
    /// The counts of its caches; of a mix, those of all inputs.
    caches: OnceLock<Vec<Arc<CacheCounters>>>,
    /// Whether the source has ended, and consumers read the rest.
    drains: AtomicBool,
    outcome: OnceLock<Outcome>,
    /// Its wait when it was last looked at while it was running.
    last_wait: Mutex<Option<Wait>>,
}

impl ChannelHandle {
    /// The handle to a channel that has not started. `awaited` belongs to its source.
    pub fn new(
        name: &str,
        source: &Source,
        cores: Cores,
        decoder: &str,
        ring: Arc<Ring>,
        awaited: Awaited,
    ) -> Self {
        let stats = ChannelStats::default();
        let (name, source, decoder) = (name.to_owned(), source.clone(), decoder.to_owned());
        let (total, caches, drains, outcome, last_wait) = Default::default();
        Self {
            name,
            source,
            cores,
            decoder,
            stats,
            ring,
            awaited,
            total,
            caches,
            drains,
            outcome,
            last_wait,
        }
    }

    /// Sets the handle to the number of bytes of each epoch.
    pub fn set_total_size(&self, total: TotalSize) {
        // It is set once, before the channel starts.
        let _ = self.total.set(total);
    }

    /// Sets the counts of the channel's caches.
    pub fn set_caches(&self, caches: Vec<Arc<CacheCounters>>) {
        // They are set once, before the channel starts.
        let _ = self.caches.set(caches);
    }

    /// What its caches have done, together. `None` if it has none.
    pub(super) fn cache(&self) -> Option<CacheCounts> {
        let counts = self.caches.get()?.iter().map(|one| one.now());
        counts.reduce(CacheCounts::with)
    }

    /// Share of the current epoch's bytes that were read, from 0 to 1. `None` if it is not known:
    /// for pipes, for mixed channels, and for compressed objects, of which only the stored size is
    /// known.
    pub(super) fn epoch_share(&self) -> Option<f64> {
        let object = self.stats.object().unwrap_or_default();
        if !self.source.is_read_as_stored(&object) {
            return None;
        }
        let (epoch, read) = (self.stats.epoch(), self.stats.this_epoch().bytes);
        let total = self.total.get()?.of(epoch).filter(|total| *total > 0 && *total >= read)?;
        Some(read as f64 / total as f64)
    }

    /// Sets whether the source has ended. The channel runs until consumers have read the rest, or
    /// it begins again.
    pub fn set_draining(&self, drains: bool) {
        self.drains.store(drains, Ordering::Relaxed);
    }

    /// Whether the source has ended, and consumers read the rest.
    pub(super) fn is_draining(&self) -> bool {
        self.drains.load(Ordering::Relaxed) && self.outcome.get().is_none()
    }

    /// Sets the outcome, and logs a summary of the channel. `Outcome::Ended` says that consumers
    /// have read all of it.
    pub fn end(&self, outcome: Outcome) {
        // A channel ends only once, so this can't fail.
        let _ = self.outcome.set(outcome);
        let now = self.snapshot();
        let fields: [&dyn kv::Source; 2] = [&("channel", &self.name), &now.totals];
        let line = summary::of_channel(&now);
        let level = if now.is_unread() { Level::Warn } else { Level::Info };
        log_with(level, &fields, format_args!("{line}"));
    }

    /// The current state.
    pub fn state(&self) -> ChannelState<'_> {
        match self.outcome.get() {
            None => ChannelState::Running,
            Some(Outcome::Ended) => ChannelState::Ended,
            Some(Outcome::Stopped | Outcome::Restart) => ChannelState::Stopped,
            Some(Outcome::Failed(failure)) => ChannelState::Failed(failure),
        }
    }

    /// Number of the epoch that it is in or waits for, from 0.
    pub(super) fn epoch(&self) -> u32 {
        self.awaited.get().map_or_else(|| self.stats.epoch(), |awaited| awaited.epoch)
    }

    /// Its current wait. `ring` is the status of its ring. `None` if it needs nothing from others,
    /// or does not run any more.
    pub(super) fn wait(&self, ring: &Status, now: Instant) -> Option<Wait> {
        if !matches!(self.state(), ChannelState::Running) {
            return None;
        }
        let observed = Observed {
            channel: &self.name,
            source: &self.source,
            stage: self.stats.stage(),
            awaited: self.awaited.get(),
            object: self.stats.current_object(),
            silent_since: self.stats.source_silent_since(),
            needed: self.ring.division().1,
            ring,
        };
        observed.wait(now)
    }

    /// Its current wait. Kept for [`last_wait`](Self::last_wait) as long as it runs.
    pub(super) fn look_at_wait(&self, now: Instant) -> Option<Wait> {
        let wait = self.wait(&self.ring.status(), now);
        if matches!(self.state(), ChannelState::Running) {
            self.last_wait.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&wait);
        }
        wait
    }

    /// Its wait when it was last looked at, if that was long enough to be reported.
    pub(super) fn last_wait(&self, now: Instant) -> Option<Wait> {
        let last = self.last_wait.lock().unwrap_or_else(PoisonError::into_inner).clone();
        last.filter(|wait| wait.is_long(now))
    }
}
