//! How far ahead of its consumer a channel fetches: requests at once, and bytes that are fetched or on their
//! way but not read yet.
//!
//! Bytes ahead grow only when the consumer found nothing to read and they are what keeps requests back, only as long as
//! more of them make it wait less, and never beyond the channel's share of the budget: where a few requests fill the
//! line, more would only be more memory. Requests at once sink when the server asks for less, and come back one by one.
//!
//! One lock guards the numbers; it is held for a few instructions, once a part and once a frame of a body, and
//! nothing else is locked meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Parts ahead at the start.
const FIRST: u64 = 8;
/// After a growth that did not help, the next is tried when so many times the window was read.
const REST: u64 = 16;
/// One wave of refusals is one reason to slow down.
const WAVE: Duration = Duration::from_millis(200);

/// Bytes that all channels together may have fetched and not read: each has an equal share, and at least one
/// part, so that none waits for another.
pub(super) struct Budget {
    total: u64,
    channels: AtomicU64,
}

impl Budget {
    pub(super) fn new(total: u64) -> Arc<Self> {
        Arc::new(Self { total, channels: AtomicU64::new(0) })
    }

    fn share(&self) -> u64 {
        // Relaxed: a number by itself; nothing else is published with it.
        self.total / self.channels.load(Ordering::Relaxed).max(1)
    }
}

/// One channel's window.
pub(super) struct Window {
    budget: Arc<Budget>,
    /// Bytes of one part.
    part: u64,
    /// Requests at once, at most.
    most: usize,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    /// Bytes admitted and not read.
    reserved: u64,
    /// How many of them there may be, as far as the consumer needs it.
    ahead: u64,
    /// Since `ahead` last changed: bytes that were read, and how long the consumer waited for them.
    read: u64,
    waited: Duration,
    growth: Growth,
    in_flight: usize,
    /// Requests at once, as far as the server likes it.
    limit: usize,
    /// Requests that went well since `limit` last changed.
    went_well: usize,
    slowed: Option<Instant>,
}

/// What became of the last growth.
enum Growth {
    /// There was none, or it helped; the next is due when so many bytes were read.
    Due(u64),
    /// It is on trial: it helped if less is waited for a byte, in seconds, than this; else it goes back to so many bytes.
    Tried { wait: f64, back: u64 },
}

