//! How long the host keeps serving after a channel failed, so that consumers get the error.

use std::time::{Duration, Instant};

/// The time that consumers have to get a failure. It starts again whenever the number of batches
/// that they have not ACKed changes.
pub(super) struct Grace {
    deadline: Instant,
    unacked: usize,
    grace: Duration,
}

impl Grace {
    /// `unacked`: number of batches of failed channels that consumers have not ACKed.
    pub(super) fn new(grace: Duration, unacked: usize, now: Instant) -> Self {
        Self { deadline: now + grace, unacked, grace }
    }

    pub(super) fn is_over(&mut self, unacked: usize, now: Instant) -> bool {
        if unacked != self.unacked {
            (self.unacked, self.deadline) = (unacked, now + self.grace);
        }
        now >= self.deadline
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ack_starts_the_time_again() {
        let (second, start) = (Duration::from_secs(1), Instant::now());
        let mut grace = Grace::new(10 * second, 16, start);
        let slow = (1..=16u32).map(|ack| (16 - ack as usize, start + ack * 9 * second));
        for (unacked, now) in slow {
            assert!(!grace.is_over(unacked, now));
        }
        let last = start + 16 * 9 * second;
        assert!(!grace.is_over(0, last + 9 * second));
        assert!(grace.is_over(0, last + 10 * second));
    }
}
