//! The signals that the host takes: instead of interrupting a thread they are read, one by one, by the
//! thread that waits for the command.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// What ends a process that knows nothing of signals, and that people and platforms send.
const ENDING: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];

/// What is taken besides where there is a command: to be handed on, and to learn of children.
const FOR_THE_COMMAND: [Signal; 6] = [
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
    Signal::SIGTSTP,
    Signal::SIGCHLD,
];

/// The signals, blocked in this thread and all that it starts from now on.
///
/// Blocked, they reach even process 1 of a container, which is spared all that it has no handler for.
pub struct Signals(SignalFd);

impl Signals {
    /// To be called before anything else: what comes earlier does what it does to any process.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn take(command: bool) -> io::Result<Self> {
        let mut set = SigSet::from_iter(ENDING);
        if command {
            set.extend(FOR_THE_COMMAND);
        }
        let taken = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        if command {
            // Only blocked: while the command has the terminal, to write to it or to take it back must
            // not stop the host.
            set.add(Signal::SIGTTOU);
        }
        set.thread_block()?;
        Ok(Self(taken))
    }

    /// One that has come.
    pub(super) fn next(&self) -> Option<Signal> {
        let info = self.0.read_signal().ok().flatten()?;
        // Of those in our set there is none that it does not know.
        Signal::try_from(info.ssi_signo as i32).ok()
    }

    /// One that ends the run, if one has come; others are passed over. For as long as there is no command.
    pub(super) fn next_ending(&self) -> Option<Signal> {
        std::iter::from_fn(|| self.next()).find(|signal| ENDING.contains(signal))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
