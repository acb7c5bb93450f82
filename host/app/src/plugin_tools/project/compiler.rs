//! Runs compilers: whether they are there, and what they say.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use super::BuildError;

/// A compiler to be run in the project's folder. What it says is for the author to see.
pub(super) fn compiler(program: impl AsRef<OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// Runs it. Its messages go where ours go; the answer is its standard output, unless that was set.
pub(super) fn run(command: &mut Command, missing: &str) -> Result<Vec<u8>, BuildError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| not_started(&name, missing, &error))?;
    if done.status.success() { Ok(done.stdout) } else { Err(BuildError::refused(&name)) }
}

/// Asks it something, quietly: what it answers in a line, or nothing if it does not.
pub(super) fn ask(command: &mut Command, missing: &str) -> Result<Option<String>, BuildError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|error| not_started(&name, missing, &error))?;
    let answer = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    Ok((done.status.success() && !answer.is_empty()).then_some(answer))
}

fn not_started(name: &str, missing: &str, error: &std::io::Error) -> BuildError {
    if error.kind() == std::io::ErrorKind::NotFound {
        BuildError::missing(format!("`{name}` is not on PATH; {missing}"))
    } else {
        BuildError::missing(format!("`{name}` can't be started: {error}"))
    }
}
