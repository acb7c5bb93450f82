//! Backpressure: the [`ReadWindow`] limits how far a channel's requests run ahead of its reader, in
//! requests at the same time and in bytes that are requested or fetched but not read yet.
//!
//! The window grows only if the reader had to wait and if the window, not the number of requests,
//! held requests back. A growth is kept only if it shortens the wait per byte: where a few requests
//! use the full bandwidth, a larger window would only use more memory. It never exceeds the
//! channel's share of the budget. The number of requests is halved if the server asks for fewer,
//! and grows again one by one.
//!
//! One lock guards the state. It is held for a few instructions, once for each part and once for
//! each frame of a body, and no other lock is taken meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex as AsyncMutex, Notify, OwnedSemaphorePermit, Semaphore};

/// Initial size of the window in parts.
const INITIAL_WINDOW_PARTS: u64 = 8;
/// After a growth that did not help, the window stays as it is while this many windows are read.
const WINDOWS_BETWEEN_GROWTHS: u64 = 16;
/// Refusals by the server within this time halve the number of requests only once.
const SLOW_DOWN_INTERVAL: Duration = Duration::from_millis(200);

/// Bytes that all channels together may have requested or fetched and not read. Each channel has an
/// equal share and at least one part, so that no channel waits for another.
pub(super) struct Budget {
    total: u64,
    channels: AtomicU64,
}

impl Budget {
    pub(super) fn new(total: u64) -> Arc<Self> {
        Arc::new(Self { total, channels: AtomicU64::new(0) })
    }

    /// One channel's share in bytes.
    fn share(&self) -> u64 {
        // Relaxed: no other data is published with this number.
        self.total / self.channels.load(Ordering::Relaxed).max(1)
    }
}

/// One channel's window.
pub(super) struct ReadWindow {
    budget: Arc<Budget>,
    /// Size of a part in bytes.
    part_size: u64,
    /// The configured largest number of requests at the same time.
    max_requests: usize,
    state: Mutex<WindowState>,
    /// Held by the task that waits for room: others wait for their turn.
    turn: AsyncMutex<()>,
    /// Wakes the task that waits for room, as soon as there is enough.
    has_room: Notify,
    /// Permits for requests of bytes for which the reader waits.
    at_once: Arc<Semaphore>,
}

struct WindowState {
    /// Bytes requested or fetched, and not read.
    reserved: u64,
    /// Bytes for which the task with the turn waits, or waited when it was aborted.
    wanted: Option<u64>,
    /// Size of the window: the upper limit of `reserved`, if the budget allows it.
    size: u64,
    /// Bytes read since `size` last changed.
    read: u64,
    /// Time that the reader has waited since `size` last changed.
    waited: Duration,
    growth: Growth,
    /// Number of requests in flight.
    in_flight: usize,
    /// Upper limit of `in_flight`: `max_requests`, or less if the server asked for fewer requests.
    request_limit: usize,
    /// Number of requests that succeeded since `request_limit` last changed.
    succeeded: usize,
    slowed_down_at: Option<Instant>,
}

/// State of the window's growth.
enum Growth {
    /// No growth is under test. The next one is possible after this number of bytes is read.
    PossibleAfter(u64),
    /// Growth under test: keep it if the wait per byte, in seconds, is at most `wait`, otherwise go
    /// back to a window of `back` bytes.
    UnderTest { wait: f64, back: u64 },
}

impl ReadWindow {
    pub(super) fn new(budget: Arc<Budget>, part_size: u64, max_requests: usize) -> Arc<Self> {
        budget.channels.fetch_add(1, Ordering::Relaxed);
        let initial_size = INITIAL_WINDOW_PARTS * part_size;
        let state = WindowState {
            reserved: 0,
            wanted: None,
            size: initial_size,
            read: 0,
            waited: Duration::ZERO,
            growth: Growth::PossibleAfter(initial_size),
            in_flight: 0,
            request_limit: max_requests,
            succeeded: 0,
            slowed_down_at: None,
        };
        let (state, turn, has_room) = (Mutex::new(state), AsyncMutex::new(()), Notify::new());
        let at_once = Arc::new(Semaphore::new(max_requests));
        Arc::new(Self { budget, part_size, max_requests, state, turn, has_room, at_once })
    }

    fn state(&self) -> MutexGuard<'_, WindowState> {
        // A poisoned state is consistent: nothing panics between changes that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a request for this number of bytes may start. The task of a skipped epoch may
    /// wait here, or reserve, while the task of the next epoch does.
    pub(super) async fn reserve(self: &Arc<Self>, bytes: u64) -> (Reservation, RequestPermit) {
        let _turn = self.turn.lock().await;
        loop {
            {
                let mut state = self.state();
                if self.has_room_for(&state, bytes) {
                    state.wanted = None;
                    return self.reserve_now(&mut state, bytes);
                }
                state.wanted = Some(bytes);
            }
            // `Notify` stores a change that happens between the unlock and this wait.
            self.has_room.notified().await;
        }
    }

