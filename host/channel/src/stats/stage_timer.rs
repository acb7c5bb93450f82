//! Measures how long a channel's thread spends at each stage. One stage is timed at any moment, so
//! the times add up to the whole. The channel's thread writes; any thread may read at any time.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// What a channel's thread is doing, or waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Reading the source, waiting for it included.
    Source,
    /// Decoding.
    Decoder,
    /// Handing batches over, and waiting for memory that consumers hold.
    Consumer,
}

impl Stage {
    /// All stages, in the order in which a byte passes them.
    pub const ALL: [Self; 3] = [Self::Source, Self::Decoder, Self::Consumer];

    /// The stage's name in metrics and reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Decoder => "decoder",
            Self::Consumer => "consumer",
        }
    }
}

/// In place of a stage while no stage is timed.
const STOPPED: u64 = 3;
/// The value of `now` while the writer changes it; no moment at any stage has this value.
const CHANGING: u64 = u64::MAX;

/// A timer for three stages: a seqlock with one writer.
///
/// To change the stage, the writer stores `CHANGING` to `now`; then, after a release fence, the
/// time of the stage that ends; then, with release, the new stage and its beginning to `now`. A
/// reader loads `now` (acquire), then the times, then, after an acquire fence, `now` again. If both
/// loads of `now` give the same moment, the times belong together. Otherwise it reads again; this
/// is rare, because the writer needs only a few instructions.
pub(crate) struct StageTimer {
    origin: Instant,
    /// Nanoseconds from `origin` at which the stage began, times four, plus the stage.
    now: AtomicU64,
    /// Nanoseconds of each stage.
    spent: [AtomicU64; 3],
}

impl Default for StageTimer {
    /// A timer that is stopped.
    fn default() -> Self {
        Self { origin: Instant::now(), now: AtomicU64::new(STOPPED), spent: Default::default() }
    }
}

impl StageTimer {
    /// Begins a stage and ends the one before it. Returns how long that one took. For the writing
    /// thread.
    pub(crate) fn enter(&self, stage: Stage) -> Duration {
        self.change(stage as u64)
    }

    /// Ends the stage and begins none. For the writing thread.
    pub(crate) fn stop(&self) {
        self.change(STOPPED);
    }

    /// The moment at which the stage began, or the timer was stopped. For the writing thread.
    pub(crate) fn since(&self) -> Instant {
        self.at(Duration::from_nanos(self.now.load(Ordering::Relaxed) >> 2))
    }

    /// The moment at this time from the origin.
    pub(crate) fn at(&self, time: Duration) -> Instant {
        self.origin + time
    }

    fn change(&self, to: u64) -> Duration {
        let before = self.now.load(Ordering::Relaxed);
        let moment = self.moment();
        let elapsed = moment.saturating_sub(before >> 2);
        self.now.store(CHANGING, Ordering::Relaxed);
        fence(Ordering::Release);
        if let Some(spent) = self.spent.get((before & 3) as usize) {
            spent.store(spent.load(Ordering::Relaxed) + elapsed, Ordering::Relaxed);
        }
        self.now.store(moment << 2 | to, Ordering::Release);
        Duration::from_nanos(elapsed)
    }

    /// The time of each stage up to now, and the current stage; `None` if the timer is stopped.
    pub(crate) fn read(&self) -> ([Duration; 3], Option<Stage>) {
        loop {
            let before = self.now.load(Ordering::Acquire);
            let mut times = [0, 1, 2].map(|stage: usize| self.spent[stage].load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if before == CHANGING || self.now.load(Ordering::Relaxed) != before {
                std::hint::spin_loop();
                continue;
            }
            let stage = Stage::ALL.get((before & 3) as usize).copied();
            if let Some(stage) = stage {
                times[stage as usize] += self.moment().saturating_sub(before >> 2);
            }
            return (times.map(Duration::from_nanos), stage);
        }
    }

    /// Nanoseconds from the origin: 62 bits are 146 years.
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
        timer.enter(Stage::Source);
        let entered = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                for step in 0..300_000 {
                    timer.enter(Stage::ALL[step % 3]);
                }
                over.store(true, Ordering::Relaxed);
            });
            let mut last = Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                let least = entered.elapsed();
                let sum = timer.read().0.iter().sum::<Duration>();
                assert!(sum >= least, "{sum:?} of {least:?}");
                assert!(sum <= began.elapsed());
                assert!(sum >= last, "{sum:?} after {last:?}");
                last = sum;
            }
        });
        timer.stop();
        let (times, stage) = timer.read();
        assert_eq!(stage, None);
        thread::sleep(Duration::from_millis(1));
        assert_eq!(timer.read().0, times);
    }
}
