//! Measures how a stream spends its time. For `pipemill plugin bench` only, because it reads the
//! clock whenever the sandbox is entered or left.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use wasmtime::CallHook;

/// Sums the time that a stream spends in the decoder, and in the host's functions that the decoder
/// calls.
#[derive(Debug, Default)]
pub struct CallProfiler(Mutex<CallTimes>);

#[derive(Debug, Default)]
struct CallTimes {
    guest: Duration,
    host: Duration,
    /// Time of the last transition between host and guest.
    since: Option<Instant>,
    /// Whether the guest has called a function of the host that has not returned yet.
    in_host: bool,
}

impl CallProfiler {
    /// The time in the decoder so far, and the time in the host's functions that it called.
    pub fn spent(&self) -> (Duration, Duration) {
        // Nothing panics while it holds the lock.
        self.0.lock().map(|times| (times.guest, times.host)).unwrap_or_default()
    }

    /// Records a transition between host and guest.
    pub(crate) fn record(&self, transition: CallHook) {
        let Ok(mut times) = self.0.lock() else { return };
        times.record(transition, Instant::now());
    }
}

impl CallTimes {
    /// Adds the time since the last transition to the side that spent it. A function of the host
    /// that returns bytes, as `decompress` does, calls the guest for memory before it returns: the
    /// time before that call belongs to the function.
    fn record(&mut self, transition: CallHook, now: Instant) {
        let passed = self.since.replace(now).map_or(Duration::ZERO, |since| now - since);
        match transition {
            CallHook::CallingHost => (self.guest, self.in_host) = (self.guest + passed, true),
            CallHook::ReturningFromHost => (self.host, self.in_host) = (self.host + passed, false),
            CallHook::ReturningFromWasm => self.guest += passed,
            CallHook::CallingWasm if self.in_host => self.host += passed,
            CallHook::CallingWasm => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use wasmtime::CallHook;

    use super::CallTimes;

    #[test]
    fn what_a_function_of_the_host_does_before_it_asks_for_memory_is_its_own() {
        let (mut times, mut now) = (CallTimes::default(), Instant::now());
        for (transition, seconds) in [
            (CallHook::CallingWasm, 1),
            (CallHook::CallingHost, 2),
            // `decompress` inflates, asks for memory, and copies.
            (CallHook::CallingWasm, 4),
            (CallHook::ReturningFromWasm, 8),
            (CallHook::ReturningFromHost, 16),
            (CallHook::ReturningFromWasm, 32),
            // This pause is between two calls of the decoder.
            (CallHook::CallingWasm, 64),
            (CallHook::ReturningFromWasm, 128),
        ] {
            now += Duration::from_secs(seconds);
            times.record(transition, now);
        }
        let seconds = |time: Duration| time.as_secs();
        assert_eq!((seconds(times.guest), seconds(times.host)), (2 + 8 + 32 + 128, 4 + 16));
    }
}
