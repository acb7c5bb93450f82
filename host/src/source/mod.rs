//! Where bytes come from: FIFOs, files, standard input. All deliver objects in order, and of each its
//! bytes and its end.

mod fifo;
mod files;
mod inflate;
mod open;
mod wait;

use std::time::Duration;

pub use fifo::Fifos;
pub use files::{Files, Pattern};
pub use inflate::Compression;

use crate::stop::Stop;

/// The bytes of one object.
pub trait Input: Send {
    /// Reads what there is into `buf` (not empty), up to its size. Waits at most so long for the first
    /// byte; without a limit if there is none.
    ///
    /// # Errors
    /// The object can't be read any further.
    fn read(&mut self, buf: &mut [u8], wait: Option<Duration>) -> Result<Got, SourceError>;
}

/// What a read gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
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
pub enum Step {
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
    fn next(&mut self) -> Result<Step, SourceError>;

    /// Leaves out what remains of the current epoch.
    fn end_epoch(&mut self);
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
    fn new(
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

    pub(crate) fn io(object: impl Into<String>, doing: &str, error: &std::io::Error) -> Self {
        let missing = error.kind() == std::io::ErrorKind::NotFound;
        let remedy = match error.kind() {
            std::io::ErrorKind::NotFound => "check the path",
            std::io::ErrorKind::PermissionDenied => "check its permissions",
            _ => "",
        };
        Self { missing, ..Self::new(object, format!("{doing}: {error}"), remedy) }
    }
}

/// The objects that a command line names, one after the other: paths of files and FIFOs, folders,
/// and `-` for standard input.
pub struct Paths {
    rest: std::vec::IntoIter<String>,
    folder: Option<Files>,
    compression: Compression,
    stop: Stop,
    ended: bool,
}

impl Paths {
    /// Objects by their paths.
    pub fn new(paths: Vec<String>, compression: Compression, stop: Stop) -> Self {
        Self { rest: paths.into_iter(), folder: None, compression, stop, ended: false }
    }
}

impl Source for Paths {
    fn next(&mut self) -> Result<Step, SourceError> {
        if let Some(folder) = &mut self.folder {
            if let step @ Step::Object(_) = folder.next()? {
                return Ok(step);
            }
            self.folder = None;
        }
        let Some(path) = self.rest.next() else {
            let first = !std::mem::replace(&mut self.ended, true);
            return Ok(if first { Step::EpochEnd(0) } else { Step::End });
        };
        if std::path::Path::new(&path).is_dir() {
            let pattern = Pattern::Folder(path.into());
            let files = Files::new(pattern, 1, self.compression, self.stop.clone());
            return self.folder.insert(files).next();
        }
        let input = open::open(&path, self.compression, &self.stop)?;
        Ok(Step::Object(Object { epoch: 0, name: path, input }))
    }

    fn end_epoch(&mut self) {
        self.rest = Vec::new().into_iter();
        self.folder = None;
    }
}

/// Standard input as a source of one epoch.
pub fn stdin(compression: Compression, stop: Stop) -> impl Source {
    Paths::new(vec!["-".to_owned()], compression, stop)
}
