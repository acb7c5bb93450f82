//! Waits for children that have ended: the command, and orphans. As process 1 the host inherits all
//! orphans of its container, otherwise those of the command. No process stays a zombie.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{Pid, getpgid, getpgrp, getpid};

use super::processes;

/// Time for which a zombie in the host's own process group is left alone. Most likely a library
/// started it, such as one that runs a program to fetch credentials, and waits for it itself.
const OWN_GROUP_DELAY: Duration = Duration::from_secs(1);

/// Checks which children have ended, without reaping them.
const PEEK: WaitPidFlag =
    WaitPidFlag::WEXITED.union(WaitPidFlag::WNOHANG).union(WaitPidFlag::WNOWAIT);

/// The state of the command.
pub(super) enum CommandEvent {
    /// It ended: its exit code, or 128 + the signal that ended it.
    Ended(u8),
    /// A signal stopped it, as Ctrl-Z does.
    Stopped,
    /// It runs.
    None,
}

/// Waits for children that have ended.
pub(super) struct Reaper {
    /// A zombie of the host's own group, and the time when it was seen first.
    own_group: Option<(Pid, Instant)>,
}

impl Reaper {
    /// Makes orphans children of this process from now on.
    pub(super) fn new() -> Self {
        if getpid() != Pid::from_raw(1)
            && let Err(error) = set_child_subreaper(true)
        {
            log::warn!("orphans of the command will not be waited for: {error}");
        }
        Self { own_group: None }
    }

    /// Checks whether the command has ended or was stopped. Does not block. A command that has
    /// ended stays a zombie, so that no other process group can get its number: signals are sent to
    /// that number until the group is empty. [`reap_command`] ends the zombie.
    pub(super) fn check_command(&self, command: Pid) -> CommandEvent {
        match waitid(Id::Pid(command), PEEK) {
            Ok(WaitStatus::Exited(_, code)) => return CommandEvent::Ended(code as u8),
            Ok(WaitStatus::Signaled(_, signal, _)) => {
                return CommandEvent::Ended(128 + signal as u8);
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => {
                // Most likely a real-time signal ended it: nix has no name for those.
                log::error!("the command has ended, but not how it did: {error}");
                return CommandEvent::Ended(128 + Signal::SIGKILL as u8);
            }
        }
        match waitid(Id::Pid(command), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG) {
            Ok(WaitStatus::Stopped(..)) => CommandEvent::Stopped,
            _ => CommandEvent::None,
        }
    }

    /// Waits for all zombies while the command runs. Does not block. Returns when to call it again,
    /// if a zombie is left.
    pub(super) fn reap_orphans(&mut self, command: Pid, now: Instant) -> Option<Instant> {
        while let Some(zombie) = zombie(Id::All) {
            if zombie == command {
                // It ended after `check_command`, so SIGCHLD has arrived again.
                return Some(now);
            }
            if let Some(later) = self.reap(zombie, now) {
                return Some(later);
            }
        }
        self.own_group = None;
        None
    }

    /// As [`reap`](Self::reap), after the command has ended. Also returns whether its group has no
    /// other process left.
    pub(super) fn reap_after_command(
        &mut self,
        command: Pid,
        now: Instant,
    ) -> (Option<Instant>, bool) {
        let Some(processes) = processes::all() else {
            // Without a list, only the kernel knows it, and it counts the command's zombie.
            reap_command(command);
            return (self.reap_orphans(command, now), killpg(command, None) == Err(Errno::ESRCH));
        };
        let (mut again, mut is_alone) = (None, true);
        // Waits for them one by one: for all zombies together, the kernel would return the
        // command's each time.
        for process in processes.into_iter().filter(|process| *process != command) {
            let is_reaped = zombie(Id::Pid(process)).is_some() && again.is_none() && {
                again = self.reap(process, now);
                again.is_none()
            };
            is_alone &= is_reaped || getpgid(Some(process)) != Ok(command);
        }
        if again.is_none() {
            self.own_group = None;
        }
        (again, is_alone)
    }

    /// Waits for a zombie. If it must be left alone for now, returns when that time ends.
    fn reap(&mut self, zombie: Pid, now: Instant) -> Option<Instant> {
        if getpgid(Some(zombie)) == Ok(getpgrp()) {
            let since = match self.own_group {
                Some((known, since)) if known == zombie => since,
                _ => now,
            };
            self.own_group = Some((zombie, since));
            if now < since + OWN_GROUP_DELAY {
                return Some(since + OWN_GROUP_DELAY);
            }
        }
        // This fails only if another thread waited for it meanwhile.
        let _ = waitpid(zombie, Some(WaitPidFlag::WNOHANG));
        log::debug!("waited for the orphan {zombie}");
        None
    }
}

/// Ends the zombie of a command that has ended: its number may be given to another process.
pub(super) fn reap_command(command: Pid) {
    // This fails if it was done before, or if a real-time signal had ended it.
    let _ = waitpid(command, Some(WaitPidFlag::WNOHANG));
}

/// A child of this process that has ended, and that nobody has waited for.
fn zombie(which: Id<'_>) -> Option<Pid> {
    waitid(which, PEEK).ok()?.pid()
}
