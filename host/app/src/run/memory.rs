//! The memory limit of a container: rings that can't fit are refused before the kernel kills for them, and a kill is
//! told.

use nix::unistd::{Pid, getpid};

use crate::config::{Config, Ring, show_size};
use pipemill_source::container::{killed_for_memory, memory_limit};

/// What the host needs beside the rings, at least: its code, decoders, threads.
const OWN: u64 = 16 << 20;

/// Says why the rings can't be had here, if that is so. All their pages are taken at the start, and where the limit is
/// met the kernel kills, and asks nobody.
pub(super) fn exceeds_limit(config: &Config) -> Option<String> {
    why_too_tight(config, memory_limit()?)
}

fn why_too_tight(config: &Config, limit: u64) -> Option<String> {
    let rings = rings(config);
    (rings + OWN > limit).then(|| {
        let each = config.channels.iter().map(|channel| {
            format!("`{}` {}", channel.name, show_size(bytes(&channel.ring)))
        });
        format!(
            "the rings of the channels take {} ({}), and pipemill itself at least {}, but this container may have {}: give \
             it more memory, also for the command, or make `slots` or `slot_size` in [channel.ring] smaller",
            show_size(rings),
            each.collect::<Vec<_>>().join(", "),
            show_size(OWN),
            show_size(limit),
        )
    })
}

fn bytes(ring: &Ring) -> u64 {
    ring.slots as u64 * ring.slot_size as u64
}

fn rings(config: &Config) -> u64 {
    config.channels.iter().map(|channel| bytes(&channel.ring)).sum()
}

/// Where the container's limit is met, the kernel kills the process that it holds for the largest. All rings count as
/// this process's, so that it would be this one, process 1, which takes all others with it and can tell nothing. So
/// the command, and what it starts, has as much added as the rings are.
pub(super) fn adjust_oom_score(command: Pid, config: &Config) {
    let Some(limit) = memory_limit().filter(|_| getpid() == Pid::from_raw(1)) else {
        return;
    };
    // In thousandths of the limit; more than the rings, for what else this process has.
    let more = (1_000 * (rings(config) + OWN)).div_ceil(limit.max(1));
    let adjust_oom_score = || -> std::io::Result<()> {
        let own = std::fs::read_to_string("/proc/self/oom_score_adj")?;
        let own: i64 = own.trim().parse().map_err(std::io::Error::other)?;
        let score = (own + more as i64).min(1_000);
        std::fs::write(format!("/proc/{command}/oom_score_adj"), score.to_string())
    };
    if let Err(error) = adjust_oom_score() {
        log::debug!("the kernel will kill pipemill before the command if memory is short: {error}");
    }
}

/// What the kernel did before the command was started.
pub(super) struct OomKills(Option<u64>);

impl OomKills {
    pub(super) fn so_far() -> Self {
        Self(killed_for_memory())
    }

    /// Says that the kernel has killed since then, if it has.
    pub(super) fn since(&self) -> Option<String> {
        let killed = killed_for_memory()?.saturating_sub(self.0?);
        let limit =
            memory_limit().map_or(String::new(), |limit| format!(", {},", show_size(limit)));
        (killed > 0).then(|| {
            let processes = if killed == 1 { "a process" } else { "processes" };
            format!(
                "the kernel killed {processes} because the container's memory limit{limit} was reached: give it more \
                 memory, or see what takes it; the rings count, too"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

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
        assert_eq!(why_too_tight(&config, 112 << 20), None);
        let why = why_too_tight(&config, 111 << 20).expect("it is too tight");
        let start = "the rings of the channels take 96MiB (`train` 32MiB, `test` 64MiB), and pipemill itself at least \
                     16MiB, but this container may have 111MiB: ";
        assert!(why.starts_with(start), "{why}");
    }
}
