//! Counts what decoding costs, in bytes and not in time: a test that is bounded by this count does
//! the same on every machine. Only a decoder whose set-up takes long is measured: see
//! [`Work::measure_set_up`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The work of all runs of a plugin so far.
#[derive(Debug, Clone)]
pub(super) struct Work(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    total: AtomicU64,
    /// What a new instance costs.
    instance: AtomicU64,
}

/// What a new instance costs: as much as this number of bytes.
const INSTANCE: u64 = 16 << 10;
/// A shorter set-up is a part of [`INSTANCE`].
const SHORT_SET_UP: Duration = Duration::from_millis(16);
/// What a millisecond of a longer set-up costs.
const SET_UP_MILLISECOND: u64 = 256 << 10;
/// What a call costs.
const CALL: u64 = 1 << 10;
/// What a value of a record costs, besides its bytes.
const VALUE: u64 = 64;
/// What a byte of a value costs: it is copied several times, and compared.
const VALUE_BYTE: u64 = 2;

impl Default for Work {
    fn default() -> Self {
        let (total, instance) = (AtomicU64::new(0), AtomicU64::new(INSTANCE));
        Self(Arc::new(Counts { total, instance }))
    }
}

impl Work {
    /// Adds a run: its number of calls, the bytes that they were shown, and the values of the records,
    /// of which each has a number of bytes.
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

    /// Lets each new instance cost what its set-up takes, in CPU time. A power of two, so that the
    /// count is the same for times that are nearly the same. Returns whether that is more than
    /// usual.
    pub(super) fn measure_set_up(&self, time: Duration) -> bool {
        let is_long = time > SHORT_SET_UP;
        if is_long {
            let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(1 << 20);
            let cost = milliseconds.next_power_of_two() * SET_UP_MILLISECOND;
            self.0.instance.store(cost, Ordering::Relaxed);
        }
        is_long
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{INSTANCE, SET_UP_MILLISECOND, Work};

    #[test]
    fn a_long_set_up_makes_an_instance_expensive() {
        let cost = |milliseconds: u64| {
            let work = Work::default();
            let is_long = work.measure_set_up(Duration::from_millis(milliseconds));
            work.add(0, 0, std::iter::empty());
            (is_long, work.total())
        };
        assert_eq!(cost(0), (false, INSTANCE));
        assert_eq!(cost(16), (false, INSTANCE));
        assert_eq!(cost(90), (true, 128 * SET_UP_MILLISECOND));
        assert_eq!(cost(110), (true, 128 * SET_UP_MILLISECOND));
    }
}
