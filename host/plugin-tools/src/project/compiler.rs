//! Runs a compiler, and reports it if it is not installed.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use super::build_error::BuildError;

/// A command that runs the compiler in the project's folder.
pub(super) fn compiler(program: impl AsRef<OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// Runs the compiler and returns its standard output. Its standard error goes to that of this
/// process.
///
/// # Errors
/// It can't be started, or fails. `install` says how to install it.
pub(super) fn run(command: &mut Command, install: &str) -> Result<Vec<u8>, BuildError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| not_started(&name, install, &error))?;
    if output.status.success() { Ok(output.stdout) } else { Err(BuildError::refused(&name)) }
}

/// Runs the compiler without output to the terminal, and returns its standard output without white
/// space at its ends; `None` if it fails or prints nothing.
///
/// # Errors
/// It can't be started. `install` says how to install it.
pub(super) fn query(command: &mut Command, install: &str) -> Result<Option<String>, BuildError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| not_started(&name, install, &error))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok((output.status.success() && !text.is_empty()).then_some(text))
}

fn not_started(name: &str, install: &str, error: &std::io::Error) -> BuildError {
    if error.kind() == std::io::ErrorKind::NotFound {
        BuildError::missing(format!("`{name}` is not on PATH; {install}"))
    } else {
        BuildError::missing(format!("`{name}` can't be started: {error}"))
    }
}
