//! Formats a host's status as plain text.

use std::fmt::Write;
use std::time::Duration;

use indicatif::{BinaryBytes, HumanDuration};

use pipemill_telemetry::status::{ChannelStatus, Status};
use pipemill_telemetry::waits;

/// A table of the channels, and the remarks about each.
pub(super) fn text(status: &Status) -> String {
    let mut out = heading(status) + "\n";
    let head = ["CHANNEL", "STATE", "EPOCH", "RECORDS", "BYTES", "SLOTS READY", "CONSUMERS"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(status.channels.iter().map(row));
    let widths: [usize; 7] =
        std::array::from_fn(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0));
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        out += line.trim_end();
        out.push('\n');
    }
    for channel in &status.channels {
        for line in remarks(channel) {
            // Writing to memory can't fail.
            let _ = writeln!(out, "{}: {line}", channel.name);
        }
    }
    out
}

/// One line about the host.
pub(super) fn heading(status: &Status) -> String {
    let Status { version, pid, uptime, memory, not_ready, .. } = status;
    let up = Duration::try_from_secs_f64(*uptime).unwrap_or_default();
    let ready = if not_ready.is_empty() { "ready" } else { "not ready" };
    format!(
        "pipemill {version}, process {pid}, up {}, {} of memory besides rings, {ready}",
        HumanDuration(up),
        BinaryBytes(*memory)
    )
}

fn row(channel: &ChannelStatus) -> [String; 7] {
    let ring = &channel.ring;
    let slots = ring.free + ring.filling + ring.ready + ring.granted;
    [
        channel.name.clone(),
        state(channel).to_owned(),
        epoch(channel),
        channel.totals.records.to_string(),
        BinaryBytes(channel.totals.bytes).to_string(),
        format!("{} of {slots}", ring.ready),
        ring.consumers.len().to_string(),
    ]
}

/// The number of a channel's epoch, and the part of it that was read, if it is known.
pub(super) fn epoch(channel: &ChannelStatus) -> String {
    match channel.epoch_share {
        Some(share) => format!("{} {:.0}%", channel.epoch, (share * 100.0).floor()),
        None => channel.epoch.to_string(),
    }
}

/// The state of a channel in a word: also whether something is missing for which it waits.
pub(super) fn state(channel: &ChannelStatus) -> &str {
    if channel.waits_for.is_some() { "waiting" } else { &channel.state }
}

/// The missing thing that a channel waits for, since when, and what to do about it.
pub(super) fn wait(channel: &ChannelStatus) -> Option<String> {
    let wait = channel.waits_for.as_ref()?;
    let time = Duration::try_from_secs_f64(wait.seconds).unwrap_or_default();
    Some(format!("{}; {}", waits::words(&wait.what, time), wait.remedy))
}

/// Remarks about a channel: its error, its wait, its decode errors, its cache, its bottleneck.
pub(super) fn remarks(channel: &ChannelStatus) -> Vec<String> {
    let error = channel.error.as_ref().map(|error| error.message.clone());
    // A channel that lacks something has no other bottleneck.
    let bottleneck = channel.bottleneck.as_ref().filter(|_| channel.waits_for.is_none());
    let bottleneck = bottleneck.map(|bottleneck| {
        format!(
            "{}% of its time went to the {}: {}",
            bottleneck.percent, bottleneck.stage, bottleneck.remedy
        )
    });
    let decode_errors = (channel.totals.decode_errors > 0)
        .then(|| format!("{} decode errors skipped", channel.totals.decode_errors));
    let percent = channel.cache.and_then(|cache| cache.percent());
    let cached = percent.map(|percent| format!("{percent}% of its bytes came from the cache"));
    [error, wait(channel), decode_errors, cached, bottleneck].into_iter().flatten().collect()
}
