//! The memory account that follows from the plan, for people: the memory that each channel may
//! take, and whether the container has it.

use pipemill_config::show_size;
use pipemill_types::MemoryPart;

use super::plan::{ChannelResources, MemoryOf, ResourcePlan};

impl ResourcePlan {
    /// A line about the memory of each channel, and one about the rest of the host.
    pub fn describe(&self) -> Vec<String> {
        let of_channel = |one: &ChannelResources| format!("{}: {}", one.name, one.describe());
        let host = format!("pipemill itself: {}", describe(self.host.iter().copied()));
        self.channels.iter().map(of_channel).chain([host]).collect()
    }

    /// The warning that the host may take more than the container has, for people; `None` if it may
    /// not. Most of it is taken only if decoders or inputs misbehave, so the run is not refused.
    pub fn may_exceed_limit(&self) -> Option<String> {
        let limit = self.machine.memory?;
        let channels: u64 = self.channels.iter().map(|one| one.memory.total()).sum();
        let host: u64 = self.host.iter().map(|(bytes, _)| bytes).sum();
        (channels + host > limit).then(|| {
            format!(
                "the channels may take {} together, and pipemill itself {}, but this container may \
                 have {}; the kernel kills a process there: lower `limits.memory`, \
                 `limits.output`, `limits.batches` or `max_record` if their decoders need less",
                show_size(channels),
                show_rounded(host),
                show_size(limit)
            )
        })
    }

    /// The reason why the rings and the windows of shuffles do not fit into the container's memory
    /// limit; `None` if they fit. The host takes all pages of the rings at the start, and those of
    /// a window while it fills; at the limit the kernel kills a process without an error.
    pub fn exceeds_limit(&self) -> Option<String> {
        let limit = self.machine.memory?;
        let (rings, windows) = (self.certain(|one| one.ring), self.certain(|one| one.window));
        let (batches, workers) = (self.certain(|one| one.batches), self.certain(|one| one.workers));
        let itself = self.certain_of_host();
        if rings + windows + batches + workers + itself <= limit {
            return None;
        }
        let each =
            |one: &ChannelResources| format!("`{}` {}", one.name, show_size(one.certain.ring));
        let each: Vec<_> = self.channels.iter().map(each).collect();
        let part = |bytes: u64, what: &str| match bytes {
            0 => String::new(),
            bytes => format!(" {what} {},", show_size(bytes)),
        };
        let smaller = match (windows, workers) {
            (0, 0) => "`slots` or `slot_size` in [channel.ring] smaller",
            (_, 0) => "`slots` or `slot_size` in [channel.ring], or `window` in `shuffle` smaller",
            (0, _) => "`slots` or `slot_size` in [channel.ring], or `workers`, smaller",
            (_, _) => {
                "`slots` or `slot_size` in [channel.ring], `window` in `shuffle`, or `workers`, \
                 smaller"
            }
        };
        Some(format!(
            "the rings of the channels take {} ({}),{}{}{} and pipemill itself at least {}, but \
             this container may have {}: give it more memory, also for the command, or make \
             {smaller}",
            show_size(rings),
            each.join(", "),
            part(batches, "what `limits.batches` allows beyond them"),
            part(windows, "the windows of `shuffle`"),
            part(workers, "the workers"),
            show_size(itself),
            show_size(limit),
        ))
    }
}

impl ChannelResources {
    /// The largest memory of the channel, by part.
    pub(super) fn describe(&self) -> String {
        let parts = MemoryPart::ALL.into_iter().map(|part| (self.memory.of(part), part.words()));
        describe(parts)
    }
}

/// A sum and its parts, for people.
fn describe(parts: impl Iterator<Item = MemoryOf>) -> String {
    let parts: Vec<_> = parts.filter(|(bytes, _)| *bytes > 0).collect();
    let total = parts.iter().map(|(bytes, _)| bytes).sum();
    let said = parts.iter().map(|(bytes, (what, key))| match *key {
        "" => format!("{} for {what}", show_rounded(*bytes)),
        key => format!("{} for {what} ({key})", show_rounded(*bytes)),
    });
    format!("takes at most {}: {}", show_rounded(total), said.collect::<Vec<_>>().join(", "))
}

/// The size in whole MiB, which are easier to compare.
fn show_rounded(bytes: u64) -> String {
    show_size(bytes.next_multiple_of(1 << 20))
}

#[cfg(test)]
mod tests {
    use pipemill_channel::Window;
    use pipemill_config::{Config, Shuffle, WorkerCount, parse};

    use super::*;
    use crate::plan::Machine;

    fn plan(config: &Config, memory: u64) -> ResourcePlan {
        ResourcePlan::of(config, &[], Machine { cores: 4, memory: Some(memory) })
    }

    fn check_limit(config: &Config, memory: u64) -> Option<String> {
        plan(config, memory).exceeds_limit()
    }

    fn channel(name: &str) -> String {
        format!("[[channel]]\nname = '{name}'\nsource = {{ file = 'x' }}\ndecoder = 'lines'\n")
    }

    fn two_channels() -> Config {
        let text = format!("{}[channel.ring]\nslots = 8\n{}", channel("train"), channel("test"));
        parse(&text, "pipemill.toml", &|_| None).expect("it is right")
    }

    #[test]
    fn parts_are_said_with_the_keys_that_bound_them() {
        let mut config = two_channels();
        config.channels[0].workers = WorkerCount::Exactly(2);
        let lines = plan(&config, 1 << 40).describe();
        assert!(lines[0].starts_with("train: takes at most "), "{lines:?}");
        assert!(
            lines[0].contains("1536MiB for decoders (limits.memory), 512MiB for what"),
            "{lines:?}"
        );
        assert!(!lines[1].contains("workers"), "{lines:?}");
        assert!(lines[2].starts_with("pipemill itself: takes at most "), "{lines:?}");
        let why = plan(&config, 1 << 30).may_exceed_limit().expect("it is too little");
        assert!(why.contains("this container may have 1GiB; the kernel kills"), "{why}");
        assert_eq!(plan(&config, 1 << 40).may_exceed_limit(), None);
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
        config.channels[0].shuffle = Some(Shuffle { seed: 7, blocks: None, shards: None, window });
        assert_eq!(check_limit(&config, 368 << 20), None);
        let why = check_limit(&config, 367 << 20).expect("it is too tight");
        let part = "64MiB), the windows of `shuffle` 256MiB, and pipemill itself at least 16MiB, \
                    but this container may have 367MiB: ";
        assert!(why.contains(part), "{why}");
        assert!(why.ends_with("or `window` in `shuffle` smaller"), "{why}");
    }

    #[test]
    fn what_is_mixed_counts() {
        let text = format!(
            "[[channel]]\nname = 'train'\nbatch = 8\nsource = {{ mix = {{ a = 1, b = 1, c = 1 }} \
             }}\n\
             shuffle = {{ seed = 7, window = '100MiB' }}\n[channel.ring]\nslots = 8\n{}{}{}",
            channel("a"),
            channel("b"),
            channel("c")
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
