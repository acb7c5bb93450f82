//! Which stage holds a channel back, and what to do about it: the one in which the channel's thread spent the most of
//! its time.

use std::time::Duration;

use crate::channel::Totals;
use crate::config::Source;

/// Less tells of the start more than of the run.
const LEAST: Duration = Duration::from_millis(200);

/// A stage of the way of a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Source,
    Decoder,
    Consumer,
}

/// The stage that holds a channel back, and the part of the time, in percent, that it took; none if the run was too
/// short to tell.
pub(super) fn verdict(totals: &Totals, elapsed: Duration) -> Option<(Stage, u32)> {
    if elapsed < LEAST {
        return None;
    }
    let stages = [
        (Stage::Source, totals.source),
        (Stage::Decoder, totals.decoder),
        (Stage::Consumer, totals.consumer),
    ];
    let (stage, time) = stages.into_iter().max_by_key(|(_, time)| *time)?;
    let percent = 100.0 * time.as_secs_f64() / elapsed.as_secs_f64();
    Some((stage, percent.round().min(100.0) as u32))
}

/// The verdict in words, with the remedy.
pub(super) fn words(stage: Stage, percent: u32, source: &Source) -> String {
    let (waits, remedy) = match stage {
        Stage::Source => ("for its source", remedy_for(source)),
        Stage::Decoder => (
            "for its decoder",
            "have it decode less (fewer fields, `verify = false` where it has that), or divide the input over several \
             channels"
                .to_owned(),
        ),
        Stage::Consumer => {
            ("for its consumers", "input keeps up with training: nothing to do here".to_owned())
        }
    };
    format!("it waited {percent}% of the time {waits}: {remedy}")
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
             very small",
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
        let totals = Totals {
            source: 7 * second,
            decoder: second,
            consumer: 2 * second,
            ..Totals::default()
        };
        assert_eq!(verdict(&totals, 10 * second), Some((Stage::Source, 70)));
        let totals =
            Totals { source: second, decoder: 2 * second, consumer: second, ..Totals::default() };
        assert_eq!(verdict(&totals, 4 * second), Some((Stage::Decoder, 50)));
        assert_eq!(verdict(&totals, second / 10), None);
    }
}
