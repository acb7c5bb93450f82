//! Measures the CPU time of a decoder's call, which `limits.call_timeout` limits. The wall clock
//! does not count: a call that waits for a processor, or in a stopped process, uses no CPU time.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Period of the engine's clock: the CPU time of a running call is checked at most this often.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// The CPU time of the running call. A call that ends before the first tick of the engine's clock
/// does not read the clock.
#[derive(Default)]
pub(crate) struct CallTime {
    limit: Duration,
    /// The thread's CPU time at the first tick of the call, at most one [`TICK`] after the call
    /// began.
    first_tick: Option<Duration>,
}

impl CallTime {
    /// The time of a call that may use `limit` of CPU time.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, first_tick: None }
    }

    /// A new call begins.
    pub(crate) fn restart(&mut self) {
        self.first_tick = None;
    }

    /// Checks the call at a tick of the engine's clock. Returns the number of ticks until the next
    /// check, or `None` if the call has used up its limit. `now` is the thread's CPU time.
    pub(crate) fn tick(&mut self, now: Duration) -> Option<u64> {
        let used = now.saturating_sub(*self.first_tick.get_or_insert(now));
        let left = self.limit.checked_sub(used).filter(|left| !left.is_zero())?;
        // The thread's CPU time never passes faster than the ticks do.
        Some(left.as_nanos().div_ceil(TICK.as_nanos()) as u64)
    }
}

/// CPU time that the calling thread has used so far.
pub(crate) fn thread_cpu_time() -> Result<Duration, nix::Error> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(300);

    /// The time of a call whose thread had used `first_tick` of CPU time at its first tick.
    fn call(first_tick: Duration) -> CallTime {
        let mut call = CallTime::new(LIMIT);
        assert_eq!(call.tick(first_tick), Some(30));
        call
    }

    #[test]
    fn only_cpu_time_counts_toward_the_limit() {
        let began = Duration::from_secs(5);
        let mut call = call(began);
        // Ticks while the call has no processor don't count toward its limit.
        for _ in 0..1_000 {
            assert_eq!(call.tick(began), Some(30));
        }
        assert_eq!(call.tick(began + LIMIT - TICK), Some(1));
        assert_eq!(call.tick(began + LIMIT - Duration::from_nanos(1)), Some(1));
        assert_eq!(call.tick(began + LIMIT), None);
    }

    #[test]
    fn the_next_check_is_at_the_earliest_tick_that_can_reach_the_limit() {
        let began = Duration::from_secs(5);
        assert_eq!(call(began).tick(began + Duration::from_millis(95)), Some(21));
    }

    #[test]
    fn thread_cpu_time_counts_work_but_not_waiting() {
        let before = thread_cpu_time().unwrap();
        let mut work = 0u64;
        while thread_cpu_time().unwrap() < before + TICK {
            work = std::hint::black_box(work + 1);
        }
        assert!(work > 0);
        let before = thread_cpu_time().unwrap();
        std::thread::sleep(5 * TICK);
        assert!(thread_cpu_time().unwrap() < before + 4 * TICK);
    }
}
