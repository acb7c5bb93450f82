//! Children that have ended, the command and orphans: as process 1 the host inherits all orphans of its
//! container, and elsewhere those that come of the command. None stays a zombie.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{Pid, getpgid, getpgrp, getpid};

/// A child in the host's own group most likely was started by a library (one that fetches credentials by a
/// program), which waits for it at once. One that is left for so long is nobody's.
const NOBODYS: Duration = Duration::from_secs(1);

/// What the command did.
pub(super) enum Seen {
    /// It has ended: its exit code, or 128 + the signal that ended it.
    Ended(u8),
    /// Somebody stopped it, as Ctrl-Z does.
    Stopped,
    /// It runs.
    Nothing,
}

/// Takes the children that have ended.
pub(super) struct Reaper {
    /// A zombie that may be waited for elsewhere, and since when.
    left: Option<(Pid, Instant)>,
}

impl Reaper {
    /// From now on orphans come here.
    pub(super) fn new() -> Self {
        if getpid() != Pid::from_raw(1)
            && let Err(error) = set_child_subreaper(true)
        {
            log::warn!("orphans of the command will not be waited for: {error}");
        }
        Self { left: None }
    }

    /// Looks after the command.
    pub(super) fn look(&self, command: Pid) -> Seen {
        match waitpid(command, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Exited(_, code)) => Seen::Ended(code as u8),
            Ok(WaitStatus::Signaled(_, signal, _)) => Seen::Ended(128 + signal as u8),
            Ok(WaitStatus::Stopped(..)) => Seen::Stopped,
            Ok(_) | Err(Errno::EINTR) => Seen::Nothing,
            Err(error) => {
                // Most likely ended by a real-time signal, which has no name.
                log::error!("the command has ended, but not how it did: {error}");
                Seen::Ended(128 + Signal::SIGKILL as u8)
            }
        }
    }

    /// Takes all zombies but the command. Answers when to come again, should one be left.
    pub(super) fn orphans(&mut self, command: Pid, now: Instant) -> Option<Instant> {
        let peek = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        while let Some(zombie) = waitid(Id::All, peek).ok().and_then(|status| status.pid()) {
            if zombie == command {
                // Its end was between `look` and here; SIGCHLD has come again.
                return Some(now);
            }
            if getpgid(Some(zombie)) == Ok(getpgrp()) {
                let since = match self.left {
                    Some((left, since)) if left == zombie => since,
                    _ => now,
                };
                self.left = Some((zombie, since));
                if now < since + NOBODYS {
                    return Some(since + NOBODYS);
                }
            }
            // Fails only where it was waited for meanwhile.
            let _ = waitpid(zombie, Some(WaitPidFlag::WNOHANG));
            log::debug!("waited for the orphan {zombie}");
        }
        self.left = None;
        None
    }
}
