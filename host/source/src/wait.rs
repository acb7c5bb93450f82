//! Why a wait ended, and the wait for a file descriptor, with a timeout, until a stop is requested.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::{ReadOutcome, Stop};

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitOutcome<T = ()> {
    /// The event has happened.
    Ready(T),
    /// The timeout passed.
    TimedOut,
    /// A stop was requested.
    Stopped,
}

impl<T> WaitOutcome<T> {
    /// The result of the poll. If there is none, the error is the outcome of the read that waited.
    pub(super) fn ready(self) -> Result<T, ReadOutcome> {
        match self {
            Self::Ready(value) => Ok(value),
            Self::TimedOut => Err(ReadOutcome::Nothing),
            Self::Stopped => Err(ReadOutcome::Stopped),
        }
    }
}

/// Waits until `fd` is readable or its writer hangs up.
pub(super) fn wait_readable(
    fd: BorrowedFd,
    stop: &Stop,
    timeout: Option<Duration>,
) -> io::Result<WaitOutcome> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let mut fds =
            [PollFd::new(fd, PollFlags::POLLIN), PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut fds, left.map(TimeSpec::from_duration), None) {
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) if stop.is_requested() => return Ok(WaitOutcome::Stopped),
            Ok(_) if fds[0].revents().is_some_and(|events| !events.is_empty()) => {
                return Ok(WaitOutcome::Ready(()));
            }
            Ok(_) if left.is_some_and(|left| left.is_zero()) => return Ok(WaitOutcome::TimedOut),
            Ok(_) => {}
        }
    }
}
