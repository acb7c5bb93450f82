//! Measures how long a thread could have run but had no core, because others were running. The
//! kernel counts it, so it costs the thread nothing.

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::unistd::{Pid, gettid};

/// The delay of one thread, or of several that had the same task one after the other. It is zero
/// where the kernel does not count it.
#[derive(Default)]
pub(crate) struct RunDelay(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    /// The thread that runs now, and the kernel's count when it began.
    running: Option<(Pid, Duration)>,
    /// The delay of threads that have stopped.
    before: Duration,
}

impl RunDelay {
    /// Begins to measure the calling thread.
    pub(crate) fn begin(&self) {
        let thread = gettid();
        self.counted().running = counted_by_kernel(thread).map(|delay| (thread, delay));
    }

    /// Ends with the calling thread.
    pub(crate) fn stop(&self) {
        let mut counted = self.counted();
        let delay = counted.now();
        counted.before += delay;
        counted.running = None;
    }

    /// The delay up to now.
    pub(crate) fn read(&self) -> Duration {
        let counted = self.counted();
        counted.before + counted.now()
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        // A panic can't leave it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    /// The delay of the thread that runs.
    fn now(&self) -> Duration {
        let since = |(thread, begin)| Some(counted_by_kernel(thread)?.saturating_sub(begin));
        self.running.and_then(since).unwrap_or_default()
    }
}

/// The delay of a thread of this process since its start, as the kernel counts it: see
/// <https://docs.kernel.org/scheduler/sched-stats.html>.
fn counted_by_kernel(thread: Pid) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    text.split(' ').nth(1)?.parse().ok().map(Duration::from_nanos)
}
