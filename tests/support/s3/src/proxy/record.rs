//! What a proxy has seen, for assertions.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::proxy::{Kind, Request};

/// One request and what became of it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What was asked.
    pub request: Request,
    /// What was answered; none where nothing was, or not yet.
    pub status: Option<u16>,
    /// The fault it got. One that found no place, such as a truncation of an empty body, is none.
    pub fault: Option<Kind>,
    /// Bytes of the body that the client was sent.
    pub body: u64,
    /// When it came, since the proxy's start.
    pub when: Duration,
    /// How long it took, once it is done.
    pub took: Option<Duration>,
}

pub(crate) struct Record {
    start: Instant,
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Default)]
struct Seen {
    entries: Vec<Entry>,
    in_flight: usize,
    most: usize,
    connections: u64,
    last_end: Option<Instant>,
}

impl Record {
    pub fn new() -> Self {
        Self { start: Instant::now(), seen: Mutex::default(), changed: Condvar::new() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("nothing panics while it is locked")
    }

    pub fn connected(&self) {
        self.seen().connections += 1;
    }

    /// A request has come. What it gives names it.
    pub fn begin(&self, request: Request) -> usize {
        let when = self.start.elapsed();
        let mut seen = self.seen();
        seen.in_flight += 1;
        seen.most = seen.most.max(seen.in_flight);
        seen.entries.push(Entry { request, status: None, fault: None, body: 0, when, took: None });
        seen.entries.len() - 1
    }

    pub fn fault(&self, request: usize, kind: Kind) {
        self.seen().entries[request].fault = Some(kind);
    }

    pub fn status(&self, request: usize, status: u16) {
        self.seen().entries[request].status = Some(status);
    }

    pub fn end(&self, request: usize, body: u64) {
        let now = self.start.elapsed();
        let mut seen = self.seen();
        seen.in_flight -= 1;
        seen.last_end = Some(Instant::now());
        let entry = &mut seen.entries[request];
        entry.body = body;
        entry.took = Some(now.saturating_sub(entry.when));
        drop(seen);
        self.changed.notify_all();
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.seen().entries.clone()
    }

    pub fn count(&self) -> usize {
        self.seen().entries.len()
    }

    pub fn connections(&self) -> u64 {
        self.seen().connections
    }

    pub fn in_flight(&self) -> (usize, usize) {
        let seen = self.seen();
        (seen.in_flight, seen.most)
    }

    pub fn faults(&self) -> BTreeMap<Kind, usize> {
        let mut faults = BTreeMap::new();
        for kind in self.seen().entries.iter().filter_map(|entry| entry.fault) {
            *faults.entry(kind).or_default() += 1;
        }
        faults
    }

    /// Whether nothing was in flight for `quiet`, within `patience`.
    pub fn wait_idle(&self, quiet: Duration, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut seen = self.seen();
        loop {
            let idle = seen.last_end.unwrap_or(self.start).elapsed();
            if seen.in_flight == 0 && idle >= quiet {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let nap = if seen.in_flight == 0 { left.min(quiet - idle) } else { left };
            seen =
                self.changed.wait_timeout(seen, nap).expect("nothing panics while it is locked").0;
        }
    }
}
