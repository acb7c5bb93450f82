//! Which stage holds a channel back, and what to do about it: the one in which the channel's thread spent the most of
//! its time.

use std::time::Duration;

use crate::config::Source;
use pipemill_channel::{Stage, StatsSnapshot};

/// Less tells of the start more than of the run.
const LEAST: Duration = Duration::from_millis(200);

/// The stage that holds a channel back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bottleneck {
    /// Which.
    pub stage: Stage,
    /// The part of the time that it took, in percent.
    pub percent: u32,
}

impl Bottleneck {
    /// The bottleneck on what was done; none if it was too short to tell.
    pub fn of(totals: &StatsSnapshot) -> Option<Self> {
        let time = totals.time();
        if time < LEAST {
            return None;
        }
        let stage = Stage::ALL.into_iter().max_by_key(|stage| totals.of(*stage))?;
        let percent = 100.0 * totals.of(stage).as_secs_f64() / time.as_secs_f64();
        Some(Self { stage, percent: percent.round().min(100.0) as u32 })
    }

    /// In words, with the remedy.
    pub fn words(&self, source: &Source) -> String {
        let waits = match self.stage {
            Stage::Source => "for its source",
            Stage::Decoder => "for its decoder",
            Stage::Consumer => "for its consumers",
        };
        format!("it waited {}% of the time {waits}: {}", self.percent, remedy(self.stage, source))
    }
}

/// What to do about a stage that holds a channel back.
pub(super) fn remedy(stage: Stage, source: &Source) -> String {
    match stage {
        Stage::Source => remedy_for(source),
        Stage::Decoder => {
            "have it decode less (fewer fields, `verify = false` where it has that), or divide the \
                           input over several channels"
                .to_owned()
        }
        Stage::Consumer => "input keeps up with training: nothing to do here".to_owned(),
    }
}

fn remedy_for(source: &Source) -> String {
    match source {
        Source::Fifo { .. } => {
            "who writes the FIFO is slower than decoding; on SageMaker, more and larger objects help".to_owned()
        }
        Source::Stdin { .. } => "who writes to standard input is slower than decoding".to_owned(),
        Source::Files { .. } => {
            "see whether the disk is as fast as it should be, or the files' compression costs the time".to_owned()
        }
        Source::S3(settings) => format!(
            "requests at once are {}: raise `concurrency`, and `budget` in [s3] with it; see whether the objects are \
             very small, or this machine's processors all busy",
            settings.concurrency
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_is_named() {
        let second = Duration::from_secs(1);
        let bottleneck = |source, decoder, consumer| {
            Bottleneck::of(&StatsSnapshot { source, decoder, consumer, ..StatsSnapshot::default() })
        };
        let said = bottleneck(7 * second, second, 2 * second);
        assert_eq!(said, Some(Bottleneck { stage: Stage::Source, percent: 70 }));
        let said = bottleneck(second, 2 * second, second);
        assert_eq!(said, Some(Bottleneck { stage: Stage::Decoder, percent: 50 }));
    }

    #[test]
    fn there_is_none_on_less_than_a_fifth_of_a_second() {
        let bottleneck =
            |source| Bottleneck::of(&StatsSnapshot { source, ..StatsSnapshot::default() });
        assert_eq!(bottleneck(LEAST - Duration::from_nanos(1)), None);
        assert_eq!(bottleneck(LEAST), Some(Bottleneck { stage: Stage::Source, percent: 100 }));
        assert_eq!(LEAST, Duration::from_millis(200));
    }
}
