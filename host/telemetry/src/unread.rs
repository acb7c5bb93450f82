//! How long to wait at the end for what is still to be written: as long as somebody reads it. Only
//! the time in which nobody does is limited, so a slow machine changes nothing.

use std::os::fd::{AsFd, BorrowedFd};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// How long nobody may read before the rest is given up.
const UNREAD_TIMEOUT: Duration = Duration::from_millis(500);
/// How long all of it may take, if something reads now and then, or a disk hangs.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How often it is looked at.
pub const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A wait for what is written to a descriptor.
pub struct Patience {
    began: Instant,
    /// When somebody read last.
    read: Instant,
    written: u64,
}

impl Default for Patience {
    /// A wait that begins now.
    fn default() -> Self {
        let now = Instant::now();
        Self { began: now, read: now, written: 0 }
    }
}

impl Patience {
    /// Whether it has waited long enough for `to`. `written` grows with what was written.
    pub fn is_over(&mut self, to: BorrowedFd<'_>, written: u64) -> bool {
        let now = Instant::now();
        if written != self.written || is_writable(to) {
            (self.written, self.read) = (written, now);
        }
        now > self.read + UNREAD_TIMEOUT || now > self.began + WRITE_TIMEOUT
    }
}

/// Waits for a thread that ends when it has written all to `to`. `None` if nobody reads it: then
/// the thread ends with the process.
pub fn join<T>(thread: JoinHandle<T>, to: &impl AsFd) -> Option<thread::Result<T>> {
    let mut patience = Patience::default();
    while !thread.is_finished() {
        if patience.is_over(to.as_fd(), 0) {
            return None;
        }
        thread::sleep(POLL_INTERVAL);
    }
    Some(thread.join())
}

/// Whether more can be written at once, or an error is told at once.
fn is_writable(to: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(to, PollFlags::POLLOUT)];
    // What can't be polled is a file, which takes what is written.
    !matches!(poll(&mut fds, PollTimeout::ZERO), Ok(0))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_thread_that_writes_to_a_full_pipe_is_left() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let to = writer.try_clone().unwrap();
        let thread = thread::spawn(move || writer.write_all(&[0; 1 << 21]));
        assert!(join(thread, &to).is_none());
        drop(reader);
    }

    /// It may work for longer than nobody may read.
    #[test]
    fn a_thread_whose_pipe_is_read_is_waited_for() {
        let (_reader, writer) = std::io::pipe().unwrap();
        let (sender, receiver) = channel::<()>();
        let thread = thread::spawn(move || receiver.recv());
        thread::spawn(move || {
            thread::sleep(2 * UNREAD_TIMEOUT);
            sender.send(())
        });
        assert!(join(thread, &writer).is_some_and(|joined| joined.unwrap().is_ok()));
    }
}
