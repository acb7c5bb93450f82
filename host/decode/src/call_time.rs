//! The CPU time of a decoder's call, which `limits.call_timeout` limits. The wall clock does not count: a call
//! that waits for a processor, or in a process that is stopped, has used nothing.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use wasmtime::{Store, UpdateDeadline};

use super::engine::TICK;
use super::imports::HostState;

/// The time of the call that runs. A call that ends before the engine's clock ticks never reads a clock.
pub(super) struct CallTime {
    limit: Duration,
    /// The thread's CPU time at the call's first tick, which comes within a tick of its beginning.
    first_tick: Option<Duration>,
}

impl CallTime {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, first_tick: None }
    }

    /// Ticks until the next look at the clock; `None` if the call is over its limit. `now` is the
    /// thread's CPU time.
    fn tick(&mut self, now: Duration) -> Option<u64> {
        let used = now.saturating_sub(*self.first_tick.get_or_insert(now));
        let left = self.limit.checked_sub(used).filter(|left| !left.is_zero())?;
        // The thread's CPU time never passes faster than the ticks do.
        Some(left.as_nanos().div_ceil(TICK.as_nanos()) as u64)
    }
}

/// Ends each call of the store that uses more CPU time than its [`CallTime`] allows.
pub(super) fn limit_calls(store: &mut Store<HostState>) {
    store.epoch_deadline_callback(|mut store| {
        let now = thread_cpu_time()?;
        let next = store.data_mut().call_time.tick(now);
        Ok(next.map_or(UpdateDeadline::Interrupt, UpdateDeadline::Continue))
    });
}

/// To be called before each call into the guest.
pub(super) fn begin_call(store: &mut Store<HostState>) {
    store.data_mut().call_time.first_tick = None;
    store.set_epoch_deadline(1);
}

fn thread_cpu_time() -> Result<Duration, nix::Error> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(300);

    /// A call whose first tick was at this CPU time of its thread.
    fn call(first_tick: Duration) -> CallTime {
        let mut call = CallTime::new(LIMIT);
        assert_eq!(call.tick(first_tick), Some(30));
        call
    }

    #[test]
    fn a_call_is_over_its_limit_by_cpu_time_alone() {
        let began = Duration::from_secs(5);
        let mut call = call(began);
        // However many ticks come while it has no processor.
        for _ in 0..1_000 {
            assert_eq!(call.tick(began), Some(30));
        }
        assert_eq!(call.tick(began + LIMIT - TICK), Some(1));
        assert_eq!(call.tick(began + LIMIT - Duration::from_nanos(1)), Some(1));
        assert_eq!(call.tick(began + LIMIT), None);
    }

    #[test]
    fn the_next_look_is_when_the_limit_can_be_reached_at_the_earliest() {
        let began = Duration::from_secs(5);
        assert_eq!(call(began).tick(began + Duration::from_millis(95)), Some(21));
    }

    #[test]
    fn the_clock_counts_work_and_not_waiting() {
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
