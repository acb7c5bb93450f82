//! Errors of index files.

use std::fmt::Display;

use pipemill_source::SourceError;
use pipemill_types::Printable;

/// Why an index can't be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.in_full())]
pub struct IndexError {
    /// Path of the index, or its address in S3.
    pub file: String,
    /// A description of the error.
    pub message: String,
    /// The remedy; may be empty.
    pub remedy: String,
    /// Whether the file does not exist.
    pub missing: bool,
}

impl IndexError {
    pub(crate) fn new(
        file: impl Display,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let file = file.to_string();
        Self { file, message: message.into(), remedy: remedy.into(), missing: false }
    }

    /// An error of S3.
    pub(crate) fn of_s3(file: impl Display, error: SourceError) -> Self {
        let remedy = match error.missing {
            true => {
                format!("make it with `pipemill index SOURCE --out {file}`, or check the address")
            }
            false => error.remedy,
        };
        Self { missing: error.missing, ..Self::new(file, error.message, remedy) }
    }

    /// An error of a system call.
    pub(crate) fn io(file: impl Display, failed: &str, error: &std::io::Error) -> Self {
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
