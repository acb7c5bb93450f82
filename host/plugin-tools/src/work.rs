//! Counts the cost of decoding, in bytes and not in time: a test that is limited by this count does
//! the same on every machine. A long set-up counts by its instructions: see [`Work::count_set_up`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The work of all runs of a plugin so far.
#[derive(Debug, Clone)]
pub(super) struct Work(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    total: AtomicU64,
    /// The cost of a new instance.
    instance: AtomicU64,
}

/// The cost of a new instance in bytes.
const INSTANCE: u64 = 16 << 10;
/// A set-up of fewer instructions is included in [`INSTANCE`]. This many instructions take some 20
/// ms.
const SHORT_SET_UP: u64 = 32 << 20;
/// This many instructions of a longer set-up cost as much as a byte.
const INSTRUCTIONS_OF_BYTE: u64 = 8;
/// The cost of a call.
const CALL: u64 = 1 << 10;
/// The cost of a value of a record, in addition to its bytes.
const VALUE: u64 = 64;
/// The cost of a byte of a value: it is copied several times, and compared.
const VALUE_BYTE: u64 = 2;

impl Default for Work {
    fn default() -> Self {
        let (total, instance) = (AtomicU64::new(0), AtomicU64::new(INSTANCE));
        Self(Arc::new(Counts { total, instance }))
    }
}

impl Work {
    /// Adds a run: its number of calls, the bytes that were passed, and the size of each value of
    /// the records.
    pub(super) fn add(&self, calls: u64, shown: u64, values: impl Iterator<Item = usize>) {
        let values: u64 = values.map(|bytes| VALUE + VALUE_BYTE * bytes as u64).sum();
        let instance = self.0.instance.load(Ordering::Relaxed);
        let run = instance.saturating_add(calls * CALL + shown + values);
        self.0.total.fetch_add(run, Ordering::Relaxed);
    }

    /// The work so far, in bytes.
    pub(super) fn total(&self) -> u64 {
        self.0.total.load(Ordering::Relaxed)
    }

    /// Makes each new instance cost as much as the instructions of its set-up. Returns whether that
    /// is more than usual.
    pub(super) fn count_set_up(&self, instructions: u64) -> bool {
        let is_long = instructions > SHORT_SET_UP;
        if is_long {
            self.0.instance.store(instructions / INSTRUCTIONS_OF_BYTE, Ordering::Relaxed);
        }
        is_long
    }
}

#[cfg(test)]
mod tests {
    use super::{INSTANCE, SHORT_SET_UP, Work};

    #[test]
    fn a_long_set_up_makes_an_instance_expensive() {
        let cost = |instructions: u64| {
            let work = Work::default();
            let is_long = work.count_set_up(instructions);
            work.add(0, 0, std::iter::empty());
            (is_long, work.total())
        };
        assert_eq!(cost(0), (false, INSTANCE));
        assert_eq!(cost(SHORT_SET_UP), (false, INSTANCE));
        assert_eq!(cost(2 * SHORT_SET_UP), (true, SHORT_SET_UP / 4));
    }
}
