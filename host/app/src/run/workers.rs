//! How many workers a channel gets.

use std::thread::available_parallelism;

use crate::config::{Channel, Config, WorkerCount};

/// The number of the channel's workers. "auto": its part of the cores that the host may use, by
/// their affinity and by the container's quota; all channels that decode have an equal part.
pub fn worker_count(config: &Config, channel: &Channel) -> usize {
    match channel.workers {
        WorkerCount::Exactly(count) => count as usize,
        WorkerCount::Auto if !channel.source.can_reread() => 1,
        WorkerCount::Auto => {
            let cores = available_parallelism().map_or(1, |count| count.get());
            let channels = config.channels.iter().flat_map(Channel::decoded).count();
            (cores / channels.max(1)).max(1)
        }
    }
}
