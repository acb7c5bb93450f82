//! The log lines that sum up an epoch and a channel.

use pipemill_channel::{EpochStats, Outcome, Stage, StatsSnapshot};

use super::bottleneck::Bottleneck;
use crate::config::Source;

/// The line about an epoch that has ended.
pub(super) fn of_epoch(name: &str, source: &Source, epoch: &EpochStats) -> String {
    let early = if epoch.early { ", ended early by its consumers" } else { "" };
    format!(
        "channel `{name}`, epoch {}{early}: {}",
        epoch.number,
        totals_text(source, &epoch.totals)
    )
}

/// The line about a channel that has ended.
pub(super) fn of_channel(
    name: &str,
    source: &Source,
    totals: &StatsSnapshot,
    outcome: &Outcome,
) -> String {
    let ended = match outcome {
        Outcome::Ended => "ended",
        Outcome::Stopped => "stopped",
        Outcome::Failed(_) => "failed",
    };
    format!("channel `{name}` {ended}: {}", totals_text(source, totals))
}

fn totals_text(source: &Source, totals: &StatsSnapshot) -> String {
    let seconds = totals.time().as_secs_f64().max(1e-9);
    let share = |stage| (100.0 * totals.of(stage).as_secs_f64() / seconds).round();
    let skipped = match totals.decode_errors {
        0 => String::new(),
        1 => ", 1 decode error skipped".to_owned(),
        count => format!(", {count} decode errors skipped"),
    };
    let bottleneck = Bottleneck::of(totals)
        .map_or_else(String::new, |bottleneck| format!("; {}", bottleneck.words(source)));
    format!(
        "{} records in {} batches from {} bytes in {seconds:.2} s \
         ({:.0} records/s, {:.1} MB/s){skipped}; \
         time: {}% source, {}% decoder, {}% consumer{bottleneck}",
        totals.records,
        totals.batches,
        totals.bytes,
        totals.records as f64 / seconds,
        totals.bytes as f64 / seconds / 1e6,
        share(Stage::Source),
        share(Stage::Decoder),
        share(Stage::Consumer),
    )
}
