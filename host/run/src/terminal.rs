//! The terminal on standard input. The command runs in its own process group and has the terminal
//! while it runs. So it can read from it, and Ctrl-C reaches it, as if the shell had started it.
//!
//! SIGTTOU must be blocked: it stops a background process that gives the terminal to a group.

use std::io::stdin;

use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// The terminal on standard input, if there is one.
#[derive(Clone, Copy)]
pub(super) struct Terminal {
    for_command: bool,
}

impl Terminal {
    /// `for_command` is false if the host itself reads standard input.
    pub(super) fn new(for_command: bool) -> Self {
        Self { for_command }
    }

    /// Whether this process's group has the terminal, and may pass it to the command.
    pub(super) fn is_ours(&self) -> bool {
        // Without a terminal the call fails. 0 is a group of another PID namespace: the terminal
        // could not be returned to it.
        let ours = |group: Pid| group == getpgrp() && group.as_raw() != 0;
        self.for_command && tcgetpgrp(stdin()).is_ok_and(ours)
    }

    /// Passes the terminal to a group. Safe between fork and exec, if [`is_ours`](Self::is_ours)
    /// was true before the fork.
    pub(super) fn give(&self, group: Pid) {
        // If this fails, the command runs anyway, but can't use the terminal.
        let _ = tcsetpgrp(stdin(), group);
    }

    /// Takes the terminal back, if this group has it. Returns whether it had it.
    pub(super) fn take_from(&self, group: Pid) -> bool {
        let has = self.for_command && tcgetpgrp(stdin()).is_ok_and(|has| has == group);
        if has {
            self.give(getpgrp());
        }
        has
    }
}
