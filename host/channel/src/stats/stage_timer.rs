//! Measures how long a thread of a channel spends at each activity. Exactly one activity is timed
//! at any moment, so the times add up to the whole. The thread itself writes. Any thread may read
//! at any time.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// An activity of a channel's thread. The time of a wait for other threads of the channel is
/// divided by the activities of these: see `stages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Reads the source, waiting for it included.
    Source,
    /// Decodes.
    Decoder,
    /// Puts batches together.
    Batch,
    /// Hands batches over, and waits for memory that consumers hold.
    Consumer,
    /// Waits for workers, or for the inputs of a mix, all of which read their sources.
    ReadingWorkers,
    /// Waits for workers, or for the inputs of a mix.
    Workers,
    /// Waits for the thread of a window.
    Window,
}

impl Activity {
    pub(crate) const ALL: [Self; 7] = [
        Self::Source,
        Self::Decoder,
        Self::Batch,
        Self::Consumer,
        Self::ReadingWorkers,
        Self::Workers,
        Self::Window,
    ];
}

/// The time of each activity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Times([Duration; Activity::ALL.len()]);

impl Times {
    pub(crate) fn of(&self, activity: Activity) -> Duration {
        self.0[activity as usize]
    }

    pub(crate) fn add(&mut self, activity: Activity, time: Duration) {
        self.0[activity as usize] += time;
    }

    /// The difference to earlier times of the same thread.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at].saturating_sub(earlier.0[at])))
    }
}

/// In place of an activity while none is timed.
const STOPPED: u64 = 7;
/// The value of `now` while the writer changes it; no moment at any activity has this value.
const CHANGING: u64 = u64::MAX;

/// A timer for all activities: a seqlock with one writer.
///
/// To change the activity, the writer stores `CHANGING` to `now`; then, after a release fence, the
/// time of the one that ends; then, with release, the new one and its beginning to `now`. A
/// reader loads `now` (acquire), then the times, then, after an acquire fence, `now` again. If both
/// loads of `now` give the same moment, the times belong together. Otherwise it reads again; this
/// is rare, because the writer needs only a few instructions.
pub(crate) struct StageTimer {
    origin: Instant,
    /// Nanoseconds from `origin` at which the activity began, times eight, plus the activity.
    now: AtomicU64,
    /// Nanoseconds of each activity.
    spent: [AtomicU64; Activity::ALL.len()],
}

impl Default for StageTimer {
    /// A timer that is stopped.
    fn default() -> Self {
        Self { origin: Instant::now(), now: AtomicU64::new(STOPPED), spent: Default::default() }
    }
}

impl StageTimer {
    /// Begins an activity and ends the one before it. Returns how long that one took. For the
    /// writing thread.
    pub(crate) fn enter(&self, activity: Activity) -> Duration {
        self.change(activity as u64)
    }

    /// Ends the activity and begins none. For the writing thread.
    pub(crate) fn stop(&self) {
        self.change(STOPPED);
    }

    /// Whether no activity is timed. For the writing thread.
    pub(crate) fn is_stopped(&self) -> bool {
        self.now.load(Ordering::Relaxed) & 7 == STOPPED
    }

    /// The moment at which the activity began, or the timer was stopped. For the writing thread.
    pub(crate) fn since(&self) -> Instant {
        self.at(Duration::from_nanos(self.now.load(Ordering::Relaxed) >> 3))
    }

    /// The moment at this time from the origin.
    pub(crate) fn at(&self, time: Duration) -> Instant {
        self.origin + time
    }

    fn change(&self, to: u64) -> Duration {
        let before = self.now.load(Ordering::Relaxed);
        let moment = self.moment();
        let elapsed = moment.saturating_sub(before >> 3);
        self.now.store(CHANGING, Ordering::Relaxed);
        fence(Ordering::Release);
        if let Some(spent) = self.spent.get((before & 7) as usize) {
            spent.store(spent.load(Ordering::Relaxed) + elapsed, Ordering::Relaxed);
        }
        self.now.store(moment << 3 | to, Ordering::Release);
        Duration::from_nanos(elapsed)
    }

    /// The time of each activity up to now, and the current one; `None` if the timer is stopped.
    pub(crate) fn read(&self) -> (Times, Option<Activity>) {
        loop {
            let before = self.now.load(Ordering::Acquire);
            let spent = |at: usize| Duration::from_nanos(self.spent[at].load(Ordering::Relaxed));
            let mut times = Times(std::array::from_fn(spent));
            fence(Ordering::Acquire);
            if before == CHANGING || self.now.load(Ordering::Relaxed) != before {
                std::hint::spin_loop();
                continue;
            }
            let activity = Activity::ALL.get((before & 7) as usize).copied();
            if let Some(activity) = activity {
                let since = self.moment().saturating_sub(before >> 3);
                times.add(activity, Duration::from_nanos(since));
            }
            return (times, activity);
        }
    }

    /// Nanoseconds from the origin: 61 bits are 73 years.
    pub(crate) fn moment(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    #[test]
    fn a_reader_sees_all_of_the_elapsed_time_and_never_more() {
        let timer = StageTimer::default();
        let over = AtomicBool::new(false);
        let began = Instant::now();
        timer.enter(Activity::Source);
        let entered = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                for step in 0..300_000 {
                    timer.enter(Activity::ALL[step % 7]);
                }
                over.store(true, Ordering::Relaxed);
            });
            let mut last = Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                let least = entered.elapsed();
                let sum = timer.read().0.0.iter().sum::<Duration>();
                assert!(sum >= least, "{sum:?} of {least:?}");
                assert!(sum <= began.elapsed());
                assert!(sum >= last, "{sum:?} after {last:?}");
                last = sum;
            }
        });
        timer.stop();
        let (times, activity) = timer.read();
        assert_eq!(activity, None);
        thread::sleep(Duration::from_millis(1));
        assert_eq!(timer.read().0, times);
    }
}
