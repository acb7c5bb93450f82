//! The terminal on standard input: the command, in a process group of its own, has it while it runs, so
//! that it can read from it and Ctrl-C reaches it, as if it had been started by the shell itself.
//!
//! SIGTTOU must be blocked: who is not in the foreground is stopped by it when he gives the terminal away.

use std::io::stdin;

use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// The terminal, if there is one.
#[derive(Clone, Copy)]
pub(super) struct Terminal {
    for_command: bool,
}

impl Terminal {
    /// `for_command`: false where the host itself reads standard input.
    pub(super) fn new(for_command: bool) -> Self {
        Self { for_command }
    }

    /// Whether it is this process's group's to give.
    pub(super) fn is_ours(&self) -> bool {
        // Without a terminal there is no answer; 0 is a group of another namespace, which can't take it back.
        let ours = |group: Pid| group == getpgrp() && group.as_raw() != 0;
        self.for_command && tcgetpgrp(stdin()).is_ok_and(ours)
    }

    /// Gives it to a group. Safe between fork and exec once [`is_ours`](Self::is_ours) was asked.
    pub(super) fn give(&self, group: Pid) {
        // Without it the command can do all but talk to a person.
        let _ = tcsetpgrp(stdin(), group);
    }

    /// Takes it back from a group, if that has it.
    pub(super) fn take_from(&self, group: Pid) -> bool {
        let has = self.for_command && tcgetpgrp(stdin()).is_ok_and(|has| has == group);
        if has {
            self.give(getpgrp());
        }
        has
    }
}
