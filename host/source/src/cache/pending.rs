//! Blocks that are still being stored when a source ends: its end waits for them, so that a later
//! process finds them.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Counts what is still being stored.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pending(Arc<(Mutex<usize>, Condvar)>);

/// One that is being stored, until the drop.
#[derive(Debug)]
pub(crate) struct PendingGuard(Pending);

impl Pending {
    /// Adds one.
    pub(crate) fn add(&self) -> PendingGuard {
        *self.count() += 1;
        PendingGuard(self.clone())
    }

    /// Waits until nothing is being stored, at most for this time.
    pub(crate) fn wait(&self, limit: Duration) {
        let (_, changed) = &*self.0;
        // What is left after this time is not in the cache, and that is no error.
        let _ = changed.wait_timeout_while(self.count(), limit, |count| *count > 0);
    }

    fn count(&self) -> std::sync::MutexGuard<'_, usize> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        *self.0.count() -= 1;
        self.0.0.1.notify_all();
    }
}
