//! The minimum speed of a request: without it, a server that sends a byte now and then could keep a
//! reader waiting for as long as the object lasts.

use std::time::{Duration, Instant};

/// Minimum rate in bytes per second.
const LEAST_RATE: u64 = 1 << 10;
/// The shortest time over which bytes are counted.
const SHORTEST: Duration = Duration::from_secs(1);

/// Counts the bytes of a request and of the requests that continue it.
pub(super) struct Pace {
    /// The time over which bytes are counted.
    span: Duration,
    /// A pause counts as at most this long: other limits decide whether it is too long.
    longest_pause: Duration,
    last: Instant,
    /// Time since the count began.
    waited: Duration,
    bytes: u64,
}

impl Pace {
    pub(super) fn new(span: Duration, longest_pause: Duration) -> Self {
        let span = span.max(longest_pause).max(SHORTEST);
        Self { span, longest_pause, last: Instant::now(), waited: Duration::ZERO, bytes: 0 }
    }

    /// Counts received bytes.
    ///
    /// # Errors
    /// The bytes arrive too slowly; the error says how slowly.
    pub(super) fn received(&mut self, bytes: usize) -> Result<(), String> {
        let pause = self.last.elapsed();
        self.last = Instant::now();
        self.add(pause, bytes)
    }

    fn add(&mut self, pause: Duration, bytes: usize) -> Result<(), String> {
        self.waited += pause.min(self.longest_pause);
        self.bytes += bytes as u64;
        if self.waited < self.span {
            return Ok(());
        }
        let (bytes, waited) = (self.bytes, self.waited);
        (self.bytes, self.waited) = (0, Duration::ZERO);
        if bytes >= LEAST_RATE.saturating_mul(self.span.as_secs()) {
            return Ok(());
        }
        let seconds = waited.as_secs_f64();
        Err(format!(
            "only {bytes} bytes came in {seconds:.1} s, expected at least {LEAST_RATE} a second"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_byte_now_and_then_is_too_slow() {
        let mut pace = Pace::new(60 * SECOND, 10 * SECOND);
        let pause = SECOND * 2 / 5;
        let slow = (0..).find_map(|count| pace.add(pause, 1).err().map(|why| (count, why)));
        let (count, why) = slow.unwrap();
        assert_eq!(count, 149);
        assert!(why.starts_with("only 150 bytes came in 60.0 s"), "{why}");
    }

    #[test]
    fn a_server_that_was_away_for_long_may_go_on() {
        let mut pace = Pace::new(60 * SECOND, 10 * SECOND);
        for _ in 0..1_000 {
            for _ in 0..5 {
                assert_eq!(pace.add(SECOND * 3_600, 15 << 10), Ok(()));
            }
            assert_eq!(pace.add(Duration::ZERO, 8 << 20), Ok(()));
        }
    }

    #[test]
    fn a_slow_line_is_fast_enough() {
        let mut pace = Pace::new(60 * SECOND, 10 * SECOND);
        for _ in 0..1_000 {
            assert_eq!(pace.add(SECOND, 1_100), Ok(()));
        }
    }
}
