//! How much is tried of each kind of cases: a number of cases, and an amount of work or a time.

use std::time::{Duration, Instant};

use crate::plugin_tools::work::Work;

/// What is left for one kind of cases.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    cases: u64,
    done: u64,
    end: End,
}

/// When the cases end, besides their number.
#[derive(Debug, Clone)]
enum End {
    /// When this much work is done.
    Work(Work, u64),
    /// At this time; `None` if it is too far away for a clock.
    Time(Option<Instant>),
}

/// Cases that are tried whatever they cost.
const MIN_CASES: u64 = 2;
/// The work for one kind of cases, in bytes: at most some seconds where little is optimized.
const WORK: u64 = 128 << 20;

impl Budget {
    /// A budget of so many cases and of this time from now on. Without a time, the work is limited.
    pub(super) fn new(cases: u64, time: Option<Duration>, work: &Work) -> Self {
        let end = match time {
            Some(time) => End::Time(Instant::now().checked_add(time)),
            None => End::Work(work.clone(), work.total().saturating_add(WORK)),
        };
        Self { cases, done: 0, end }
    }

    /// Takes one case. Returns false if nothing is left.
    pub(super) fn take(&mut self) -> bool {
        let is_left = self.done < MIN_CASES
            || match &self.end {
                End::Work(work, end) => work.total() < *end,
                End::Time(end) => end.is_none_or(|end| Instant::now() < end),
            };
        let go_on = self.done < self.cases && is_left;
        self.done += u64::from(go_on);
        go_on
    }

    /// Number of cases that were taken.
    pub(super) fn done(&self) -> u64 {
        self.done
    }
}
