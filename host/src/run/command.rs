//! The command that the host runs beside its channels.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{self, Child};

use super::SOCKET;

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
#[error("the command `{command}` can't be started: {error}{remedy}")]
pub struct CommandError {
    command: String,
    error: std::io::Error,
    remedy: &'static str,
}

impl CommandError {
    /// As a shell has it: 127 if there is no such command, 126 if it can't be run.
    pub fn code(&self) -> u8 {
        if self.error.kind() == ErrorKind::NotFound { 127 } else { 126 }
    }
}

/// A command at work.
pub(super) struct Command {
    child: Child,
}

impl Command {
    pub(super) fn start(words: &[OsString], socket: &Path) -> Result<Self, CommandError> {
        let (name, args) = words
            .split_first()
            .map_or((OsString::new(), &[][..]), |(name, args)| (name.clone(), args));
        let child = process::Command::new(&name).args(args).env(SOCKET, socket).spawn();
        let child = child.map_err(|error| CommandError {
            command: name.to_string_lossy().into_owned(),
            remedy: match error.kind() {
                ErrorKind::NotFound => "; check its name and PATH",
                ErrorKind::PermissionDenied => "; check that it is executable",
                _ => "",
            },
            error,
        })?;
        Ok(Self { child })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end: its exit code, or 128 + the signal that ended it.
    pub(super) fn wait(&mut self) -> u8 {
        match self.child.wait() {
            Ok(status) => {
                let signal = status.signal().map(|signal| 128 + signal);
                signal.or(status.code()).map_or(1, |code| code as u8)
            }
            Err(error) => {
                log::error!("the command can't be waited for: {error}");
                1
            }
        }
    }
}
