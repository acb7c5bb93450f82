//! Limits the number of log lines of all streams of a channel together.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Number of lines that a decoder may log in each period.
pub(crate) const MAX_LINES: u32 = 1_000;
/// Length of the period, which begins with its first line.
const SPAN: Duration = Duration::from_hours(1);

/// Counts the lines of a decoder in a channel, over all of its streams and threads.
#[derive(Default)]
pub(crate) struct LogBudget(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    /// Time of the first line of the period.
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
}

/// The decision about a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is logged. `left_out` is the number of earlier lines that were not logged, and not
    /// reported yet.
    Logged { left_out: u64 },
    /// It is logged as the last one of the period.
    Last,
    /// It is not logged.
    LeftOut,
}

impl LogBudget {
    /// Counts a line.
    pub(crate) fn take(&self, now: Instant) -> Verdict {
        // A panic can't leave the counts half changed.
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left_out = 0;
        if counts.since.is_none_or(|since| now.saturating_duration_since(since) >= SPAN) {
            left_out = counts.left_out;
            *counts = Counts { since: Some(now), ..Counts::default() };
        }
        if counts.lines == MAX_LINES {
            counts.left_out += 1;
            return Verdict::LeftOut;
        }
        counts.lines += 1;
        if counts.lines == MAX_LINES { Verdict::Last } else { Verdict::Logged { left_out } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_most_are_left_out_until_the_time_is_over() {
        let (budget, start) = (LogBudget::default(), Instant::now());
        for _ in 1..MAX_LINES {
            assert_eq!(budget.take(start), Verdict::Logged { left_out: 0 });
        }
        assert_eq!(budget.take(start + SPAN / 2), Verdict::Last);
        for _ in 0..3 {
            assert_eq!(budget.take(start + SPAN / 2), Verdict::LeftOut);
        }
        assert_eq!(budget.take(start + SPAN), Verdict::Logged { left_out: 3 });
        assert_eq!(budget.take(start + SPAN), Verdict::Logged { left_out: 0 });
    }
}
