//! Processes that the kernel kills for memory: the command before the host, and a message about
//! them.

use nix::unistd::{Pid, getpid};
use pipemill_config::show_size;
use pipemill_source::container::{killed_for_memory, memory_limit};

use super::plan::ResourcePlan;

/// Makes the kernel kill the command before the host, if the container's memory limit is reached.
///
/// The kernel kills the process with the most memory, and the rings count as memory of the host.
/// The host may be process 1: without it the container ends, and nobody can say why. So this adds
/// the size of the rings and windows to the OOM score of the command. Processes that the command
/// starts inherit the score.
pub(super) fn adjust_oom_score(command: Pid, plan: &ResourcePlan) {
    let Some(limit) = plan.machine.memory.filter(|_| getpid() == Pid::from_raw(1)) else {
        return;
    };
    // The score is in thousandths of the limit. It is more than the rings, because the host has
    // other memory, too.
    let more = (1_000 * plan.certain_of_all()).div_ceil(limit.max(1));
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