impl Window {
    pub(super) fn new(budget: Arc<Budget>, part: u64, most: usize) -> Arc<Self> {
        budget.channels.fetch_add(1, Ordering::Relaxed);
        let state = State {
            reserved: 0,
            ahead: FIRST * part,
            read: 0,
            waited: Duration::ZERO,
            growth: Growth::Due(FIRST * part),
            in_flight: 0,
            limit: most,
            went_well: 0,
            slowed: None,
        };
        Arc::new(Self { budget, part, most, state: Mutex::new(state), changed: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics between two changes that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a request for so many bytes may begin. One task waits at a time.
    pub(super) async fn admit(self: &Arc<Self>, bytes: u64) -> (Reserved, Permit) {
        loop {
            {
                let mut state = self.state();
                let room = state.ahead.min(self.budget.share()).max(self.part);
                let fits = state.reserved == 0 || state.reserved + bytes <= room;
                if fits && state.in_flight < state.limit {
                    return self.enter(&mut state, bytes);
                }
            }
            // A change since the lock was left is kept for this wait.
            self.changed.notified().await;
        }
    }

    /// Lets a request begin at once, for bytes that a reader already waits for.
    pub(super) fn force(self: &Arc<Self>, bytes: u64) -> (Reserved, Permit) {
        self.enter(&mut self.state(), bytes)
    }

    fn enter(self: &Arc<Self>, state: &mut State, bytes: u64) -> (Reserved, Permit) {
        state.reserved += bytes;
        state.in_flight += 1;
        (Reserved { window: self.clone(), bytes }, Permit(self.clone()))
    }

    /// The consumer found nothing to read, and waited for so long.
    pub(super) fn waited(&self, time: Duration) {
        let mut state = self.state();
        state.waited += time;
        // Where all requests are at work, more room would only be more memory.
        if state.in_flight < state.limit && state.reserved + self.part > state.ahead {
            let idle = (state.limit - state.in_flight) as u64 * self.part;
            let most = self.budget.total.max(self.part);
            if state.reconsider(idle, most) {
                drop(state);
                self.changed.notify_one();
            }
        }
    }

    /// The server asked for fewer requests.
    pub(super) fn slow_down(&self) {
        let mut state = self.state();
        if state.slowed.is_none_or(|at| at.elapsed() >= WAVE) {
            state.slowed = Some(Instant::now());
            state.limit = (state.limit / 2).max(1);
            state.went_well = 0;
        }
    }

    /// A request went well.
    pub(super) fn went_well(&self) {
        let mut state = self.state();
        if state.limit == self.most {
            return;
        }
        state.went_well += 1;
        if state.went_well >= state.limit {
            (state.limit, state.went_well) = (state.limit + 1, 0);
            drop(state);
            self.changed.notify_one();
        }
    }
}

impl State {
    /// Whether there is more room now: at most `idle` bytes more, and at most `most` in all. A window of bytes is read
    /// before it is asked again.
    fn reconsider(&mut self, idle: u64, most: u64) -> bool {
        let due = match self.growth {
            Growth::Due(due) => due,
            Growth::Tried { .. } => self.ahead,
        };
        if self.read < due {
            return false;
        }
        let wait = self.waited.as_secs_f64() / self.read as f64;
        (self.read, self.waited) = (0, Duration::ZERO);
        if let Growth::Tried { wait: least, back } = self.growth
            && wait > least
        {
            self.ahead = back;
            self.growth = Growth::Due(REST * back);
            return false;
        }
        let grown = (self.ahead + self.ahead.min(idle)).min(most);
        // Where each request has its own rate, the wait sinks at least as the window grows. Half of that is enough.
        let hoped = (1.0 + self.ahead as f64 / grown as f64) / 2.0;
        self.growth = Growth::Tried { wait: wait * hoped, back: self.ahead };
        let more = grown > self.ahead;
        self.ahead = grown;
        more
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.budget.channels.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes that a channel may hold; given back as they are read, and when dropped.
pub(super) struct Reserved {
    window: Arc<Window>,
    bytes: u64,
}

impl Reserved {
    /// Bytes not read yet.
    pub(super) fn left(&self) -> u64 {
        self.bytes
    }

    /// So many of them were read.
    pub(super) fn read(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.give_back(bytes, bytes);
    }

    fn give_back(&mut self, bytes: u64, read: u64) {
        self.bytes -= bytes;
        {
            let mut state = self.window.state();
            state.reserved -= bytes;
            state.read += read;
        }
        self.window.changed.notify_one();
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.give_back(self.bytes, 0);
        }
    }
}

/// One request at work.
pub(super) struct Permit(Arc<Window>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.state().in_flight -= 1;
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PART: u64 = 8 << 20;
    const MOST: usize = 20;

    /// Reads through a window over a line that takes so many seconds for a byte, told how many requests are at work.
    /// The answer is how many parts were ahead, window after window.
    fn read(seconds: impl Fn(f64) -> f64, consumer: f64) -> Vec<u64> {
        let window = Window::new(Budget::new(1 << 40), PART, MOST);
        let mut parts = Vec::new();
        for _ in 0..100 {
            let ahead = window.state().ahead;
            let requests = (ahead / PART).min(MOST as u64);
            // All that may be at work is, and the window is full.
            let full: Vec<_> = (0..requests).map(|_| window.force(PART)).collect();
            let wait = (seconds(requests as f64) - consumer).max(0.0) * ahead as f64;
            window.state().read += ahead;
            if wait > 0.0 {
                window.waited(Duration::from_secs_f64(wait));
            }
            drop(full);
            parts.push(ahead / PART);
        }
        parts
    }

    proptest! {
        #[test]
        fn grows_where_each_request_has_its_own_rate(rate in 1e6..1e9, consumer in 0.0..0.9) {
            let each = |requests: f64| 1.0 / (rate * requests);
            // Part of what the line takes, with all requests at work.
            let parts = read(each, consumer * each(MOST as f64));
            prop_assert_eq!(parts[10], MOST as u64);
            prop_assert_eq!(parts[99], MOST as u64);
        }

        #[test]
        fn goes_back_where_the_line_is_full_as_it_is(rate in 1e6..1e10, consumer in 0.0..0.9) {
            let parts = read(|_| 1.0 / rate, consumer / rate);
            prop_assert!(parts.iter().all(|parts| [FIRST, 2 * FIRST].contains(parts)));
            let tried = parts.iter().filter(|parts| **parts > FIRST).count();
            prop_assert!((1..=100 / REST as usize + 1).contains(&tried), "{:?}", parts);
        }

        #[test]
        fn stops_where_more_requests_stop_to_help(full in 8.0..20.0) {
            let parts = read(|requests| 1.0 / f64::min(requests, full), 0.0);
            let last = parts[99] as f64;
            prop_assert!(last >= full.min(16.0) / 2.0 && last <= 20.0, "{:?}", parts);
        }
    }

    #[test]
    fn stays_where_nobody_waits() {
        let parts = read(|requests| 1.0 / requests, 1.0);
        assert!(parts.iter().all(|parts| *parts == FIRST));
    }
}
