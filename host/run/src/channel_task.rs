//! The work of a served channel's thread: decode its input, or mix other channels.

use std::sync::Arc;

use pipemill_channel::{Channel, ChannelStats, Mix, Observer, Outcome, Resume, Sink};
use pipemill_source::TotalSize;
use pipemill_source::cache::CacheCounters;
use pipemill_types::BatchSize;

/// A channel's decoder, or its mix.
pub enum ChannelTask {
    /// The channel decodes.
    Channel(Box<Channel>),
    /// The channel mixes.
    Mix(Box<Mix>),
}

impl ChannelTask {
    /// The channel's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Channel(channel) => &channel.name,
            Self::Mix(mix) => &mix.name,
        }
    }

    /// The decoder's name, for messages.
    pub fn decoder(&self) -> &str {
        match self {
            Self::Channel(channel) => channel.plugin.name(),
            Self::Mix(_) => "mix",
        }
    }

    /// The number of records of each batch, if the channel has a fixed number.
    pub fn batch(&self) -> Option<BatchSize> {
        match self {
            Self::Channel(channel) => channel.batch,
            Self::Mix(mix) => Some(mix.batch),
        }
    }

    /// Adds observers, which get each event of the channel's thread.
    pub fn observers(&mut self) -> &mut Vec<Box<dyn Observer>> {
        match self {
            Self::Channel(channel) => &mut channel.observers,
            Self::Mix(mix) => &mut mix.observers,
        }
    }

    /// Handle to each epoch's byte count. A mix does not know the count.
    pub fn total_size(&mut self) -> TotalSize {
        match self {
            Self::Channel(channel) => channel.source.total_size(),
            Self::Mix(_) => TotalSize::default(),
        }
    }

    /// The counts of its caches; of a mix, those of all inputs that have one.
    pub fn caches(&self) -> Vec<Arc<CacheCounters>> {
        match self {
            Self::Channel(channel) => channel.caches(),
            Self::Mix(mix) => mix.caches(),
        }
    }

    /// Runs to the end, a failure or a stop.
    pub fn run<S: Sink + Send>(&mut self, sink: &mut S, stats: &ChannelStats) -> Outcome {
        match self {
            Self::Channel(channel) => channel.run(sink, stats),
            Self::Mix(mix) => mix.run(sink, stats),
        }
    }

    /// The thread has no more work.
    pub fn stop(&self, stats: &ChannelStats) {
        match self {
            Self::Channel(channel) => channel.stop(stats),
            Self::Mix(mix) => mix.stop(stats),
        }
    }

    /// Makes the next run begin here, with batches of this size.
    pub fn begin_at(&mut self, resume: Resume, batch: Option<BatchSize>) {
        match self {
            Self::Channel(channel) => (channel.batch, channel.resume) = (batch, Some(resume)),
            Self::Mix(mix) => {
                mix.batch = batch.unwrap_or(mix.batch);
                mix.resume = Some(resume);
            }
        }
    }
}
