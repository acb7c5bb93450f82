//! What a channel did, in one line.

use std::time::Duration;

use super::verdict::{verdict, words};
use crate::channel::{Outcome, Totals};
use crate::config::Source;

pub(super) fn line(
    name: &str,
    source: &Source,
    totals: &Totals,
    elapsed: Duration,
    outcome: &Outcome,
) -> String {
    let ended = match outcome {
        Outcome::Ended => "ended",
        Outcome::Stopped => "stopped",
        Outcome::Failed(_) => "failed",
    };
    let seconds = elapsed.as_secs_f64().max(1e-9);
    let share = |time: Duration| (100.0 * time.as_secs_f64() / seconds).round();
    let bad = match totals.bad_places {
        0 => String::new(),
        1 => ", 1 bad place passed over".to_owned(),
        count => format!(", {count} bad places passed over"),
    };
    let held_back = verdict(totals, elapsed).map_or_else(String::new, |(stage, percent)| {
        format!("; {}", words(stage, percent, source))
    });
    format!(
        "channel `{name}` {ended}: {} records in {} batches from {} bytes in {seconds:.2} s \
         ({:.0} records/s, {:.1} MB/s){bad}; time: {}% source, {}% decoder, {}% consumer{held_back}",
        totals.records,
        totals.batches,
        totals.bytes,
        totals.records as f64 / seconds,
        totals.bytes as f64 / seconds / 1e6,
        share(totals.source),
        share(totals.decoder),
        share(totals.consumer),
    )
}
