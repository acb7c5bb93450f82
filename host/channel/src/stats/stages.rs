//! The stages of a channel, and how the time of its thread is divided among them.
//!
//! The thread knows its activity, but not why it waits for others. So the time of a wait for
//! workers is divided like the workers' own time during the wait. The time in which a thread could
//! have run but had no core is a stage of its own. All stages together have the time of the
//! channel's thread.

use std::sync::Arc;
use std::time::Duration;

use crate::ChannelStats;
use crate::stats::stage_timer::{Activity, Times};

/// A stage of a channel: its time is divided among the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Reading the source, waiting for it included.
    Source,
    /// Decoding.
    Decoder,
    /// Putting batches together.
    Batch,
    /// Handing batches over, and waiting for memory that consumers hold.
    Consumer,
    /// Ready to do one of the above, while the cores were busy with other threads.
    Cores,
}

impl Stage {
    /// All stages, in the order in which a byte passes them.
    pub const ALL: [Self; 5] =
        [Self::Source, Self::Decoder, Self::Batch, Self::Consumer, Self::Cores];

    /// The stage's name in metrics and reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Decoder => "decoder",
            Self::Batch => "batch",
            Self::Consumer => "consumer",
            Self::Cores => "cores",
        }
    }
}

impl Activity {
    /// The stage that a thread with this activity is in. A thread that waits for others is in the
    /// stage that they are in.
    pub(crate) fn stage(self) -> Stage {
        match self {
            Self::Source | Self::ReadingWorkers => Stage::Source,
            Self::Decoder | Self::Workers => Stage::Decoder,
            Self::Batch => Stage::Batch,
            Self::Consumer | Self::Window => Stage::Consumer,
        }
    }
}

/// The time of each stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageTimes([Duration; Stage::ALL.len()]);

impl StageTimes {
    /// The time of one stage.
    pub fn of(&self, stage: Stage) -> Duration {
        self.0[stage as usize]
    }

    /// The time of all stages.
    pub fn sum(&self) -> Duration {
        self.0.iter().sum()
    }

    /// These times, with `time` in one stage.
    #[must_use]
    pub fn with(mut self, stage: Stage, time: Duration) -> Self {
        self.0[stage as usize] = time;
        self
    }

    /// The difference to earlier times of the same channel.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at].saturating_sub(earlier.0[at])))
    }

    fn add(&mut self, more: &Self) {
        self.0.iter_mut().zip(more.0).for_each(|(time, more)| *time += more);
    }

    /// The given time, divided like these times. All of it goes to `otherwise` if they are zero.
    fn share(&self, time: Duration, otherwise: Stage) -> Self {
        let sum = self.sum();
        let mut left = time;
        let mut shares = Self::default();
        for (share, part) in shares.0.iter_mut().zip(self.0) {
            *share = time.mul_f64(part.as_secs_f64() / sum.as_secs_f64().max(1e-9)).min(left);
            left -= *share;
        }
        // Includes the remainder of the rounding.
        shares.0[otherwise as usize] += left;
        shares
    }
}

/// A longer wait for a core is forgotten in part.
const MAX_OWED: Duration = Duration::from_secs(1);

/// The threads that a channel's thread waits for.
#[derive(Default, Clone)]
pub(crate) struct Helpers {
    /// Its workers, or the inputs of a mix.
    pub(crate) workers: Vec<Arc<ChannelStats>>,
    /// The thread of its window.
    pub(crate) window: Option<Arc<ChannelStats>>,
}

/// Divides the time of a channel's thread, from one reading of its timer to the next.
#[derive(Default)]
pub(crate) struct StageDivider {
    /// The readings at the last division.
    last: Readings,
    /// Time without a core that the kernel has counted too late to be divided with its own
    /// interval.
    owed: Duration,
    /// The stages so far.
    stages: StageTimes,
}

/// The times of a channel before they are divided, at one moment.
#[derive(Default, Clone, Copy)]
pub(crate) struct Readings {
    /// The activities of its thread.
    pub(crate) times: Times,
    /// How long that thread had no core.
    pub(crate) delay: Duration,
    /// The stages of the workers, all together.
    pub(crate) workers: StageTimes,
    /// The stages of the window's thread.
    pub(crate) window: StageTimes,
}

impl StageDivider {
    /// The stages up to this moment.
    pub(crate) fn divide(&mut self, now: Readings) -> StageTimes {
        let times = now.times.since(&self.last.times);
        let busy = StageTimes::default()
            .with(Stage::Source, times.of(Activity::Source))
            .with(Stage::Decoder, times.of(Activity::Decoder))
            .with(Stage::Batch, times.of(Activity::Batch));
        // The kernel counts a wait for a core when it is over, which may be some readings later.
        let delay = self.owed + now.delay.saturating_sub(self.last.delay);
        let cores = delay.min(busy.sum());
        self.owed = (delay - cores).min(MAX_OWED);
        self.stages.add(&busy.share(busy.sum() - cores, Stage::Decoder));
        // A worker that waits is waiting for the channel's thread.
        let workers = now.workers.since(&self.last.workers).with(Stage::Consumer, Duration::ZERO);
        let waited = times.of(Activity::ReadingWorkers) + times.of(Activity::Workers);
        self.stages.add(&workers.share(waited, Stage::Decoder));
        let window = now.window.since(&self.last.window).with(Stage::Source, Duration::ZERO);
        self.stages.add(&window.share(times.of(Activity::Window), Stage::Consumer));
        let known = StageTimes::default()
            .with(Stage::Consumer, times.of(Activity::Consumer))
            .with(Stage::Cores, cores);
        self.stages.add(&known);
        self.last = now;
        self.stages
    }
}

