//! The memory limit of a container: refuses rings that do not fit, and reports processes that the
//! kernel killed for memory.

use nix::unistd::{Pid, getpid};
use pipemill_source::container::{killed_for_memory, memory_limit};

use pipemill_channel::Workers;

use super::workers::{extra_slots, worker_count};
use pipemill_config::{Channel, Config, Source, show_size};

/// Bytes that the host needs at least, without the rings and the windows of shuffles: for its code,
/// decoders and threads.
const HOST_MEMORY: u64 = 16 << 20;
/// Bytes that the decoder of a worker needs at least.
const INSTANCE_MEMORY: u64 = 2 << 20;
/// Bytes of the records that a channel has ready for its mix.
pub(super) const MIXED_CHANNEL_MEMORY: u64 = 6 << 20;

/// Returns why the rings and the windows of shuffles do not fit into the container's memory limit;
/// `None` if they fit. The host takes all pages of the rings at the start, and those of a window
/// while it fills; at the limit the kernel kills a process without an error.
pub fn exceeds_limit(config: &Config) -> Option<String> {
    check_limit(config, memory_limit()?)
}

fn check_limit(config: &Config, limit: u64) -> Option<String> {
    let rings: u64 = config.channels.iter().map(|channel| ring_bytes(config, channel)).sum();
    let windows: u64 = config.channels.iter().map(window_bytes).sum();
    let batches: u64 = config.channels.iter().map(|channel| more_batches(config, channel)).sum();
    let workers = worker_bytes(config);
    let itself = host_bytes(config);
    (rings + windows + batches + workers + itself > limit).then(|| {
        let each = config.channels.iter().map(|channel| {
            format!("`{}` {}", channel.name, show_size(ring_bytes(config, channel)))
        });
        let smaller = match (windows, workers) {
            (0, 0) => "`slots` or `slot_size` in [channel.ring] smaller",
            (_, 0) => "`slots` or `slot_size` in [channel.ring], or `window` in `shuffle` smaller",
            (0, _) => "`slots` or `slot_size` in [channel.ring], or `workers`, smaller",
            (_, _) => {
                "`slots` or `slot_size` in [channel.ring], `window` in `shuffle`, or `workers`, \
                 smaller"
            }
        };
        let workers = match workers {
            0 => String::new(),
            bytes => format!(" the workers {},", show_size(bytes)),
        };
        let batches = match batches {
            0 => String::new(),
            bytes => format!(" what `limits.batches` allows beyond them {},", show_size(bytes)),
        };
        let windows = match windows {
            0 => String::new(),
            bytes => format!(" the windows of `shuffle` {},", show_size(bytes)),
        };
        format!(
            "the rings of the channels take {} ({}),{batches}{windows}{workers} and pipemill \
             itself at least {}, but this container may have {}: give it more memory, also for the \
             command, or make {smaller}",
            show_size(rings),
            each.collect::<Vec<_>>().join(", "),
            show_size(itself),
            show_size(limit),
        )
    })
}

pub(super) fn ring_bytes(config: &Config, channel: &Channel) -> u64 {
    let slots = channel.ring.slots + extra_slots(config, channel);
    u64::from(slots) * channel.ring.slot_size as u64
}

/// Bytes that `limits.batches` allows beyond the ring and the window.
fn more_batches(config: &Config, channel: &Channel) -> u64 {
    let taken = ring_bytes(config, channel) + window_bytes(channel);
    channel.batch_memory.unwrap_or(0).saturating_sub(taken)
}

/// Bytes of the channel's window, if it is counted in bytes.
pub(super) fn window_bytes(channel: &Channel) -> u64 {
    channel.shuffle.map_or(0, |shuffle| shuffle.window_bytes())
}

/// Bytes that the workers of all channels take, with decoders that need little.
fn worker_bytes(config: &Config) -> u64 {
    let of_channel = |channel| {
        let count = worker_count(config, channel);
        let instances = if count > 1 { count as u64 * INSTANCE_MEMORY } else { 0 };
        Workers::bytes(count) + instances
    };
    config.channels.iter().flat_map(Channel::decoded).map(of_channel).sum()
}

/// Bytes that the host needs at least, without the rings and the windows of shuffles.
fn host_bytes(config: &Config) -> u64 {
    let of_mix = |channel: &Channel| match &channel.source {
        Source::Mix(mix) => mix.inputs.len() as u64 * MIXED_CHANNEL_MEMORY,
        _ => 0,
    };
    HOST_MEMORY + config.channels.iter().map(of_mix).sum::<u64>()
}

/// Bytes that are taken in any case: of all channels, and of the host itself.
pub(super) fn fixed_bytes(config: &Config) -> u64 {
    all_channel_bytes(config) + host_bytes(config)
}

/// Bytes that the channels take: of their rings, their windows and their workers.
fn all_channel_bytes(config: &Config) -> u64 {
    let of_channel = |channel: &Channel| ring_bytes(config, channel) + window_bytes(channel);
    config.channels.iter().map(of_channel).sum::<u64>() + worker_bytes(config)
}

