//! The bottleneck of a channel: the stage that took the most of the time of the channel's thread,
//! and its remedy.

use std::time::Duration;

use pipemill_channel::{Stage, StatsSnapshot};

use pipemill_config::Source;

/// Shortest time of a channel that has a bottleneck. In a shorter time, the start would dominate.
const MIN_TIME: Duration = Duration::from_millis(200);

/// The stage that took the most of a channel's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bottleneck {
    /// The stage.
    pub stage: Stage,
    /// Its share of the channel's time, in percent, from 0 to 100.
    pub percent: u32,
}

/// The cores that decode a channel's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cores {
    /// Number of its workers.
    pub workers: usize,
    /// Number of cores that this process may use, by its affinity and the container's quota.
    pub usable: usize,
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
    pub(super) fn words(&self, source: &Source, cores: Cores, missed: bool) -> String {
        let waits = match self.stage {
            Stage::Source => "waited % of the time for its source",
            Stage::Decoder => "waited % of the time for its decoder",
            Stage::Batch => "spent % of the time on putting batches together",
            Stage::Consumer => "waited % of the time for its consumers",
            Stage::Cores => "waited % of the time for a free core",
        };
        format!(
            "it {}: {}",
            waits.replace('%', &format!("{}%", self.percent)),
            remedy(self.stage, source, cores, missed)
        )
    }
}

/// Whether most of the time that a channel spent on its consumers was a wait for consumers that
/// were not connected. `missed` is the time of these waits.
pub(super) fn were_missed(missed: Duration, totals: &StatsSnapshot) -> bool {
    !missed.is_zero() && missed >= totals.of(Stage::Consumer) / 2
}

/// The remedy if this stage is the bottleneck. `missed`: the time of the stage `Consumer` was
/// mostly a wait for consumers that were not connected.
pub(super) fn remedy(stage: Stage, source: &Source, cores: Cores, missed: bool) -> String {
    match stage {
        Stage::Source => source_remedy(source),
        Stage::Decoder => decoder_remedy(source, cores),
        Stage::Batch => batch_remedy(source, cores),
        Stage::Cores => cores_remedy(cores),
        Stage::Consumer if missed => "for most of that none was connected, or too few: the input \
                                      was there before them"
            .to_owned(),
        Stage::Consumer => "input keeps up with training: nothing to do here".to_owned(),
    }
}

fn decoder_remedy(source: &Source, cores: Cores) -> String {
    let keep = match is_kept_by_nobody(source) {
        true => "; or keep what it makes for the next epochs: `cache` with of = \"records\"",
        false => "",
    };
    more_or_less(source, cores) + keep
}

/// Whether there are epochs for which a cache could keep what the first one decodes.
fn is_kept_by_nobody(source: &Source) -> bool {
    source.reading().is_some_and(|reading| reading.epochs > 1 && reading.records.is_none())
}

/// More cores, or less work for each.
fn more_or_less(source: &Source, cores: Cores) -> String {
    const LESS: &str = "have it decode less (fewer fields, `verify = false` where it has that)";
    let Cores { workers, usable } = cores;
    if workers >= usable {
        return match usable {
            1 => format!("{LESS}; the one core that pipemill may use decodes already"),
            _ => format!("{LESS}; all {usable} cores that pipemill may use decode already"),
        };
    }
    let are = if workers == 1 { "is" } else { "are" };
    let used = format!("{workers} of {usable} cores {are} used");
    match source {
        Source::Mix(_) => {
            format!("raise `workers` in the channels that it mixes, {used}; or {LESS}")
        }
        _ if source.can_reread() => format!("raise `workers`, {used}; or {LESS}"),
        _ => format!(
            "bring the input as files, which several `workers` decode, or divide it over several \
             channels, {used}; or {LESS}"
        ),
    }
}

fn batch_remedy(source: &Source, cores: Cores) -> String {
    const LESS: &str = "have the decoder give fewer fields, if it can; or divide the input over \
                        several channels";
    let Cores { workers, usable } = cores;
    if workers >= usable || !source.can_reread() {
        return LESS.to_owned();
    }
    format!(
        "raise `workers`, of which there {} {workers}; or {LESS}",
        if workers == 1 { "is" } else { "are" }
    )
}

fn cores_remedy(Cores { workers, usable }: Cores) -> String {
    let are = match usable {
        1 => "the one core that pipemill may use is busy".to_owned(),
        _ => format!("the {usable} cores that pipemill may use are busy"),
    };
    let fewer = match workers {
        0 | 1 => String::new(),
        _ => format!(", or fewer `workers` than {workers}"),
    };
    format!(
        "{are}, with the command and others: give it more cores{fewer}, or have the command use \
         fewer threads"
    )
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
        Source::Files { .. } | Source::Index(_) => {
            "see whether the disk is as fast as it should be, or the files' compression costs \
             the time"
                .to_owned()
        }
        Source::S3(settings) => format!(
            "requests at once are {}: raise `concurrency`, and `budget` in [s3] with it; \
             see whether the objects are very small, or this machine's processors all busy{}",
            settings.concurrency,
            if settings.cache.is_none() && is_kept_by_nobody(source) {
                "; or keep them on a local disk for the next epochs: `cache`"
            } else {
                ""
            }
        ),
    }
}

