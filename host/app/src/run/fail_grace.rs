//! How long a failure waits for those whom it concerns.

use std::time::{Duration, Instant};

/// The time that consumers have to get a failure: it begins anew as long as they get on with what was
/// granted before it.
pub(super) struct Grace {
    until: Instant,
    unread: usize,
    timeouts: Duration,
}

impl Grace {
    /// `unread`: what consumers have not ACKed yet.
    pub(super) fn new(timeouts: Duration, unread: usize, now: Instant) -> Self {
        Self { until: now + timeouts, unread, timeouts }
    }

    pub(super) fn is_over(&mut self, unread: usize, now: Instant) -> bool {
        if unread != self.unread {
            (self.unread, self.until) = (unread, now + self.timeouts);
        }
        now >= self.until
    }

    pub(super) fn until(&self) -> Instant {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_reads_on_is_waited_for() {
        let (second, start) = (Duration::from_secs(1), Instant::now());
        let mut grace = Grace::new(10 * second, 16, start);
        let slow = (1..=16u32).map(|ack| (16 - ack as usize, start + ack * 9 * second));
        for (unread, now) in slow {
            assert!(!grace.is_over(unread, now));
        }
        let last = start + 16 * 9 * second;
        assert!(!grace.is_over(0, last + 9 * second));
        assert!(grace.is_over(0, last + 10 * second));
    }
}