/// Makes the kernel kill the command before the host, if the container's memory limit is reached.
///
/// The kernel kills the process with the most memory, and the rings count as memory of the host.
/// The host is process 1: without it the container ends, and nobody can say why. So this adds the
/// size of the rings and windows to the OOM score of the command. Processes that the command starts
/// inherit the score.
pub(super) fn adjust_oom_score(command: Pid, config: &Config) {
    let Some(limit) = memory_limit().filter(|_| getpid() == Pid::from_raw(1)) else {
        return;
    };
    // In thousandths of the limit. More than the rings, because the host has other memory, too.
    let more = (1_000 * (all_channel_bytes(config) + host_bytes(config))).div_ceil(limit.max(1));
    let adjust = || -> std::io::Result<()> {
        let own = std::fs::read_to_string("/proc/self/oom_score_adj")?;
        let own: i64 = own.trim().parse().map_err(std::io::Error::other)?;
        let score = (own + more as i64).min(1_000);
        std::fs::write(format!("/proc/{command}/oom_score_adj"), score.to_string())
    };
    if let Err(error) = adjust() {
        log::debug!("the kernel will kill pipemill before the command if memory is short: {error}");
    }
}

/// Number of processes that the kernel had killed for memory when the run began, if it counts them.
pub(super) struct OomKills(Option<u64>);

impl OomKills {
    pub(super) fn now() -> Self {
        Self(killed_for_memory())
    }

    /// A message, if the kernel has killed more processes since then.
    pub(super) fn message(&self) -> Option<String> {
        let killed = killed_for_memory()?.saturating_sub(self.0?);
        let limit =
            memory_limit().map_or(String::new(), |limit| format!(", {},", show_size(limit)));
        (killed > 0).then(|| {
            let processes = if killed == 1 { "a process" } else { "processes" };
            format!(
                "the kernel killed {processes} because the container's memory limit{limit} was \
                 reached: give it more memory, or see what takes it; the rings count, too"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use pipemill_channel::Window;

    use super::*;
    use pipemill_config::{Shuffle, WorkerCount, parse};

    fn two_channels() -> Config {
        let channel = |name| {
            format!("[[channel]]\nname = '{name}'\nsource = {{ file = 'x' }}\ndecoder = 'lines'\n")
        };
        let text = format!("{}[channel.ring]\nslots = 8\n{}", channel("train"), channel("test"));
        parse(&text, "pipemill.toml", &|_| None).expect("it is right")
    }

    #[test]
    fn rings_that_cannot_fit_are_refused() {
        let config = two_channels();
        assert_eq!(check_limit(&config, 112 << 20), None);
        let why = check_limit(&config, 111 << 20).expect("it is too tight");
        let start = "the rings of the channels take 96MiB (`train` 32MiB, `test` 64MiB), and \
                     pipemill itself at least 16MiB, but this container may have 111MiB: ";
        assert!(why.starts_with(start), "{why}");
    }

    #[test]
    fn windows_count() {
        let mut config = two_channels();
        let window = Some(Window::Bytes(256 << 20));
        config.channels[0].shuffle = Some(Shuffle { seed: 7, window });
        assert_eq!(check_limit(&config, 368 << 20), None);
        let why = check_limit(&config, 367 << 20).expect("it is too tight");
        let part = "64MiB), the windows of `shuffle` 256MiB, and pipemill itself at least 16MiB, \
                    but this container may have 367MiB: ";
        assert!(why.contains(part), "{why}");
        assert!(why.ends_with("or `window` in `shuffle` smaller"), "{why}");
    }

    #[test]
    fn what_is_mixed_counts() {
        let input = |name| {
            format!("[[channel]]\nname = '{name}'\nsource = {{ file = 'x' }}\ndecoder = 'lines'\n")
        };
        let text = format!(
            "[[channel]]\nname = 'train'\nbatch = 8\nsource = {{ mix = {{ a = 1, b = 1, c = 1 }} \
             }}\n\
             shuffle = {{ seed = 7, window = '100MiB' }}\n[channel.ring]\nslots = 8\n{}{}{}",
            input("a"),
            input("b"),
            input("c")
        );
        let config = parse(&text, "pipemill.toml", &|_| None).expect("it is right");
        // The ring, the window, three inputs and pipemill itself.
        let needed = (8 * 4 + 100 + 3 * 6 + 16) << 20;
        assert_eq!(check_limit(&config, needed), None);
        let why = check_limit(&config, needed - 1).expect("it is too tight");
        let part = "the windows of `shuffle` 100MiB, and pipemill itself at least 34MiB";
        assert!(why.contains(part), "{why}");
    }

    #[test]
    fn workers_count() {
        let mut config = two_channels();
        config.channels[0].workers = WorkerCount::Exactly(3);
        assert_eq!(check_limit(&config, 438 << 20), None);
        let why = check_limit(&config, 437 << 20).expect("it is too tight");
        let part =
            "`train` 128MiB, `test` 64MiB), the workers 230MiB, and pipemill itself at least 16MiB";
        assert!(why.contains(part), "{why}");
        assert!(why.ends_with("or `workers`, smaller"), "{why}");
    }
}
