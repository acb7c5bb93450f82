//! Where bytes come from: FIFOs, files, S3, standard input. All deliver objects in order, and of each its
//! bytes and its end.

mod chain;
pub mod container;
mod epoch_file;
mod fifo;
mod files;
mod inflate;
mod open;
mod order;
mod paths;
pub mod s3;
mod sharding;
mod stop;
mod total_size;
mod wait;
mod wrap;

use std::time::Duration;

pub use fifo::Fifos;
pub use files::size;
pub use files::{Files, Pattern, Reading};
pub use inflate::Compression;
pub use order::Order;
pub use paths::{Paths, stdin};
pub use sharding::{Balance, Shard};
pub use stop::Stop;
pub use total_size::TotalSize;

/// The bytes of one object.
pub trait Input: Send {
    /// Reads what there is into `buf` (not empty), up to its size. Waits at most so long for the first
    /// byte; without a limit if there is none.
    ///
    /// # Errors
    /// The object can't be read any further.
    fn read(&mut self, buf: &mut [u8], wait: Option<Duration>) -> Result<ReadOutcome, SourceError>;
}

/// What a read gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOutcome {
    /// So many bytes; at least one.
    Bytes(usize),
    /// Nothing came in the time given.
    Nothing,
    /// The object is at its end.
    End,
    /// Somebody asked to stop.
    Stopped,
}

/// One object to be read.
pub struct Object {
    /// From 0.
    pub epoch: u32,
    /// Its path.
    pub name: String,
    /// Its bytes.
    pub input: Box<dyn Input>,
}

/// What a source does next.
pub enum SourceEvent {
    /// An object begins.
    Object(Object),
    /// The epoch with this number is at its end.
    EpochEnd(u32),
    /// There is nothing more.
    End,
}

/// A channel's source.
pub trait Source: Send {
    /// What comes next. An object that was given before is done with, read to its end or not.
    ///
    /// # Errors
    /// The next object can't be found or opened.
    fn next(&mut self) -> Result<SourceEvent, SourceError>;

    /// Leaves out what remains of the current epoch.
    fn end_epoch(&mut self);

    /// Where it tells how many bytes an epoch has, if it can know that: from the next list on, for which it may have
    /// to look at each object.
    fn total(&mut self) -> TotalSize {
        TotalSize::default()
    }
}

/// Why a source can't go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// The object that it was about, if one.
    pub object: Option<String>,
    /// What happened.
    pub message: String,
    /// What to do.
    pub remedy: String,
    /// The input is not there, as opposed to: it can't be read.
    pub missing: bool,
}

impl SourceError {
    /// A failure to do with this object.
    pub fn new(
        object: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            object: Some(object.into()),
            message: message.into(),
            remedy: remedy.into(),
            missing: false,
        }
    }

    /// All of it in one line, its object first.
    pub fn in_full(&self) -> String {
        let object = self.object.as_deref().map_or(String::new(), |object| format!("{object}: "));
        let remedy =
            if self.remedy.is_empty() { String::new() } else { format!("; {}", self.remedy) };
        format!("{object}{}{remedy}", self.message)
    }

    /// A failure of the system call that was `doing` something with this object.
    pub fn io(object: impl Into<String>, doing: &str, error: &std::io::Error) -> Self {
        let missing = error.kind() == std::io::ErrorKind::NotFound;
        let remedy = match error.kind() {
            std::io::ErrorKind::NotFound => "check the path",
            std::io::ErrorKind::PermissionDenied => "check its permissions",
            _ => "",
        };
        Self { missing, ..Self::new(object, format!("{doing}: {error}"), remedy) }
    }
}
