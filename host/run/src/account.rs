//! The memory that a channel may take: one sum, which follows from its configuration.

use pipemill_channel::{MAX_FRAMING, Workers};
use pipemill_source::container::memory_limit;

use super::memory::{MIXED_CHANNEL_MEMORY, fixed_bytes, ring_bytes, window_bytes};
use super::workers::worker_count;
use pipemill_config::{Channel, Config, DecoderRef, Source, show_size};

/// Bytes for batches beyond the ring's slots and the window, where the file has no
/// `limits.batches`.
const DEFAULT_BATCHES: u64 = 1 << 30;
/// The same, at least, where a container has less memory.
const MIN_BATCHES: u64 = 64 << 20;
/// Bytes that a window takes in addition to its records: its last blocks are not full.
const WINDOW_SPARE: u64 = 32 << 20;

/// The bytes that a channel may take at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelMemory {
    /// For batches: the ring's slots, batches that fit into none, indexes, the window of `shuffle`.
    pub batches: u64,
    /// For the memory of all decoders.
    pub decoders: u64,
    /// For what a call of each decoder makes.
    pub outputs: u64,
    /// For the input that each decoder sees.
    pub chunks: u64,
    /// For the copies that decoders make of the ring's pages by writing into their windows.
    pub copies: u64,
    /// For what workers hold until it is next, and for the bytes of objects that they divide.
    pub workers: u64,
    /// For the records that the channels of a mix have ready.
    pub mixed: u64,
}

impl ChannelMemory {
    /// What this channel may take in the container of this process.
    pub fn of(config: &Config, channel: &Channel) -> ChannelMemory {
        Self::within(config, channel, memory_limit())
    }

    fn within(config: &Config, channel: &Channel, limit: Option<u64>) -> ChannelMemory {
        let sum = |bytes: fn(&Channel) -> u64| -> u64 {
            let of_one = |one| worker_count(config, one) as u64 * bytes(one);
            channel.decoded().map(of_one).sum()
        };
        let is_mix = matches!(channel.source, Source::Mix(_));
        let mixed = |one: &Channel| MIXED_CHANNEL_MEMORY + 2 * one.max_record;
        ChannelMemory {
            batches: batch_bytes(config, channel, limit),
            decoders: sum(|one| one.limits.memory),
            outputs: sum(|one| one.limits.output),
            // It is copied when it grows.
            chunks: sum(|one| 2 * (one.max_record + MAX_FRAMING as u64)),
            copies: match channel.decoder {
                Some(DecoderRef::File(_)) => sum(|_| 1) * ring_bytes(config, channel),
                Some(DecoderRef::Name(_)) | None => 0,
            },
            workers: channel.decoded().map(|one| Workers::bytes(worker_count(config, one))).sum(),
            mixed: if is_mix { channel.decoded().map(mixed).sum() } else { 0 },
        }
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        let Self { batches, decoders, outputs, chunks, copies, workers, mixed } = self;
        batches + decoders + outputs + chunks + copies + workers + mixed
    }

    /// One line for people.
    pub fn describe(&self) -> String {
        let parts = [
            (self.batches, "batches (limits.batches)"),
            (self.decoders, "decoders (limits.memory)"),
            (self.outputs, "what they make in a call (limits.output)"),
            (self.chunks, "their input (max_record)"),
            (self.copies, "copies of what they write into their windows"),
            (self.workers, "what workers have ready"),
            (self.mixed, "what waits for the mix"),
        ];
        let parts = parts.iter().filter(|(bytes, _)| *bytes > 0);
        let parts = parts.map(|(bytes, what)| format!("{} for {what}", show_rounded(*bytes)));
        format!(
            "takes at most {}: {}",
            show_rounded(self.total()),
            parts.collect::<Vec<_>>().join(", ")
        )
    }
}

/// The size in whole MiB, which are easier to compare.
fn show_rounded(bytes: u64) -> String {
    show_size(bytes.next_multiple_of(1 << 20))
}

/// Bytes for batches: those of the file, or what the ring and the window need and a gibibyte more,
/// if the container has that.
fn batch_bytes(config: &Config, channel: &Channel, limit: Option<u64>) -> u64 {
    if let Some(bytes) = channel.batch_memory {
        return bytes;
    }
    let left = limit.map_or(u64::MAX, |limit| limit.saturating_sub(fixed_bytes(config)));
    let share = left / config.channels.len().max(1) as u64;
    let window = match window_bytes(channel) {
        0 => 0,
        bytes => bytes + bytes / 7 + WINDOW_SPARE,
    };
    ring_bytes(config, channel) + window + share.clamp(MIN_BATCHES, DEFAULT_BATCHES)
}

/// A line about each channel's memory, for people.
pub fn describe_memory(config: &Config) -> Vec<String> {
    let of_channel = |channel: &Channel| {
        format!("{}: {}", channel.name, ChannelMemory::of(config, channel).describe())
    };
    config.channels.iter().map(of_channel).collect()
}

/// Why the channels together may take more than the container has, for people; `None` if they may
/// not.
pub fn may_exceed_limit(config: &Config) -> Option<String> {
    let limit = memory_limit()?;
    let total: u64 =
        config.channels.iter().map(|channel| ChannelMemory::of(config, channel).total()).sum();
    (total > limit).then(|| {
        format!(
            "the channels may take {} together, and this container may have {}; the kernel kills a \
             process there: lower `limits.memory`, `limits.output`, `limits.batches` or \
             `max_record` if their decoders need less",
            show_size(total),
            show_size(limit)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipemill_config::parse;

    fn config(more: &str) -> Config {
        let text = format!(
            "[[channel]]\nname = 'train'\nsource = {{ folder = 'x' }}\ndecoder = 'lines'\n{more}"
        );
        parse(&text, "pipemill.toml", &|_| None).expect("it is right")
    }

    fn memory(config: &Config, limit: Option<u64>) -> ChannelMemory {
        ChannelMemory::within(config, &config.channels[0], limit)
    }

    #[test]
    fn the_sum_has_all_parts() {
        let config = config(
            "batch = 8\nworkers = 2\nmax_record = '1MiB'\nshuffle = { seed = 1, window = '70MiB' \
             }\n\
             [channel.limits]\nmemory = '100MiB'\noutput = '10MiB'\n",
        );
        let found = memory(&config, None);
        let slots = 64 << 20;
        assert_eq!(found.batches, slots + (80 << 20) + WINDOW_SPARE + DEFAULT_BATCHES);
        assert_eq!((found.decoders, found.outputs), (200 << 20, 20 << 20));
        assert_eq!(found.chunks, 4 * ((1 << 20) + MAX_FRAMING as u64));
        assert_eq!((found.copies, found.mixed), (0, 0));
        assert_eq!(found.workers, Workers::bytes(2));
        let said = found.describe();
        assert!(said.starts_with("takes at most 1"), "{said}");
        assert!(said.contains("200MiB for decoders (limits.memory), 20MiB for what"), "{said}");
    }

    #[test]
    fn batches_fit_into_the_container() {
        let config = config("");
        let fixed = fixed_bytes(&config);
        let slots = ring_bytes(&config, &config.channels[0]);
        let of = |limit| memory(&config, Some(limit)).batches;
        assert_eq!(of(fixed + (300 << 20)), slots + (300 << 20));
        assert_eq!(of(fixed), slots + MIN_BATCHES);
        assert_eq!(of(1 << 40), slots + DEFAULT_BATCHES);
    }
}
