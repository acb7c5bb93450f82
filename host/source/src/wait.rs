//! Waiting for a file descriptor, a request to stop, or the time to run out.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::Stop;

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// The descriptor is readable or was hung up.
    Ready,
    /// The time ran out.
    Late,
    /// Somebody asked to stop.
    Stopped,
}

/// Waits until `fd` is readable or hung up.
pub(super) fn readable(fd: BorrowedFd, stop: &Stop, wait: Option<Duration>) -> io::Result<Woken> {
    let until = wait.map(|wait| Instant::now() + wait);
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let mut fds =
            [PollFd::new(fd, PollFlags::POLLIN), PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut fds, left.map(TimeSpec::from_duration), None) {
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) if stop.is_asked() => return Ok(Woken::Stopped),
            Ok(_) if fds[0].revents().is_some_and(|events| !events.is_empty()) => {
                return Ok(Woken::Ready);
            }
            Ok(_) if left.is_some_and(|left| left.is_zero()) => return Ok(Woken::Late),
            Ok(_) => {}
        }
    }
}
