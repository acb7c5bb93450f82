//! How many workers a channel gets.

use std::thread::available_parallelism;

use pipemill_config::{Channel, Config, WorkerCount};

/// Extra slots for each worker: enough for a long section of an object.
const SLOTS_OF_WORKER: u32 = 8;

/// Extra slots of the channel's ring, which its workers fill. Records that are gathered to batches
/// of a fixed size are copied anyway.
pub fn extra_slots(config: &Config, channel: &Channel) -> u32 {
    match worker_count(config, channel) {
        ..=1 => 0,
        _ if channel.batch.is_some() => 0,
        count => count as u32 * SLOTS_OF_WORKER,
    }
}

/// The number of the channel's workers. "auto": its part of the cores that the host may use, by
/// their affinity and by the container's quota; all channels that decode have an equal part.
pub fn worker_count(config: &Config, channel: &Channel) -> usize {
    match channel.workers {
        WorkerCount::Exactly(count) => count as usize,
        WorkerCount::Auto if !channel.source.can_reread() => 1,
        WorkerCount::Auto => cores_of_channel(config),
    }
}

/// Whether a channel inflates objects in a thread of its own: if its workers leave a core for it.
pub fn inflates_in_background(config: &Config, channel: &Channel) -> bool {
    cores_of_channel(config) > worker_count(config, channel)
}

/// A channel's part of the cores that the host may use, at least one.
fn cores_of_channel(config: &Config) -> usize {
    let cores = available_parallelism().map_or(1, |count| count.get());
    let channels = config.channels.iter().flat_map(Channel::decoded).count();
    (cores / channels.max(1)).max(1)
}