impl Helpers {
    /// The stages of the workers, all together, and those of the window's thread.
    pub(crate) fn stages(&self) -> (StageTimes, StageTimes) {
        let mut workers = StageTimes::default();
        for worker in &self.workers {
            workers.add(&worker.stages());
        }
        (workers, self.window.as_ref().map(|window| window.stages()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// The shares of the stages in thousandths, for a thread that spent a second on this.
    fn shares(activity: Activity, readings: Readings) -> [u128; 5] {
        let mut times = Times::default();
        times.add(activity, millis(1000));
        let stages = StageDivider::default().divide(Readings { times, ..readings });
        stages.0.map(|time| (time.as_micros() + 500) / 1000)
    }

    fn of(stages: [u64; 5]) -> StageTimes {
        StageTimes(stages.map(millis))
    }

    #[test]
    fn a_wait_for_workers_is_what_they_spent_their_time_on() {
        let wait = |workers| {
            let readings = Readings { workers: of(workers), ..Readings::default() };
            assert_eq!(
                shares(Activity::Workers, readings),
                shares(Activity::ReadingWorkers, readings)
            );
            shares(Activity::Workers, readings)
        };
        // Four workers decode, each for most of its time.
        assert_eq!(wait([200, 3800, 0, 0, 0]), [50, 950, 0, 0, 0]);
        // Workers that wait are waiting for the channel's thread.
        assert_eq!(wait([900, 100, 0, 60_000, 0]), [900, 100, 0, 0, 0]);
        assert_eq!(wait([0, 1000, 0, 0, 3000]), [0, 250, 0, 0, 750]);
        assert_eq!(wait([0; 5]), [0, 1000, 0, 0, 0]);
    }

    #[test]
    fn a_wait_for_a_window_is_what_its_thread_spent_its_time_on() {
        let wait = |window| {
            shares(Activity::Window, Readings { window: of(window), ..Readings::default() })
        };
        assert_eq!(wait([50_000, 0, 300, 100, 0]), [0, 0, 750, 250, 0]);
        assert_eq!(wait([0; 5]), [0, 0, 0, 1000, 0]);
    }

    #[test]
    fn time_without_a_core_is_not_that_of_the_decoder() {
        let delay = |activity, delay| {
            shares(activity, Readings { delay: millis(delay), ..Readings::default() })
        };
        assert_eq!(delay(Activity::Decoder, 800), [0, 200, 0, 0, 800]);
        assert_eq!(delay(Activity::Batch, 1000), [0, 0, 0, 0, 1000]);
        // The kernel may have counted more than the activity took.
        assert_eq!(delay(Activity::Source, 5000), [0, 0, 0, 0, 1000]);
        // A thread that waits for consumers does not wait for a core.
        assert_eq!(delay(Activity::Consumer, 800), [0, 0, 0, 1000, 0]);
    }

    #[test]
    fn a_wait_for_a_core_is_not_lost_if_it_is_counted_after_several_readings() {
        let (mut divider, mut now) = (StageDivider::default(), Readings::default());
        let mut stages = StageTimes::default();
        for reading in 1..=1300 {
            now.times.add(Activity::Decoder, millis(2));
            // In every 26 ms, the thread has no core for 24.
            if reading % 13 == 0 {
                now.delay += millis(24);
            }
            stages = divider.divide(now);
        }
        assert_eq!(stages.sum(), millis(2600));
        assert!(stages.of(Stage::Cores) >= millis(2400 - 24), "{stages:?}");
    }

    proptest! {
        /// For any readings, the stages add up to the time of the thread, and no stage becomes
        /// less.
        #[test]
        fn the_stages_add_up(
            steps in prop::collection::vec(
                (
                    prop::array::uniform7(0u64..1 << 40),
                    0u64..1 << 40,
                    prop::array::uniform5(0u64..1 << 40),
                    prop::array::uniform5(0u64..1 << 40),
                ),
                1..20,
            ),
        ) {
            let (mut divider, mut now) = (StageDivider::default(), Readings::default());
            let (mut last, mut spent) = (StageTimes::default(), Duration::ZERO);
            for (times, delay, workers, window) in steps {
                for (activity, nanos) in Activity::ALL.into_iter().zip(times) {
                    now.times.add(activity, Duration::from_nanos(nanos));
                    spent += Duration::from_nanos(nanos);
                }
                now.delay += Duration::from_nanos(delay);
                now.workers.add(&StageTimes(workers.map(Duration::from_nanos)));
                now.window.add(&StageTimes(window.map(Duration::from_nanos)));
                let stages = divider.divide(now);
                prop_assert_eq!(stages.sum(), spent);
                prop_assert!(Stage::ALL.iter().all(|stage| stages.of(*stage) >= last.of(*stage)));
                last = stages;
            }
        }
    }
}
