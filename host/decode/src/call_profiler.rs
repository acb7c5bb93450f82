//! Measures where the time of a stream goes. For `pipemill plugin bench` only, because it reads the
//! clock whenever the sandbox is entered or left.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use wasmtime::CallHook;

/// Sums the time that a stream spends in the decoder, and in the host's functions that it calls.
#[derive(Debug, Default)]
pub struct CallProfiler(Mutex<CallTimes>);

#[derive(Debug, Default)]
struct CallTimes {
    guest: Duration,
    host: Duration,
    /// The last transition between host and guest.
    since: Option<Instant>,
}

impl CallProfiler {
    /// The time in the decoder so far, and the time in the host's functions that it called.
    pub fn spent(&self) -> (Duration, Duration) {
        // Nothing panics while it holds the lock.
        self.0.lock().map(|times| (times.guest, times.host)).unwrap_or_default()
    }

    /// Records a transition between host and guest.
    pub(super) fn record(&self, transition: CallHook) {
        let Ok(mut times) = self.0.lock() else { return };
        let now = Instant::now();
        let passed = times.since.replace(now).map_or(Duration::ZERO, |since| now - since);
        match transition {
            CallHook::ReturningFromWasm | CallHook::CallingHost => times.guest += passed,
            CallHook::ReturningFromHost => times.host += passed,
            CallHook::CallingWasm => {}
        }
    }
}