    fn has_room_for(&self, state: &WindowState, bytes: u64) -> bool {
        let size = state.size.min(self.budget.share()).max(self.part_size);
        let fits = state.reserved == 0 || state.reserved + bytes <= size;
        fits && state.in_flight < state.request_limit
    }

    /// Wakes the task that waits, if there is room for what it wants now. Most changes make too
    /// little room, and a wake costs more than to read a page.
    fn wake(&self, state: MutexGuard<WindowState>) {
        let has_room = state.wanted.is_some_and(|bytes| self.has_room_for(&state, bytes));
        drop(state);
        if has_room {
            self.has_room.notify_one();
        }
    }

    /// Reserves bytes for which the reader already waits, or soon does, regardless of the bytes
    /// that are reserved. Waits while as many of these requests are in flight as the settings
    /// allow.
    pub(super) async fn force(self: &Arc<Self>, bytes: u64) -> (Reservation, RequestPermit) {
        // The semaphore is never closed.
        let permit = self.at_once.clone().acquire_owned().await.ok();
        let (reservation, mut request) = self.reserve_now(&mut self.state(), bytes);
        request.at_once = permit;
        (reservation, request)
    }

    /// Number of bytes that may be requested in addition to those that are requested or fetched.
    pub(super) fn room(&self) -> u64 {
        self.budget.share().saturating_sub(self.state().reserved)
    }

    fn reserve_now(
        self: &Arc<Self>,
        state: &mut WindowState,
        bytes: u64,
    ) -> (Reservation, RequestPermit) {
        state.reserved += bytes;
        state.in_flight += 1;
        let permit = RequestPermit { window: self.clone(), at_once: None };
        (Reservation { window: self.clone(), bytes }, permit)
    }

    /// Reports that the reader found no byte and waited for this time.
    pub(super) fn reader_waited(&self, time: Duration) {
        let mut state = self.state();
        state.waited += time;
        // If the number of requests is at its limit, a larger window would only use more memory.
        if state.in_flight < state.request_limit && state.reserved + self.part_size > state.size {
            let idle = (state.request_limit - state.in_flight) as u64 * self.part_size;
            let max_size = self.budget.total.max(self.part_size);
            if state.adjust_size(idle, max_size) {
                self.wake(state);
            }
        }
    }

    /// Reports that the server asked for fewer requests.
    pub(super) fn slow_down(&self) {
        let mut state = self.state();
        if state.slowed_down_at.is_none_or(|at| at.elapsed() >= SLOW_DOWN_INTERVAL) {
            state.slowed_down_at = Some(Instant::now());
            state.request_limit = (state.request_limit / 2).max(1);
            state.succeeded = 0;
        }
    }

    /// Reports that a request succeeded.
    pub(super) fn request_succeeded(&self) {
        let mut state = self.state();
        if state.request_limit == self.max_requests {
            return;
        }
        state.succeeded += 1;
        if state.succeeded >= state.request_limit {
            (state.request_limit, state.succeeded) = (state.request_limit + 1, 0);
            self.wake(state);
        }
    }
}

impl WindowState {
    /// Grows the window, or ends the test of a growth. Does nothing before enough bytes are read
    /// since the last change. The window grows by at most `idle` bytes, which the idle requests
    /// could fetch, and to at most `max_size` bytes. Returns whether it is larger now.
    fn adjust_size(&mut self, idle: u64, max_size: u64) -> bool {
        let bytes_before_change = match self.growth {
            Growth::PossibleAfter(bytes) => bytes,
            Growth::UnderTest { .. } => self.size,
        };
        if self.read < bytes_before_change {
            return false;
        }
        let wait = self.waited.as_secs_f64() / self.read as f64;
        (self.read, self.waited) = (0, Duration::ZERO);
        if let Growth::UnderTest { wait: wait_to_keep, back } = self.growth
            && wait > wait_to_keep
        {
            self.size = back;
            self.growth = Growth::PossibleAfter(WINDOWS_BETWEEN_GROWTHS * back);
            return false;
        }
        let grown = (self.size + self.size.min(idle)).min(max_size);
        // If the bandwidth is a limit per request, the wait shrinks at least as much as the window
        // grows. Half of that is enough to keep the growth.
        let factor = (1.0 + self.size as f64 / grown as f64) / 2.0;
        self.growth = Growth::UnderTest { wait: wait * factor, back: self.size };
        let is_larger = grown > self.size;
        self.size = grown;
        is_larger
    }
}

