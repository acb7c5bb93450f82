//! The object that a source waits for, as other threads see it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Something that does not exist yet and that a source waits for: the FIFO of an epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedObject {
    /// Its path.
    pub name: String,
    /// Number of the epoch that it belongs to.
    pub epoch: u32,
    /// When the wait began.
    pub since: Instant,
    /// The remedy if it does not appear.
    pub remedy: String,
}

/// Handle to the object that a source waits for. All clones share one state, which the source sets.
/// It stays empty if the source does not wait for objects to be made.
#[derive(Clone, Default)]
pub struct Awaited(Arc<Mutex<Option<AwaitedObject>>>);

impl Awaited {
    /// The object that the source waits for now; `None` if it does not wait.
    pub fn get(&self) -> Option<AwaitedObject> {
        self.lock().clone()
    }

    pub(super) fn set(&self, object: Option<AwaitedObject>) {
        *self.lock() = object;
    }

    fn lock(&self) -> MutexGuard<'_, Option<AwaitedObject>> {
        // A panic can't leave it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
