//! A bounded list of events that wait to be written. Adding an event never waits for the disk: if
//! the list is full, events are dropped and counted.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Largest number of events that wait.
const CAPACITY: usize = 1 << 15;

/// Events that wait to be written.
pub(super) struct Buffer<T> {
    inner: Mutex<Inner<T>>,
}

struct Inner<T> {
    events: Vec<T>,
    dropped: u64,
}

impl<T> Buffer<T> {
    pub(super) fn new() -> Self {
        Self { inner: Mutex::new(Inner { events: Self::empty_list(), dropped: 0 }) }
    }

    /// An empty list with its full capacity, to be passed to [`take`](Self::take).
    pub(super) fn empty_list() -> Vec<T> {
        Vec::with_capacity(CAPACITY)
    }

    /// Adds an event, or counts it as dropped if the list is full.
    pub(super) fn push(&self, event: T) {
        let mut inner = self.lock();
        // After a dropped event all are dropped until the list is taken, so that there is only one
        // gap.
        if inner.events.len() < CAPACITY && inner.dropped == 0 {
            inner.events.push(event);
        } else {
            inner.dropped += 1;
        }
    }

    /// Swaps the list of events with `empty`. Returns how many events were dropped after the last
    /// one.
    pub(super) fn take(&self, empty: &mut Vec<T>) -> u64 {
        let mut inner = self.lock();
        std::mem::swap(&mut inner.events, empty);
        std::mem::take(&mut inner.dropped)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        // A panic can't leave the list half changed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_over_the_capacity_are_counted() {
        let buffer = Buffer::new();
        (0..CAPACITY + 5).for_each(|event| buffer.push(event));
        let mut taken = Buffer::empty_list();
        assert_eq!(buffer.take(&mut taken), 5);
        assert!(taken.iter().copied().eq(0..CAPACITY));
        taken.clear();
        buffer.push(7);
        assert_eq!(buffer.take(&mut taken), 0);
        assert_eq!(taken, [7]);
        assert_eq!(taken.capacity(), CAPACITY, "nothing was allocated");
    }
}
