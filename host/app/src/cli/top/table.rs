//! Formats a host's status as plain text.

use std::fmt::Write;

use indicatif::{BinaryBytes, HumanDuration};

use crate::telemetry::status::{ChannelStatus, Status};

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
    let up = std::time::Duration::try_from_secs_f64(*uptime).unwrap_or_default();
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
        channel.state.clone(),
        channel.epoch.to_string(),
        channel.totals.records.to_string(),
        BinaryBytes(channel.totals.bytes).to_string(),
        format!("{} of {slots}", ring.ready),
        ring.consumers.len().to_string(),
    ]
}

/// Remarks about a channel: its error, its decode errors, its bottleneck.
pub(super) fn remarks(channel: &ChannelStatus) -> Vec<String> {
    let error = channel.error.as_ref().map(|error| error.message.clone());
    let bottleneck = channel.bottleneck.as_ref().map(|bottleneck| {
        format!(
            "{}% of its time went to the {}: {}",
            bottleneck.percent, bottleneck.stage, bottleneck.remedy
        )
    });
    let decode_errors = (channel.totals.decode_errors > 0)
        .then(|| format!("{} decode errors skipped", channel.totals.decode_errors));
    [error, decode_errors, bottleneck].into_iter().flatten().collect()
}
