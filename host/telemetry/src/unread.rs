//! Limits the wait at the end for bytes that are still to be written. Only the time in which nobody
//! reads is limited, so the speed of the machine does not matter.

use std::os::fd::{AsFd, BorrowedFd};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// How long the reader may be silent before the rest is dropped.
const UNREAD_TIMEOUT: Duration = Duration::from_millis(500);
/// Limit of the whole wait, if something reads now and then, or a disk hangs.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the reader's progress is checked.
pub const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A wait for the bytes that are written to a descriptor.
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
    /// Whether the wait has been long enough for `to`. `written` grows with the bytes that were
    /// written.
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

/// Whether more can be written at once, or an error comes at once.
fn is_writable(to: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(to, PollFlags::POLLOUT)];
    // A descriptor that can't be polled is a file, which takes all writes.
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

    /// The thread may work for longer than the reader may be silent.
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
