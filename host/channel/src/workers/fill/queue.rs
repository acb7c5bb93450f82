//! Copies that wait for a thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};

use crate::ChannelStats;
use crate::stats::monitor::Monitor;
use crate::stats::stage_timer::Activity;
use crate::workers::ahead_limiter::AheadLimiter;

/// The channel's thread makes a copy of fewer bytes itself: to wake another thread takes as long.
pub(in crate::workers) const SHORT_COPY: usize = 16 << 10;

/// A copy of records.
pub(in crate::workers) trait CopyJob: Send {
    /// Makes the copy.
    fn run(&self);
}

/// Bytes of values that were copied to batches of a fixed size.
#[derive(Debug, Default)]
pub struct CopiedBytes {
    /// Bytes that workers and the copier copied.
    pub(super) by_others: AtomicU64,
    /// Bytes that the channel's thread copied, which plans the batches.
    pub(super) by_channel: AtomicU64,
}

impl CopiedBytes {
    /// Bytes that workers and the copier copied.
    pub fn by_others(&self) -> u64 {
        self.by_others.load(Ordering::Relaxed)
    }

    /// Bytes that the channel's thread copied.
    pub fn by_channel(&self) -> u64 {
        self.by_channel.load(Ordering::Relaxed)
    }
}

/// Copies in the order of the plan. The limiter knows their number and the threads that wait for
/// them.
pub(crate) struct CopyQueue {
    limiter: Arc<AheadLimiter>,
    jobs: Mutex<VecDeque<Arc<dyn CopyJob + Sync>>>,
    /// Bytes of the portions with records that are still to be copied.
    held: AtomicUsize,
    /// The channel's thread.
    channel: ThreadId,
    /// The channel's thread makes copies of fewer bytes itself.
    short_copy: usize,
    copied: Arc<CopiedBytes>,
}

impl CopyQueue {
    /// The queue of a channel whose thread calls this.
    pub(in crate::workers) fn new(
        limiter: Arc<AheadLimiter>,
        copied: Arc<CopiedBytes>,
        short_copy: usize,
    ) -> Self {
        let (channel, held, jobs) = (thread::current().id(), AtomicUsize::new(0), Mutex::default());
        Self { limiter, jobs, held, channel, short_copy, copied }
    }

    /// Whether the channel's thread makes a copy of this many bytes itself.
    pub(crate) fn is_short(&self, bytes: usize) -> bool {
        bytes < self.short_copy
    }

    /// Hands a copy to the next thread that is free.
    pub(in crate::workers) fn add(&self, job: Arc<dyn CopyJob + Sync>) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).push_back(job);
        self.limiter.add_copy();
    }

    /// Makes a copy that this thread has taken at the limiter. Before and after that, the thread
    /// waits for the channel's.
    pub(in crate::workers) fn run_taken(&self, monitor: Monitor<'_>) {
        let job = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if let Some(job) = job {
            monitor.enter(Activity::Batch);
            job.run();
            monitor.enter(Activity::Consumer);
        }
    }

    /// Drops the copies that wait: no thread takes them any more. A thread that waits for one of
    /// these batches fills it itself.
    pub(in crate::workers) fn clear(&self) {
        let left = std::mem::take(&mut *self.jobs.lock().unwrap_or_else(PoisonError::into_inner));
        drop(left);
    }

    /// Makes the copies that wait now.
    pub(in crate::workers) fn run_waiting(&self, monitor: Monitor<'_>) {
        while self.limiter.take_copy() {
            self.run_taken(monitor);
        }
    }

    /// The copier's thread: makes copies as long as there are workers.
    pub(in crate::workers) fn work(&self, stats: &ChannelStats) {
        // If this panics, nobody waits for the batch.
        let end = self.limiter.end_at_drop();
        while self.limiter.wait_for_copy() {
            self.run_taken(Monitor::new(stats, &[]));
        }
        std::mem::forget(end);
        stats.stop();
    }

    /// Whether the workers and the copier have ended, or will: they take no more copies.
    pub(in crate::workers) fn is_over(&self) -> bool {
        self.limiter.is_stopped()
    }

    /// Tells the channel's thread that a batch needs it.
    pub(super) fn tell(&self) {
        self.limiter.tell();
    }

    /// Counts bytes of values that this thread has copied.
    pub(super) fn count(&self, bytes: usize) {
        let copied = if thread::current().id() == self.channel {
            &self.copied.by_channel
        } else {
            &self.copied.by_others
        };
        copied.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn hold(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes of the portions with records that are still to be copied.
    pub(in crate::workers) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}
