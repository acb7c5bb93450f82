//! Waits for children that have ended: the command, and orphans. As process 1 the host inherits all
//! orphans of its container, elsewhere those of the command. None stays a zombie.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{Pid, getpgid, getpgrp, getpid};

/// How long a zombie in the host's own process group is left alone. Most likely a library started
/// it, such as one that runs a program to fetch credentials, and waits for it itself.
const OWN_GROUP_DELAY: Duration = Duration::from_secs(1);

/// What happened to the command.
pub(super) enum CommandEvent {
    /// It ended: its exit code, or 128 + the signal that ended it.
    Ended(u8),
    /// A signal stopped it, as Ctrl-Z does.
    Stopped,
    /// Nothing: it runs.
    None,
}

/// Waits for children that have ended.
pub(super) struct Reaper {
    /// A zombie of the host's own group, and when it was seen first.
    own_group: Option<(Pid, Instant)>,
}

impl Reaper {
    /// From this call on orphans become children of this process.
    pub(super) fn new() -> Self {
        if getpid() != Pid::from_raw(1)
            && let Err(error) = set_child_subreaper(true)
        {
            log::warn!("orphans of the command will not be waited for: {error}");
        }
        Self { own_group: None }
    }

    /// Checks whether the command has ended or was stopped. Does not block.
    pub(super) fn check_command(&self, command: Pid) -> CommandEvent {
        match waitpid(command, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Exited(_, code)) => CommandEvent::Ended(code as u8),
            Ok(WaitStatus::Signaled(_, signal, _)) => CommandEvent::Ended(128 + signal as u8),
            Ok(WaitStatus::Stopped(..)) => CommandEvent::Stopped,
            Ok(_) | Err(Errno::EINTR) => CommandEvent::None,
            Err(error) => {
                // Most likely a real-time signal ended it: nix has no name for those.
                log::error!("the command has ended, but not how it did: {error}");
                CommandEvent::Ended(128 + Signal::SIGKILL as u8)
            }
        }
    }

    /// Waits for all zombies except the command. Does not block. Returns when to call it again, if
    /// a zombie is left.
    pub(super) fn reap_orphans(&mut self, command: Pid, now: Instant) -> Option<Instant> {
        let peek = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        while let Some(zombie) = waitid(Id::All, peek).ok().and_then(|status| status.pid()) {
            if zombie == command {
                // It ended after `check_command`: SIGCHLD has arrived again.
                return Some(now);
            }
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
            // Fails only if another thread waited for it meanwhile.
            let _ = waitpid(zombie, Some(WaitPidFlag::WNOHANG));
            log::debug!("waited for the orphan {zombie}");
        }
        self.own_group = None;
        None
    }
}
