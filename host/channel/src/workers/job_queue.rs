//! The jobs that wait for a worker.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ahead_limiter::{AheadLimiter, WorkKind};
use super::fill::queue::CopyQueue;
use super::job::Job;
use crate::StopReason;
use crate::stats::monitor::Monitor;

/// Jobs in the order of the plan. The limiter knows their number and the threads that wait for
/// them.
pub(super) struct JobQueue {
    limiter: Arc<AheadLimiter>,
    jobs: Mutex<VecDeque<Job>>,
}

impl JobQueue {
    pub(super) fn new(limiter: Arc<AheadLimiter>) -> Self {
        Self { limiter, jobs: Mutex::default() }
    }

    fn jobs(&self) -> MutexGuard<'_, VecDeque<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a job to a worker: as soon as one is free, or fewer than `ahead` jobs wait for one.
    /// With `usize::MAX`, the job is handed over at once.
    ///
    /// # Errors
    /// No object is wanted any more.
    pub(super) fn hand_over(&self, job: Job, ahead: usize) -> Result<(), StopReason> {
        self.limiter.wait_for_few_jobs(ahead)?;
        self.jobs().push_back(job);
        self.limiter.add_job();
        Ok(())
    }

    /// The next job for a worker, which makes copies until there is one. `None` if no more come.
    pub(super) fn next(&self, copies: &CopyQueue, monitor: Monitor<'_>) -> Option<Job> {
        loop {
            match self.limiter.take_work() {
                WorkKind::Copy => copies.run_taken(monitor),
                WorkKind::Job => return self.jobs().pop_front(),
                WorkKind::End => return None,
            }
        }
    }
}
