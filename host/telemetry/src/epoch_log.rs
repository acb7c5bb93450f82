//! Logs one line for each epoch that ends: the channel's totals, and its bottleneck.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use log::{Level, kv};
use pipemill_channel::{Event, Observer};
use pipemill_types::log::log_with;

use super::{ChannelHandle, summary};

/// Observer of one channel that logs the end of each epoch.
pub struct EpochLog {
    channel: Arc<ChannelHandle>,
    /// Total time for which the channel waited for missing consumers, up to the last end of an
    /// epoch.
    missed: Mutex<Duration>,
}

impl EpochLog {
    /// The observer of this channel.
    pub fn new(channel: Arc<ChannelHandle>) -> Self {
        Self { channel, missed: Mutex::default() }
    }
}

impl Observer for EpochLog {
    fn event(&self, _: Instant, event: &Event<'_>) {
        let Event::EpochEnds(epoch) = event else { return };
        let all_missed = self.channel.ring.status().consumers_missed;
        let before = {
            let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *missed, all_missed)
        };
        let channel = &*self.channel;
        let fields: [&dyn kv::Source; 3] =
            [&("channel", &channel.name), &("epoch", epoch.number), &epoch.totals];
        let line = summary::of_epoch(channel, epoch, all_missed.saturating_sub(before));
        log_with(Level::Info, &fields, format_args!("{line}"));
    }
}
