//! Waiting for whatever comes first: a signal, events of the channels, a moment.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::channel_threads::ChannelThreads;
use super::signals::Signals;

/// How often is looked at what tells nobody of its changes: rings, groups of processes.
pub(super) const TICK: Duration = Duration::from_millis(20);

pub(super) fn wait(signals: &Signals, threads: &ChannelThreads, until: Option<Instant>) {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    // A millisecond more, so as not to come too early again and again.
    let left = left.map(|left| left + Duration::from_millis(1));
    let timeout =
        left.map_or(PollTimeout::NONE, |left| left.try_into().unwrap_or(PollTimeout::MAX));
    let mut fds = [
        PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        PollFd::new(threads.as_fd(), PollFlags::POLLIN),
    ];
    // An interrupted wait is an early look, which does no harm.
    let _ = poll(&mut fds, timeout);
}
