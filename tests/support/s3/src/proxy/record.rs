//! The log of a proxy's requests, for assertions.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::proxy::{Kind, Request};

/// One request and its outcome.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The request.
    pub request: Request,
    /// The status of the answer. `None` if there is no answer, or not yet.
    pub status: Option<u16>,
    /// The fault that was injected. `None` if there was none, or if it had no effect, such as a
    /// truncation of an empty body.
    pub fault: Option<Kind>,
    /// The bytes of the body that were sent to the client.
    pub body: u64,
    /// When the request arrived: the time since the proxy's start.
    pub when: Duration,
    /// How long the request took. `None` until it is complete.
    pub elapsed: Option<Duration>,
}

pub(crate) struct RequestLog {
    start: Instant,
    state: Mutex<LogState>,
    changed: Condvar,
}

#[derive(Default)]
struct LogState {
    entries: Vec<Entry>,
    in_flight: usize,
    max_in_flight: usize,
    connections: u64,
    last_end: Option<Instant>,
}

impl RequestLog {
    pub fn new() -> Self {
        Self { start: Instant::now(), state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().expect("nothing panics while it is locked")
    }

    pub fn connected(&self) {
        self.state().connections += 1;
    }

    /// Adds a request, and gives its index for the other methods.
    pub fn begin(&self, request: Request) -> usize {
        let when = self.start.elapsed();
        let mut state = self.state();
        state.in_flight += 1;
        state.max_in_flight = state.max_in_flight.max(state.in_flight);
        state.entries.push(Entry {
            request,
            status: None,
            fault: None,
            body: 0,
            when,
            elapsed: None,
        });
        state.entries.len() - 1
    }

    pub fn fault(&self, request: usize, kind: Kind) {
        self.state().entries[request].fault = Some(kind);
    }

    pub fn status(&self, request: usize, status: u16) {
        self.state().entries[request].status = Some(status);
    }

    pub fn end(&self, request: usize, body: u64) {
        let now = self.start.elapsed();
        let mut state = self.state();
        state.in_flight -= 1;
        state.last_end = Some(Instant::now());
        let entry = &mut state.entries[request];
        entry.body = body;
        entry.elapsed = Some(now.saturating_sub(entry.when));
        drop(state);
        self.changed.notify_all();
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.state().entries.clone()
    }

    pub fn count(&self) -> usize {
        self.state().entries.len()
    }

    pub fn connections(&self) -> u64 {
        self.state().connections
    }

    pub fn in_flight(&self) -> (usize, usize) {
        let state = self.state();
        (state.in_flight, state.max_in_flight)
    }

    pub fn faults(&self) -> BTreeMap<Kind, usize> {
        let mut faults = BTreeMap::new();
        for kind in self.state().entries.iter().filter_map(|entry| entry.fault) {
            *faults.entry(kind).or_default() += 1;
        }
        faults
    }

    /// Waits until no request has been in flight for `quiet`. False if that takes more than
    /// `timeout`.
    pub fn wait_idle(&self, quiet: Duration, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        let mut state = self.state();
        loop {
            let idle = state.last_end.unwrap_or(self.start).elapsed();
            if state.in_flight == 0 && idle >= quiet {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let nap = if state.in_flight == 0 { left.min(quiet - idle) } else { left };
            state =
                self.changed.wait_timeout(state, nap).expect("nothing panics while it is locked").0;
        }
    }
}
