//! Limits the cases of each kind: a number of cases, and an amount of work or a time.

use std::time::{Duration, Instant};

use crate::work::Work;

/// The remaining budget for one kind of cases.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    cases: u64,
    done: u64,
    end: End,
}

/// The end of the cases, in addition to their number.
#[derive(Debug, Clone)]
enum End {
    /// After this amount of work.
    Work(Work, u64),
    /// At this time; `None` if it is too far away for a clock.
    Time(Option<Instant>),
}

/// Number of cases that are tried regardless of their cost.
const MIN_CASES: u64 = 2;
/// The work for one kind of cases, in bytes: at most some seconds in a build with little
/// optimization.
const WORK: u64 = 128 << 20;

impl Budget {
    /// A budget of `cases` cases and of this time from now on. Without a time, the work is limited.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Budget, MIN_CASES, WORK};
    use crate::work::Work;

    /// The cases that a budget gives if each one shows `shown` bytes.
    fn taken(mut budget: Budget, work: &Work, shown: u64) -> u64 {
        while budget.take() {
            work.add(1, shown, std::iter::empty());
        }
        budget.done()
    }

    #[test]
    fn cases_end_with_their_number_or_with_the_work() {
        let work = Work::default();
        let budget = |cases| Budget::new(cases, None, &work);
        assert_eq!(taken(budget(500), &work, 0), 500);
        assert_eq!(taken(budget(0), &work, 0), 0);
        // Earlier work does not count.
        for _ in 0..2 {
            let cases = taken(budget(u64::MAX), &work, WORK / 10);
            assert_eq!(cases, 10);
        }
        assert_eq!(taken(budget(u64::MAX), &work, WORK * 10), MIN_CASES);
        assert_eq!(taken(budget(1), &work, WORK * 10), 1);
    }

    #[test]
    fn with_a_time_the_work_has_no_limit() {
        let work = Work::default();
        let budget = |time| Budget::new(100, Some(time), &work);
        assert_eq!(taken(budget(Duration::MAX), &work, WORK * 10), 100);
        assert_eq!(taken(budget(Duration::ZERO), &work, 0), MIN_CASES);
    }
}
