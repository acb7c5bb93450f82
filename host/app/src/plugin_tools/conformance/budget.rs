//! How much is tried of each kind of cases: a number of cases, a time, or both.

use std::time::{Duration, Instant};

/// What is left for one kind of cases.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    cases: u64,
    until: Option<Instant>,
    done: u64,
}

/// Cases that are tried even if the time is over.
const MIN_CASES: u64 = 10;

impl Budget {
    /// A budget of so many cases, and of this time from now on.
    pub(super) fn new(cases: u64, time: Option<Duration>) -> Self {
        // A time that does not fit is no limit.
        let until = time.and_then(|time| Instant::now().checked_add(time));
        Self { cases, until, done: 0 }
    }

    /// Takes one case. Returns false if nothing is left.
    pub(super) fn take(&mut self) -> bool {
        let in_time = self.done < MIN_CASES || self.until.is_none_or(|end| Instant::now() < end);
        let go_on = self.done < self.cases && in_time;
        self.done += u64::from(go_on);
        go_on
    }

    /// Number of cases that were taken.
    pub(super) fn done(&self) -> u64 {
        self.done
    }
}