#[cfg(test)]
mod tests {
    use pipemill_channel::StageTimes;

    use super::*;

    #[test]
    fn the_stage_with_the_most_time_is_the_bottleneck() {
        let second = Duration::from_secs(1);
        let bottleneck = |source, decoder, consumer| {
            let stages = StageTimes::default()
                .with(Stage::Source, source)
                .with(Stage::Decoder, decoder)
                .with(Stage::Consumer, consumer);
            Bottleneck::of(&StatsSnapshot { stages, ..StatsSnapshot::default() })
        };
        let found = bottleneck(7 * second, second, 2 * second);
        assert_eq!(found, Some(Bottleneck { stage: Stage::Source, percent: 70 }));
        let found = bottleneck(second, 2 * second, second);
        assert_eq!(found, Some(Bottleneck { stage: Stage::Decoder, percent: 50 }));
    }

    #[test]
    fn less_than_a_fifth_of_a_second_has_no_bottleneck() {
        let bottleneck = |source| {
            let stages = StageTimes::default().with(Stage::Source, source);
            Bottleneck::of(&StatsSnapshot { stages, ..StatsSnapshot::default() })
        };
        assert_eq!(bottleneck(MIN_TIME - Duration::from_nanos(1)), None);
        assert_eq!(bottleneck(MIN_TIME), Some(Bottleneck { stage: Stage::Source, percent: 100 }));
        assert_eq!(MIN_TIME, Duration::from_millis(200));
    }

    #[test]
    fn a_wait_for_consumers_that_are_not_there_says_nothing_of_their_speed() {
        let second = Duration::from_secs(1);
        let stages = StageTimes::default().with(Stage::Consumer, 10 * second);
        let totals = StatsSnapshot { stages, ..StatsSnapshot::default() };
        let source = pipemill_config::fifo_source("/in".into(), None);
        let cores = Cores { workers: 1, usable: 1 };
        let words = |missed| {
            let bottleneck = Bottleneck::of(&totals).unwrap();
            bottleneck.words(&source, cores, were_missed(missed, &totals))
        };
        assert!(words(4 * second).contains("input keeps up with training: nothing to do here"));
        assert!(words(5 * second).contains("consumers: for most of that none was connected"));
        assert!(!were_missed(Duration::ZERO, &StatsSnapshot::default()));
    }

    #[test]
    fn a_slow_decoder_is_told_of_cores_that_are_idle() {
        let text = "[[channel]]\nname = 'a'\nsource = { file = 'x' }\ndecoder = 'lines'\n";
        let config = pipemill_config::parse(text, "pipemill.toml", &|_| None).expect("it is right");
        let files = config.channels[0].source.clone();
        let fifo = pipemill_config::fifo_source("/in".into(), None);
        let said = |source, workers, usable| {
            remedy(Stage::Decoder, source, Cores { workers, usable }, false)
        };
        assert!(
            said(&files, 2, 16).starts_with("raise `workers`, 2 of 16 cores are used; or have")
        );
        assert!(said(&files, 1, 2).starts_with("raise `workers`, 1 of 2 cores is used; or have"));
        for (workers, usable) in [(16, 16), (20, 16)] {
            let said = said(&files, workers, usable);
            assert!(
                said.ends_with("; all 16 cores that pipemill may use decode already"),
                "{said}"
            );
        }
        assert!(
            said(&files, 1, 1).ends_with("; the one core that pipemill may use decodes already")
        );
        let said = said(&fifo, 1, 16);
        assert!(said.starts_with("bring the input as files, which several `workers`"), "{said}");
        assert!(said.contains("channels, 1 of 16 cores is used; or have"), "{said}");
    }

    /// What is decoded in several epochs can be kept, if it is not.
    #[test]
    fn a_slow_decoder_of_several_epochs_is_told_of_the_cache() {
        let source = |more: &str| {
            let text = format!(
                "[[channel]]\nname = 'a'\nsource = {{ file = 'x'{more} }}\ndecoder = 'lines'\n"
            );
            let config = pipemill_config::parse(&text, "pipemill.toml", &|_| None);
            config.expect("it is right").channels[0].source.clone()
        };
        let told = |more: &str| {
            let cores = Cores { workers: 1, usable: 1 };
            let said = remedy(Stage::Decoder, &source(more), cores, false);
            said.ends_with(
                "; or keep what it makes for the next epochs: `cache` with of = \
                            \"records\"",
            )
        };
        assert!(told(", epochs = 2"));
        assert!(!told(""));
        assert!(!told(", epochs = 2, cache = { path = 'c', size = '1GiB', of = 'records' }"));
    }
}
