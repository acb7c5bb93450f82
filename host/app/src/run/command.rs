//! The command that the host runs, and the process group that it and its children are.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{Pid, getpid, getppid};

use super::SOCKET;
use super::terminal::Terminal;

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
#[error("the command `{command}` can't be started: {error}{remedy}")]
pub struct CommandError {
    command: String,
    error: io::Error,
    remedy: &'static str,
}

impl CommandError {
    /// As a shell has it: 127 if there is no such command, 126 if it can't be run.
    pub fn code(&self) -> u8 {
        if self.error.kind() == ErrorKind::NotFound { 127 } else { 126 }
    }
}

/// A command at work. It leads a process group of its own, so that a signal reaches all that it started.
pub(super) struct Command {
    pid: Pid,
}

impl Command {
    /// Starts it. To be called by the process's main thread, see [`in_child`].
    pub(super) fn start(
        words: &[OsString],
        socket: &Path,
        environment: &[(String, String)],
        terminal: Terminal,
    ) -> Result<Self, CommandError> {
        let name = words.first().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        spawn(words, socket, environment, terminal).map(|pid| Self { pid }).map_err(|error| {
            let remedy = match error.kind() {
                ErrorKind::NotFound => "; check its name and PATH",
                ErrorKind::PermissionDenied => "; check that it is executable",
                _ => "",
            };
            CommandError { command: name, error, remedy }
        })
    }

    /// Its number, which is its group's, too.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Sends a signal to all of its group. If there is nobody left there is nobody to tell.
    pub(super) fn signal(&self, signal: Signal) {
        if let Err(error) = killpg(self.pid, signal)
            && error != Errno::ESRCH
        {
            log::warn!("the command can't be sent {signal}: {error}");
        }
    }

    /// Whether its group has members, zombies counted.
    pub(super) fn has_members(&self) -> bool {
        killpg(self.pid, None) != Err(Errno::ESRCH)
    }
}

/// Not by `posix_spawn`, which can do none of what [`in_child`] does.
fn spawn(
    words: &[OsString],
    socket: &Path,
    environment: &[(String, String)],
    terminal: Terminal,
) -> io::Result<Pid> {
    let (name, args) = words.split_first().ok_or(ErrorKind::NotFound)?;
    let mut command = std::process::Command::new(name);
    let more = environment.iter().map(|(name, value)| (name, value));
    command.args(args).envs(more).env(SOCKET, socket).process_group(0);
    let host = getpid();
    let terminal = terminal.is_ours().then_some(terminal);
    // SAFETY: between fork and exec, in a process of several threads, only what is safe in a signal
    // handler may be called. `in_child` makes system calls, and neither allocates nor locks.
    unsafe { command.pre_exec(move || in_child(host, terminal)) };
    // Never waited for through std: see `reaper`.
    let child = command.spawn()?;
    Ok(Pid::from_raw(child.id() as i32))
}

/// What the child does before it becomes the command, in its new group already.
fn in_child(host: Pid, terminal: Option<Terminal>) -> io::Result<()> {
    // Should the host be killed, nobody else would tell the command. Sent when the thread that forked
    // ends: this is why it must be the main one, which lives as long as the process.
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    if getppid() != host {
        // It is gone already.
        return Err(Errno::ESRCH.into());
    }
    // Before its first look at the terminal, which would stop it; SIGTTOU is blocked still.
    if let Some(terminal) = terminal {
        terminal.give(getpid());
    }
    // std hands on the host's mask, and a command that never sees SIGTERM can't be stopped.
    SigSet::empty().thread_set_mask()?;
    Ok(())
}
