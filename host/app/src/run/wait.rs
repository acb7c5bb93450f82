//! Waits for what comes first: a signal, an event of a channel, or a deadline.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::channel_threads::ChannelThreads;
use super::signals::Signals;

/// Poll interval for state that has no descriptor: rings, process groups.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) fn wait(signals: &Signals, threads: &ChannelThreads, deadline: Option<Instant>) {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    // One millisecond more, because poll rounds down: else it would return too early, several
    // times.
    let left = left.map(|left| left + Duration::from_millis(1));
    let timeout =
        left.map_or(PollTimeout::NONE, |left| left.try_into().unwrap_or(PollTimeout::MAX));
    let mut fds = [
        PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        PollFd::new(threads.as_fd(), PollFlags::POLLIN),
    ];
    // An interrupted wait returns early. The callers check all state again, so that does no harm.
    let _ = poll(&mut fds, timeout);
}
