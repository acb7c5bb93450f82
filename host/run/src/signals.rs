//! The signals that the host handles. They are blocked, so they interrupt no thread: the main
//! thread reads them from a descriptor, one by one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Signals that people and platforms send to end a process. Without a handler they would end it.
const STOP_SIGNALS: [Signal; 4] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];

/// More signals that are handled if there is a command: SIGCHLD reports a change of a child, the
/// others are forwarded to the command.
const COMMAND_SIGNALS: [Signal; 6] = [
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
    Signal::SIGTSTP,
    Signal::SIGCHLD,
];

/// Blocks the signals, and reads them.
///
/// Blocked signals reach even process 1 of a container. The kernel does not deliver it signals that
/// are neither blocked nor handled.
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks the signals in this thread, and in all threads that it starts later. So call it
    /// first: an earlier signal has its default effect.
    ///
    /// `command` says whether the host runs a command.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn take(command: bool) -> io::Result<Self> {
        let mut set = SigSet::from_iter(STOP_SIGNALS);
        if command {
            set.extend(COMMAND_SIGNALS);
        }
        let taken = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        if command {
            // These are blocked, but not read: while the command has the terminal, the kernel sends
            // them to the host for writing to the terminal or taking it back, and they would stop
            // the host.
            set.add(Signal::SIGTTOU);
        }
        set.thread_block()?;
        Ok(Self(taken))
    }

    /// The next signal that has arrived, if any. Does not block.
    pub(super) fn next(&self) -> Option<Signal> {
        let info = self.0.read_signal().ok().flatten()?;
        // `Signal` has all signals of our set.
        Signal::try_from(info.ssi_signo as i32).ok()
    }

    /// The next signal that ends the run, if any has arrived. Other signals are dropped: call this
    /// only while there is no command.
    pub(super) fn next_stop(&self) -> Option<Signal> {
        std::iter::from_fn(|| self.next()).find(|signal| STOP_SIGNALS.contains(signal))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
