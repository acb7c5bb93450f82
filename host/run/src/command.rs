//! The command that the host runs, in its own process group.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{Pid, getpid, getppid};

use super::SOCKET;
use super::open_files::OpenFiles;
use super::terminal::Terminal;

/// The reason why a command could not be started.
#[derive(Debug, thiserror::Error)]
#[error("the command `{command}` can't be started: {error}{remedy}")]
pub struct CommandError {
    command: String,
    error: io::Error,
    remedy: &'static str,
}

impl CommandError {
    /// The exit code that a shell gives: 127 if there is no such command, 126 if it can't be run.
    pub fn code(&self) -> u8 {
        if self.error.kind() == ErrorKind::NotFound { 127 } else { 126 }
    }
}

/// A running command. It leads its own process group, so that a signal reaches all processes that
/// it started.
pub(super) struct Command {
    pid: Pid,
}

impl Command {
    /// Starts a command. Must be called by the main thread of the process, see [`in_child`].
    pub(super) fn start(
        words: &[OsString],
        socket: &Path,
        environment: &[(String, String)],
        terminal: Terminal,
        files: OpenFiles,
    ) -> Result<Self, CommandError> {
        let name = words.first().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        spawn(words, socket, environment, terminal, files).map(|pid| Self { pid }).map_err(
            |error| {
                let remedy = match error.kind() {
                    ErrorKind::NotFound => "; check its name and PATH",
                    ErrorKind::PermissionDenied => "; check that it is executable",
                    _ => "",
                };
                CommandError { command: name, error, remedy }
            },
        )
    }

    /// The process id of the command, and of its group.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Sends a signal to the whole group. The number is that of the group until the command is
    /// waited for, see [`reaper`](super::reaper).
    pub(super) fn signal(&self, signal: Signal) {
        if let Err(error) = killpg(self.pid, signal)
            && error != Errno::ESRCH
        {
            log::warn!("the command can't be sent {signal}: {error}");
        }
    }
}

/// Starts the process by fork and exec, because `posix_spawn` can't do what [`in_child`] does.
fn spawn(
    words: &[OsString],
    socket: &Path,
    environment: &[(String, String)],
    terminal: Terminal,
    files: OpenFiles,
) -> io::Result<Pid> {
    let (name, args) = words.split_first().ok_or(ErrorKind::NotFound)?;
    let mut command = std::process::Command::new(name);
    let more = environment.iter().map(|(name, value)| (name, value));
    command.args(args).envs(more).env(SOCKET, socket).process_group(0);
    let host = getpid();
    let terminal = terminal.is_ours().then_some(terminal);
    // SAFETY: between fork and exec, a process with several threads may only call what is safe in a
    // signal handler. `in_child` only makes system calls: it neither allocates nor locks.
    unsafe { command.pre_exec(move || in_child(host, terminal, files)) };
    // `reaper` waits for the child, so std's `wait` is not used.
    let child = command.spawn()?;
    Ok(Pid::from_raw(child.id() as i32))
}

/// Prepares the child, which is in its new group already, before exec.
fn in_child(host: Pid, terminal: Option<Terminal>, files: OpenFiles) -> io::Result<()> {
    // If the host is killed, the kernel sends SIGTERM to the command. It does so when the thread
    // that forked ends, so that must be the main thread: it lives as long as the process.
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    if getppid() != host {
        // The host has ended before the call above.
        return Err(Errno::ESRCH.into());
    }
    // This comes before exec, because using the terminal from the background would stop the
    // command. SIGTTOU is still blocked here.
    if let Some(terminal) = terminal {
        terminal.give(getpid());
    }
    files.restore()?;
    // The child inherits the host's signal mask. With SIGTERM blocked it could not be stopped.
    SigSet::empty().thread_set_mask()?;
    Ok(())
}
