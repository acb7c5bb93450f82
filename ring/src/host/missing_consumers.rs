//! Tracks missing consumers: for how long the writer waited while too few were connected. It is a
//! pure rule: the times are arguments.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The time since which the current consumers of a ring are connected, and how long a thread has
/// waited although nothing could be granted, because consumers were missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MissingConsumers {
    /// When a consumer last connected or disconnected; the ring's start before that.
    pub(super) since: Instant,
    /// Whether a consumer was ever connected.
    pub(super) ever: bool,
    /// Start of the current wait for missing consumers; `None` if there is none.
    missed_since: Option<Instant>,
    /// Duration of earlier such waits.
    missed: Duration,
    /// The process of each rank that was connected and has left.
    pub(super) left: BTreeMap<u32, i32>,
}

impl MissingConsumers {
    /// A ring that starts now, without a consumer.
    pub(super) fn new(now: Instant) -> MissingConsumers {
        let (missed, left) = (Duration::ZERO, BTreeMap::new());
        MissingConsumers { since: now, ever: false, missed_since: None, missed, left }
    }

    /// Records that the consumer of this rank has connected.
    pub(super) fn come(&mut self, rank: u32, now: Instant) {
        (self.since, self.ever) = (now, true);
        self.left.remove(&rank);
    }

    /// Records that the consumer of this rank, a process, has disconnected.
    pub(super) fn leave(&mut self, rank: u32, pid: i32, now: Instant) {
        (self.since, self.ever) = (now, true);
        self.left.insert(rank, pid);
    }

    /// Sets whether consumers are missing from now on and a thread waits for them.
    pub(super) fn set_missed(&mut self, missed: bool, now: Instant) {
        match (self.missed_since, missed) {
            (Some(_), false) => {
                self.missed = self.missed(now);
                self.missed_since = None;
            }
            (None, true) => self.missed_since = Some(now),
            (Some(_), true) | (None, false) => {}
        }
    }

    /// Total time that a thread waited for missing consumers, up to now.
    pub(super) fn missed(&self, now: Instant) -> Duration {
        let current = self.missed_since.map(|since| now.saturating_duration_since(since));
        self.missed + current.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_in_which_consumers_were_missed_are_summed_up() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let seconds = Duration::from_secs;
        let mut missing = MissingConsumers::new(start);
        assert_eq!(missing.missed(at(5)), Duration::ZERO);
        missing.set_missed(true, at(10));
        missing.set_missed(true, at(12));
        assert_eq!(missing.missed(at(15)), seconds(5));
        missing.set_missed(false, at(20));
        missing.set_missed(false, at(30));
        assert_eq!(missing.missed(at(100)), seconds(10));
        missing.set_missed(true, at(100));
        assert_eq!(missing.missed(at(107)), seconds(17));
    }
}
