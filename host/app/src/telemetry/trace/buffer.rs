//! Events on their way to the writer: a bounded list that never makes who adds to it wait for the disk.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many wait, at most.
const MOST: usize = 1 << 15;

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
        Self { inner: Mutex::new(Inner { events: Self::room(), dropped: 0 }) }
    }

    /// An empty list to exchange the full one for.
    pub(super) fn room() -> Vec<T> {
        Vec::with_capacity(MOST)
    }

    /// Adds an event, or counts it as dropped if there are too many.
    pub(super) fn push(&self, event: T) {
        let mut inner = self.lock();
        // Once some are dropped, those behind them are too, until all before them are taken: so the gap is one.
        if inner.events.len() < MOST && inner.dropped == 0 {
            inner.events.push(event);
        } else {
            inner.dropped += 1;
        }
    }

    /// Takes all that wait, in exchange for an empty list; and how many were dropped behind them.
    pub(super) fn take(&self, empty: &mut Vec<T>) -> u64 {
        let mut inner = self.lock();
        std::mem::swap(&mut inner.events, empty);
        std::mem::take(&mut inner.dropped)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        // What is in there is whole at any time.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_counted() {
        let buffer = Buffer::new();
        (0..MOST + 5).for_each(|event| buffer.push(event));
        let mut taken = Buffer::room();
        assert_eq!(buffer.take(&mut taken), 5);
        assert!(taken.iter().copied().eq(0..MOST));
        taken.clear();
        buffer.push(7);
        assert_eq!(buffer.take(&mut taken), 0);
        assert_eq!(taken, [7]);
        assert_eq!(taken.capacity(), MOST, "nothing was allocated");
    }
}
