//! The bottleneck of a channel: the stage that took the most of the time of the channel's thread,
//! and what to do about it.

use std::time::Duration;

use pipemill_channel::{Stage, StatsSnapshot};

use crate::config::Source;

/// Shortest time of a channel that has a bottleneck. In a shorter one the start would dominate.
const MIN_TIME: Duration = Duration::from_millis(200);

/// The stage that took the most of a channel's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bottleneck {
    /// The stage.
    pub stage: Stage,
    /// Its share of the channel's time, in percent, from 0 to 100.
    pub percent: u32,
}

impl Bottleneck {
    /// The bottleneck of these totals. `None` if they cover less than 0.2 s.
    pub fn of(totals: &StatsSnapshot) -> Option<Self> {
        let time = totals.time();
        if time < MIN_TIME {
            return None;
        }
        let stage = Stage::ALL.into_iter().max_by_key(|stage| totals.of(*stage))?;
        let percent = 100.0 * totals.of(stage).as_secs_f64() / time.as_secs_f64();
        Some(Self { stage, percent: percent.round().min(100.0) as u32 })
    }

    /// A sentence with the stage, its share and the remedy. `missed` as for [`remedy`].
    pub(super) fn words(&self, source: &Source, missed: bool) -> String {
        let waits = match self.stage {
            Stage::Source => "for its source",
            Stage::Decoder => "for its decoder",
            Stage::Consumer => "for its consumers",
        };
        format!(
            "it waited {}% of the time {waits}: {}",
            self.percent,
            remedy(self.stage, source, missed)
        )
    }
}

/// Whether most of the time that a channel spent on its consumers was a wait for consumers that
/// were not connected. `missed` is the time of these waits.
pub(super) fn were_missed(missed: Duration, totals: &StatsSnapshot) -> bool {
    !missed.is_zero() && missed >= totals.consumer / 2
}

/// What to do if this stage is the bottleneck. `missed`: the time of the stage `Consumer` was mostly
/// a wait for consumers that were not connected.
pub(super) fn remedy(stage: Stage, source: &Source, missed: bool) -> String {
    match stage {
        Stage::Source => source_remedy(source),
        Stage::Decoder => {
            let more = match source.can_reread() {
                true => "raise `workers` if the machine has idle cores",
                false => "divide the input over several channels",
            };
            format!(
                "have it decode less (fewer fields, `verify = false` where it has that), or {more}"
            )
        }
        Stage::Consumer if missed => "for most of that none was connected, or too few: the input \
                                      was there before them"
            .to_owned(),
        Stage::Consumer => "input keeps up with training: nothing to do here".to_owned(),
    }
}

fn source_remedy(source: &Source) -> String {
    match source {
        Source::Fifo { .. } => {
            "who writes the FIFO is slower than decoding; on SageMaker, more and larger objects \
             help"
                .to_owned()
        }
        Source::Mix(_) => {
            "the slowest of the channels that it mixes sets the rate: give that one faster input, \
             or a smaller weight"
                .to_owned()
        }
        Source::Stdin { .. } => "who writes to standard input is slower than decoding".to_owned(),
        Source::Files { .. } => {
            "see whether the disk is as fast as it should be, or the files' compression costs \
             the time"
                .to_owned()
        }
        Source::S3(settings) => format!(
            "requests at once are {}: raise `concurrency`, and `budget` in [s3] with it; \
             see whether the objects are very small, or this machine's processors all busy",
            settings.concurrency
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stage_with_the_most_time_is_the_bottleneck() {
        let second = Duration::from_secs(1);
        let bottleneck = |source, decoder, consumer| {
            Bottleneck::of(&StatsSnapshot { source, decoder, consumer, ..StatsSnapshot::default() })
        };
        let found = bottleneck(7 * second, second, 2 * second);
        assert_eq!(found, Some(Bottleneck { stage: Stage::Source, percent: 70 }));
        let found = bottleneck(second, 2 * second, second);
        assert_eq!(found, Some(Bottleneck { stage: Stage::Decoder, percent: 50 }));
    }

    #[test]
    fn less_than_a_fifth_of_a_second_has_no_bottleneck() {
        let bottleneck =
            |source| Bottleneck::of(&StatsSnapshot { source, ..StatsSnapshot::default() });
        assert_eq!(bottleneck(MIN_TIME - Duration::from_nanos(1)), None);
        assert_eq!(bottleneck(MIN_TIME), Some(Bottleneck { stage: Stage::Source, percent: 100 }));
        assert_eq!(MIN_TIME, Duration::from_millis(200));
    }

    #[test]
    fn a_wait_for_consumers_that_are_not_there_says_nothing_of_their_speed() {
        let second = Duration::from_secs(1);
        let totals = StatsSnapshot { consumer: 10 * second, ..StatsSnapshot::default() };
        let source = crate::config::fifo_source("/in".into(), None);
        let words = |missed| {
            let bottleneck = Bottleneck::of(&totals).unwrap();
            bottleneck.words(&source, were_missed(missed, &totals))
        };
        assert!(words(4 * second).contains("input keeps up with training: nothing to do here"));
        assert!(words(5 * second).contains("consumers: for most of that none was connected"));
        assert!(!were_missed(Duration::ZERO, &StatsSnapshot::default()));
    }
}
