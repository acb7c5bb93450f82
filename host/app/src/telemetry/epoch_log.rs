//! Logs one line for each epoch that ends: what the channel did, and its bottleneck.

use std::time::Instant;

use log::{Level, kv};
use pipemill_channel::{Event, Observer};
use pipemill_types::log::log_with;

use super::summary;
use crate::config::Source;

/// Observer of one channel that logs the end of each epoch.
pub struct EpochLog {
    channel: String,
    source: Source,
}

impl EpochLog {
    /// For the channel of this name. The source decides the remedy for a slow source.
    pub fn new(channel: &str, source: &Source) -> Self {
        Self { channel: channel.to_owned(), source: source.clone() }
    }
}

impl Observer for EpochLog {
    fn event(&self, _: Instant, event: &Event<'_>) {
        let Event::EpochEnds(epoch) = event else { return };
        let fields: [&dyn kv::Source; 3] =
            [&("channel", &self.channel), &("epoch", epoch.number), &epoch.totals];
        let line = summary::of_epoch(&self.channel, &self.source, epoch);
        log_with(Level::Info, &fields, format_args!("{line}"));
    }
}
