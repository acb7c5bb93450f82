//! Waits for the first of several events: a signal, an event of a channel, the end of the owner, or
//! a deadline.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::channel_threads::ChannelThreads;
use super::owner::{Owner, PARENT_POLL_INTERVAL};
use super::signals::Signals;

/// Poll interval for state that has no descriptor: rings, process groups.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) fn wait(
    signals: &Signals,
    threads: &ChannelThreads,
    owner: Option<&Owner>,
    deadline: Option<Instant>,
) {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let left = [left, owner.map(|_| PARENT_POLL_INTERVAL)].into_iter().flatten().min();
    // One millisecond is added because poll rounds down: otherwise it would return too early,
    // several times.
    let left = left.map(|left| left + Duration::from_millis(1));
    let timeout =
        left.map_or(PollTimeout::NONE, |left| left.try_into().unwrap_or(PollTimeout::MAX));
    let fds = [Some(signals.as_fd()), Some(threads.as_fd()), owner.map(AsFd::as_fd)];
    let fds = fds.into_iter().flatten().map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    let mut fds: Vec<_> = fds.collect();
    // An interrupted wait returns early. The callers check all state again, so that does no harm.
    let _ = poll(&mut fds, timeout);
}
