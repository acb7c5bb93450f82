//! Errors of sources.

use std::io;
use std::path::Path;

use pipemill_types::{ErrorKind, Printable};

/// Why a source can't continue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// Path or URL of the object, if the error is about one.
    pub object: Option<String>,
    /// A description of the error.
    pub message: String,
    /// The remedy; may be empty.
    pub remedy: String,
    /// Number of the epoch, if the source knows better than its reader which one it is.
    pub epoch: Option<u32>,
    /// Whether the input does not exist. False if it exists but can't be read.
    pub missing: bool,
    /// [`ErrorKind::Source`], unless the input can be read: then it is not the input of the state,
    /// or its decoder fails before the first byte.
    pub kind: ErrorKind,
}

impl SourceError {
    /// An error about this object. `remedy` may be empty.
    pub fn new(
        object: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            object: Some(object.into()),
            message: message.into(),
            remedy: remedy.into(),
            epoch: None,
            missing: false,
            kind: ErrorKind::Source,
        }
    }

    /// Object, message and remedy in one line for people.
    pub fn in_full(&self) -> String {
        let object = self.object.as_deref();
        let object =
            object.map_or(String::new(), |object| format!("{}: ", Printable::name(object)));
        let remedy =
            if self.remedy.is_empty() { String::new() } else { format!("; {}", self.remedy) };
        Printable::line(format_args!("{object}{}{remedy}", self.message)).to_string()
    }

    /// An error of a system call about this object. `failed` says what could not be done, for
    /// example "can't open it".
    pub fn io(object: impl Into<String>, failed: &str, error: &io::Error) -> Self {
        let (object, missing) = (object.into(), error.kind() == io::ErrorKind::NotFound);
        let remedy = match error.kind() {
            io::ErrorKind::NotFound => remedy_if_missing(&object),
            io::ErrorKind::PermissionDenied => "check its permissions".to_owned(),
            _ => String::new(),
        };
        Self { missing, remedy, ..Self::new(object, format!("{failed}: {error}"), "") }
    }

    /// An error for a list that has no object. `reason` is the message. It is for whole lists only:
    /// the part of one machine may be empty.
    pub(crate) fn no_objects(name: impl Into<String>, reason: &str) -> Self {
        Self { missing: true, ..Self::new(name, reason, "check the path") }
    }
}

/// The advice for a path that does not exist.
fn remedy_if_missing(path: &str) -> String {
    match std::env::current_dir() {
        Ok(folder) if Path::new(path).is_relative() => {
            format!("check the path, which begins in {}", folder.display())
        }
        _ => "check the path".to_owned(),
    }
}
