//! Where the time of a stream goes. Only for measuring: watching costs a little at each crossing.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use wasmtime::CallHook;

/// Gathers the time that a stream spends in the plugin, and in what the plugin asks of the host.
#[derive(Debug, Default)]
pub struct CallProfiler(Mutex<CallTimes>);

#[derive(Debug, Default)]
struct CallTimes {
    guest: Duration,
    host: Duration,
    since: Option<Instant>,
}

impl CallProfiler {
    /// The time in the plugin, and in what it asked of the host.
    pub fn spent(&self) -> (Duration, Duration) {
        // Nothing panics while it holds the lock.
        self.0.lock().map(|spent| (spent.guest, spent.host)).unwrap_or_default()
    }

    /// The stream crosses the wall.
    pub(super) fn cross(&self, crossing: CallHook) {
        let Ok(mut spent) = self.0.lock() else { return };
        let now = Instant::now();
        let passed = spent.since.replace(now).map_or(Duration::ZERO, |since| now - since);
        match crossing {
            // What ended now began when the wall was crossed the last time.
            CallHook::ReturningFromWasm | CallHook::CallingHost => spent.guest += passed,
            CallHook::ReturningFromHost => spent.host += passed,
            CallHook::CallingWasm => {}
        }
    }
}
