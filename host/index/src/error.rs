//! Errors of index files.

use std::path::Path;

use pipemill_types::Printable;

/// Why an index can't be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.in_full())]
pub struct IndexError {
    /// Path of the index.
    pub file: String,
    /// A description of the error.
    pub message: String,
    /// The remedy; may be empty.
    pub remedy: String,
    /// Whether the file does not exist.
    pub missing: bool,
}

impl IndexError {
    pub(crate) fn new(file: &Path, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        let file = file.display().to_string();
        Self { file, message: message.into(), remedy: remedy.into(), missing: false }
    }

    /// An error of a system call.
    pub(crate) fn io(file: &Path, failed: &str, error: &std::io::Error) -> Self {
        let (missing, remedy) = match error.kind() {
            std::io::ErrorKind::NotFound => {
                (true, "make it with `pipemill index SOURCE --out FILE`, or check the path")
            }
            std::io::ErrorKind::StorageFull => (false, "free some space, and make the index again"),
            _ => (false, ""),
        };
        Self { missing, ..Self::new(file, format!("{failed}: {error}"), remedy) }
    }

    fn in_full(&self) -> String {
        let remedy =
            if self.remedy.is_empty() { String::new() } else { format!("; {}", self.remedy) };
        let file = Printable::name(&self.file);
        Printable::line(format_args!("the index {file}: {}{remedy}", self.message)).to_string()
    }
}
