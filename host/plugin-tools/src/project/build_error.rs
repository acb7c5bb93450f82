//! The error of a project that can't be built.

use std::path::Path;

/// The reason why a project can't be built.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct BuildError {
    /// The problem, and what to do.
    pub message: String,
    /// Whether the machine lacks something, for example a compiler. If not, the sources are wrong.
    pub is_missing: bool,
}

impl BuildError {
    /// The machine lacks something.
    pub(super) fn missing(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_missing: true }
    }

    /// The sources are wrong.
    pub(super) fn wrong(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_missing: false }
    }

    /// The compiler at this path failed. It has printed the reason.
    pub(super) fn refused(compiler: &str) -> Self {
        let compiler = Path::new(compiler).file_name().unwrap_or_default().to_string_lossy();
        Self::wrong(format!("no plugin was made: {compiler} has refused it, see above"))
    }
}