impl Drop for ReadWindow {
    fn drop(&mut self) {
        self.budget.channels.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes of a window that are reserved for one part. They are released as they are read, and the
/// rest when this is dropped.
pub(super) struct Reservation {
    window: Arc<ReadWindow>,
    bytes: u64,
}

impl Reservation {
    /// Bytes not read yet.
    pub(super) fn left(&self) -> u64 {
        self.bytes
    }

    /// Releases bytes that were read.
    pub(super) fn read(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.release(bytes, bytes);
    }

    fn release(&mut self, bytes: u64, read: u64) {
        self.bytes -= bytes;
        let mut state = self.window.state();
        state.reserved -= bytes;
        state.read += read;
        self.window.wake(state);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.release(self.bytes, 0);
        }
    }
}

/// Permit for one request. It is in flight until the drop.
pub(super) struct RequestPermit {
    window: Arc<ReadWindow>,
    /// The permit of a request for which the reader waits.
    at_once: Option<OwnedSemaphorePermit>,
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        let mut state = self.window.state();
        state.in_flight -= 1;
        self.window.wake(state);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use proptest::prelude::*;

    use super::*;

    const PART_SIZE: u64 = 8 << 20;
    const MAX_REQUESTS: usize = 20;

    /// Simulates 100 windows of reading and returns the size of each window in parts.
    /// `seconds_per_byte` is the network's time for a byte, given the number of requests in flight;
    /// `consumer` is the consumer's time for a byte in seconds.
    fn simulate(seconds_per_byte: impl Fn(f64) -> f64, consumer: f64) -> Vec<u64> {
        let window = ReadWindow::new(Budget::new(1 << 40), PART_SIZE, MAX_REQUESTS);
        let mut parts = Vec::new();
        for _ in 0..100 {
            let size = window.state().size;
            let requests = (size / PART_SIZE).min(MAX_REQUESTS as u64);
            // The window is full, and as many requests as possible are in flight.
            let full: Vec<_> =
                (0..requests).map(|_| window.reserve_now(&mut window.state(), PART_SIZE)).collect();
            let wait = (seconds_per_byte(requests as f64) - consumer).max(0.0) * size as f64;
            window.state().read += size;
            if wait > 0.0 {
                window.reader_waited(Duration::from_secs_f64(wait));
            }
            drop(full);
            parts.push(size / PART_SIZE);
        }
        parts
    }

    proptest! {
        #[test]
        fn grows_if_the_bandwidth_is_a_limit_per_request(rate in 1e6..1e9, consumer in 0.0..0.9) {
            let per_request = |requests: f64| 1.0 / (rate * requests);
            // The consumer takes a fraction of the network's time with all requests in flight.
            let parts = simulate(per_request, consumer * per_request(MAX_REQUESTS as f64));
            prop_assert_eq!(parts[10], MAX_REQUESTS as u64);
            prop_assert_eq!(parts[99], MAX_REQUESTS as u64);
        }

        #[test]
        fn goes_back_if_a_growth_does_not_help(rate in 1e6..1e10, consumer in 0.0..0.9) {
            let parts = simulate(|_| 1.0 / rate, consumer / rate);
            let (initial, grown) = (INITIAL_WINDOW_PARTS, 2 * INITIAL_WINDOW_PARTS);
            prop_assert!(parts.iter().all(|parts| [initial, grown].contains(parts)));
            let tests = parts.iter().filter(|parts| **parts > initial).count();
            let max_tests = 100 / WINDOWS_BETWEEN_GROWTHS as usize + 1;
            prop_assert!((1..=max_tests).contains(&tests), "{:?}", parts);
        }

        #[test]
        fn stops_to_grow_when_more_requests_do_not_help(full in 8.0..20.0) {
            let parts = simulate(|requests| 1.0 / f64::min(requests, full), 0.0);
            let last = parts[99] as f64;
            prop_assert!(last >= full.min(16.0) / 2.0 && last <= 20.0, "{:?}", parts);
        }
    }

    fn poll<F: Future>(task: &mut Pin<Box<F>>) -> Poll<F::Output> {
        task.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Of two tasks that wait, the first one is aborted: while it waits, or with what it was given.
    #[test]
    fn a_task_that_is_aborted_leaves_the_room_to_the_next_one() {
        for is_given in [false, true] {
            let window = ReadWindow::new(Budget::new(PART_SIZE), PART_SIZE, MAX_REQUESTS);
            let mut held = Box::pin(window.reserve(PART_SIZE));
            let Poll::Ready((held, request)) = poll(&mut held) else { panic!("it is alone") };
            drop(request);
            let mut first = Box::pin(window.reserve(PART_SIZE));
            let mut next = Box::pin(window.reserve(PART_SIZE));
            assert!(poll(&mut first).is_pending() && poll(&mut next).is_pending());
            drop(held);
            let given = is_given.then(|| poll(&mut first));
            assert!(given.as_ref().is_none_or(Poll::is_ready));
            drop((given, first));
            assert!(poll(&mut next).is_ready(), "is_given {is_given}");
        }
    }

    #[test]
    fn does_not_grow_if_the_reader_never_waits() {
        let parts = simulate(|requests| 1.0 / requests, 1.0);
        assert!(parts.iter().all(|parts| *parts == INITIAL_WINDOW_PARTS));
    }
}
