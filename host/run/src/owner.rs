//! The process that owns a private host: a library that has started it as its child.
//!
//! The host ends when its owner ends, in whatever way. The owner holds the other end of standard
//! input, so its death closes it, and the host notices that at once. A process that the owner has
//! forked may hold a copy of that end. So the host also compares its parent with the owner, at an
//! interval. This does not depend on the owner's threads, as `PR_SET_PDEATHSIG` does: that is sent
//! when the thread ends that has started the host.
//!
//! Standard output has one line of JSON for the owner: the address for consumers, or why the host
//! can't start.

use std::io::{Stdin, Stdout, Write, stdin};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{Pid, getppid, read};
use serde_json::{Value, json};

use pipemill_telemetry::unread;

/// Interval at which the host checks its parent.
pub(super) const PARENT_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The process for which this host runs.
pub struct Owner {
    pid: Pid,
    stdin: Stdin,
    /// Whether nothing is decoded before consumers are connected.
    consumers_first: bool,
}

impl Owner {
    /// The owner with this process id, which must be the parent of this process. `consumers_first`:
    /// nothing is decoded before consumers are connected, because they bring a state.
    pub fn new(pid: i32, consumers_first: bool) -> Self {
        Self { pid: Pid::from_raw(pid), stdin: stdin(), consumers_first }
    }

    /// Whether nothing is decoded before consumers are connected.
    pub(super) fn has_consumers_first(&self) -> bool {
        self.consumers_first
    }

    /// Its process id.
    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Whether the owner has closed standard input, or has ended. Does not block.
    pub(super) fn has_ended(&self) -> bool {
        !self.is_parent() || self.has_hung_up()
    }

    /// Whether the owner is the parent of this process: it has not ended.
    pub(super) fn is_parent(&self) -> bool {
        getppid() == self.pid
    }

    fn has_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(self.stdin.as_fd(), PollFlags::POLLIN)];
        if !matches!(poll(&mut fds, PollTimeout::ZERO), Ok(1)) {
            return false;
        }
        match read(&self.stdin, &mut [0; 64]) {
            // The bytes have no meaning.
            Ok(bytes) => bytes == 0,
            Err(errno) => !matches!(errno, Errno::EAGAIN | Errno::EINTR),
        }
    }

    /// Reports the address at which consumers connect.
    pub(super) fn announce(&self, socket: &Path) {
        self.tell(&json!({ "socket": socket.to_string_lossy() }));
    }

    /// Reports why the host can't start, with the kind of the reasons: `refused`, `source` or
    /// `host`, as in an error of a channel.
    pub fn refuse(&self, kind: &str, why: &[String]) {
        self.tell(&json!({ "kind": kind, "why": why }));
    }

    /// Writes a line, unless the owner does not read: the host must still obey signals.
    pub(super) fn tell(&self, what: &Value) {
        let line = format!("{what}\n");
        let write = move || {
            let mut stdout = stdout();
            // An owner that has ended needs no answer.
            let _ = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
        };
        if let Ok(writing) = thread::Builder::new().name("owner".into()).spawn(write) {
            let _ = unread::join(writing, &stdout());
        }
    }
}

/// Standard output. The output is JSON, which has no characters that control a terminal.
#[expect(clippy::disallowed_methods, reason = "the owner reads it")]
fn stdout() -> Stdout {
    std::io::stdout()
}

impl AsFd for Owner {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stdin.as_fd()
    }
}
