//! How far ahead of its consumer a channel fetches: requests at once, and bytes that are fetched or on their
//! way but not read yet.
//!
//! Bytes ahead grow only when the consumer found nothing to read and they are what keeps requests back, and never
//! beyond the channel's share of the budget. Requests at once sink when the server asks for less, and come back one by one.
//!
//! One lock guards the numbers; it is held for a few instructions, once a part and once a frame of a body, and
//! nothing else is locked meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Parts ahead at the start.
const FIRST: u64 = 4;
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
    in_flight: usize,
    /// Requests at once, as far as the server likes it.
    limit: usize,
    /// Requests that went well since `limit` last changed.
    went_well: usize,
    slowed: Option<Instant>,
}

impl Window {
    pub(super) fn new(budget: Arc<Budget>, part: u64, most: usize) -> Arc<Self> {
        budget.channels.fetch_add(1, Ordering::Relaxed);
        let state = State {
            reserved: 0,
            ahead: FIRST * part,
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

    /// The consumer found nothing to read.
    pub(super) fn starved(&self) {
        let mut state = self.state();
        // Where all requests are at work, more room would only be more memory.
        if state.in_flight < state.limit && state.reserved + self.part > state.ahead {
            let idle = (state.limit - state.in_flight) as u64 * self.part;
            let ahead = state.ahead + state.ahead.min(idle);
            state.ahead = ahead.min(self.budget.total.max(self.part));
            drop(state);
            self.changed.notify_one();
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
        self.bytes -= bytes;
        self.window.state().reserved -= bytes;
        self.window.changed.notify_one();
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.read(self.bytes);
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
