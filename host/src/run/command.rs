//! The command that the host runs beside its channels.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use super::SOCKET;

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
#[error("the command `{command}` can't be started: {}{remedy}", std::io::Error::from(*.error))]
pub struct CommandError {
    command: String,
    error: Errno,
    remedy: &'static str,
}

impl CommandError {
    /// As a shell has it: 127 if there is no such command, 126 if it can't be run.
    pub fn code(&self) -> u8 {
        if self.error == Errno::ENOENT { 127 } else { 126 }
    }
}

/// A command at work.
pub(super) struct Command {
    pid: Pid,
}

impl Command {
    pub(super) fn start(
        words: &[OsString],
        socket: &Path,
        environment: &[(String, String)],
    ) -> Result<Self, CommandError> {
        spawn(words, socket, environment).map(|pid| Self { pid }).map_err(|error| CommandError {
            command: words
                .first()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
            remedy: match error {
                Errno::ENOENT => "; check its name and PATH",
                Errno::EACCES => "; check that it is executable",
                _ => "",
            },
            error,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw() as u32
    }

    /// Waits for its end: its exit code, or 128 + the signal that ended it.
    pub(super) fn wait(&mut self) -> u8 {
        loop {
            match waitpid(self.pid, None) {
                Ok(WaitStatus::Exited(_, code)) => return code as u8,
                Ok(WaitStatus::Signaled(_, signal, _)) => return 128 + signal as u8,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => {
                    log::error!("the command can't be waited for: {error}");
                    return 1;
                }
            }
        }
    }
}

/// Starts it with no signal blocked: `std::process` would hand on the host's own mask, and a command
/// that never sees SIGTERM can't be stopped.
fn spawn(words: &[OsString], socket: &Path, environment: &[(String, String)]) -> nix::Result<Pid> {
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_sigmask(&SigSet::empty())?;
    // As std does: Rust programs ignore it, others expect to be ended by it.
    attributes.set_sigdefault(&SigSet::from(Signal::SIGPIPE))?;
    attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
    )?;
    // What an argument or a variable can't hold, a NUL, can't come from another process either.
    let text = |text: OsString| CString::new(text.into_vec()).map_err(|_| Errno::EINVAL);
    let words = words.iter().cloned().map(text).collect::<nix::Result<Vec<_>>>()?;
    let name = words.first().ok_or(Errno::ENOENT)?;
    let others = std::env::vars_os().filter(|(name, _)| name != SOCKET);
    let ours = (OsString::from(SOCKET), socket.as_os_str().to_owned());
    let more = environment.iter().map(|(name, value)| (name.into(), value.into()));
    let variables = others.chain(more).chain([ours]).map(|(mut variable, value)| {
        variable.push("=");
        variable.push(value);
        text(variable)
    });
    let variables = variables.collect::<nix::Result<Vec<_>>>()?;
    posix_spawnp(name, &PosixSpawnFileActions::init()?, &attributes, &words, &variables)
}
