//! The log lines that sum up an epoch and a channel.

use std::time::Duration;

use pipemill_channel::{EpochStats, Stage, StatsSnapshot};
use pipemill_config::Source;

use super::bottleneck::{Bottleneck, Cores, were_missed};
use super::{ChannelHandle, ChannelSnapshot};

/// The line about an epoch that has ended. `missed` is the time for which the channel waited in it
/// for consumers that were not connected.
pub(super) fn of_epoch(channel: &ChannelHandle, epoch: &EpochStats, missed: Duration) -> String {
    let early = if epoch.early { ", ended early by its consumers" } else { "" };
    format!(
        "channel `{}`, epoch {}{early}: {}{}",
        channel.name,
        epoch.number,
        totals_text(&epoch.totals),
        bottleneck_text(&channel.source, channel.cores, &epoch.totals, missed)
    )
}

/// The line about a channel that has ended.
pub(super) fn of_channel(now: &ChannelSnapshot<'_>) -> String {
    let ChannelSnapshot { name, needed, totals, ring, .. } = now;
    let text = totals_text(totals);
    if now.is_unread() {
        let why = match ring.ever_connected {
            true => format!("fewer than the {needed} consumers that it needs have connected"),
            false => "nobody has connected to it".to_owned(),
        };
        return format!("channel `{name}` was never read, {why}: {text}");
    }
    let word = now.state.word();
    let bottleneck = bottleneck_text(now.source, now.cores, totals, ring.consumers_missed);
    let cached = now.cache.and_then(|cache| cache.percent());
    let cached = cached.map_or_else(String::new, |percent| {
        format!("; {percent}% of the bytes came from the cache")
    });
    format!("channel `{name}` {word}: {text}{bottleneck}{cached}")
}

/// A number of things: `1 batch`, `2 batches`.
fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// A rate of bytes in MiB/s, the unit of the configuration; a low rate in KiB/s.
fn rate(bytes: f64) -> String {
    const KIB: f64 = 1024.0;
    const MIB: f64 = 1024.0 * KIB;
    match bytes {
        bytes if bytes >= 0.1 * MIB => format!("{:.1} MiB/s", bytes / MIB),
        bytes => format!("{:.1} KiB/s", bytes / KIB),
    }
}

fn totals_text(totals: &StatsSnapshot) -> String {
    let seconds = totals.time().as_secs_f64().max(1e-9);
    let share = |stage: Stage| {
        let percent = (100.0 * totals.of(stage).as_secs_f64() / seconds).round();
        (percent > 0.0).then(|| format!("{percent}% {}", stage.word()))
    };
    let shares: Vec<_> = Stage::ALL.into_iter().filter_map(share).collect();
    let skipped = match totals.decode_errors {
        0 => String::new(),
        1 => ", 1 decode error skipped".to_owned(),
        count => format!(", {count} decode errors skipped"),
    };
    format!(
        "{} in {} from {} in {seconds:.2} s \
         ({:.0} records/s, {}){skipped}; \
         time: {}",
        counted(totals.records, "record", "records"),
        counted(totals.batches, "batch", "batches"),
        counted(totals.bytes, "byte", "bytes"),
        totals.records as f64 / seconds,
        rate(totals.bytes as f64 / seconds),
        shares.join(", "),
    )
}

fn bottleneck_text(
    source: &Source,
    cores: Cores,
    totals: &StatsSnapshot,
    missed: Duration,
) -> String {
    let missed = were_missed(missed, totals);
    let words = |bottleneck: Bottleneck| bottleneck.words(source, cores, missed);
    Bottleneck::of(totals).map_or_else(String::new, |bottleneck| format!("; {}", words(bottleneck)))
}

#[cfg(test)]
mod tests {
    use pipemill_channel::StageTimes;

    use super::*;

    #[test]
    fn one_thing_is_not_called_things_and_a_rate_has_the_unit_of_the_configuration() {
        let totals = StatsSnapshot {
            bytes: 3 << 20,
            records: 10,
            batches: 1,
            stages: StageTimes::default().with(Stage::Source, Duration::from_secs(2)),
            ..StatsSnapshot::default()
        };
        let text = totals_text(&totals);
        let start = "10 records in 1 batch from 3145728 bytes in 2.00 s (5 records/s, 1.5 MiB/s); ";
        assert!(text.starts_with(start), "{text}");
        let slow = totals_text(&StatsSnapshot { bytes: 9 << 10, ..totals });
        assert!(slow.contains("(5 records/s, 4.5 KiB/s); "), "{slow}");
    }
}
