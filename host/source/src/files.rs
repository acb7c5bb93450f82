//! Files as a source: one, those that match a pattern, or all in a folder, read once an epoch.

use std::path::{Path, PathBuf};

use super::wrap::Wrapped;
use super::{
    Compression, Input, Object, Order, Source, SourceError, SourceEvent, TotalSize, open, order,
    wrap,
};
use crate::Stop;

/// Which files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// This one.
    File(PathBuf),
    /// Those that match a shell pattern, by name.
    Glob(String),
    /// All below a folder, by name.
    Folder(PathBuf),
}

/// How objects are read, wherever they lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// How often, 1 or more.
    pub epochs: u32,
    /// How they are compressed.
    pub compression: Compression,
    /// In which order, and which of them.
    pub order: Order,
    /// Each becomes one RecordIO record.
    pub wrap: bool,
}

impl Default for Reading {
    fn default() -> Self {
        let (compression, order) = (Compression::Auto, Order::default());
        Self { epochs: 1, compression, order, wrap: false }
    }
}

impl Reading {
    /// Opens a file, a FIFO or standard input.
    pub(super) fn open(
        &self,
        path: &Path,
        name: &str,
        stop: &Stop,
    ) -> Result<Box<dyn Input>, SourceError> {
        let compression = self.compression.of(name);
        let input = open::open(name, compression, stop)?;
        if !self.wrap {
            return Ok(input);
        }
        // What is inflated, or comes through a pipe, has no length to know beforehand.
        let size =
            std::fs::metadata(path).ok().filter(|file| self.is_plain(name) && file.is_file());
        Ok(Box::new(Wrapped::new(name.to_owned(), input, size.map(|file| file.len()))))
    }

    /// The share of these files that is read in this epoch, in its order.
    ///
    /// # Errors
    /// A file can't be looked at.
    pub fn share(&self, files: Vec<PathBuf>, epoch: u32) -> Result<Vec<PathBuf>, SourceError> {
        self.order.arrange(files, epoch, |path| size(path))
    }

    /// Whether an object of this name is read as it is stored, as far as its name tells.
    fn is_plain(&self, name: &str) -> bool {
        matches!(self.compression.of(name), Compression::Auto | Compression::None)
    }

    /// The bytes that are read of an object of so many bytes, if its name tells.
    pub(super) fn length(&self, name: &str, stored: u64) -> Option<u64> {
        let wrapped = || if self.wrap { wrap::length(stored) } else { stored };
        self.is_plain(name).then(wrapped)
    }

    /// The bytes that are read of all of these, if they can be known beforehand.
    pub(super) fn length_of_all(&self, files: &[PathBuf]) -> Option<u64> {
        let length = |path: &PathBuf| {
            let file = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
            self.length(&path.to_string_lossy(), file.len())
        };
        files.iter().map(length).sum()
    }
}

/// Files, epoch after epoch. The list is made anew for each.
pub struct Files {
    pattern: Pattern,
    reading: Reading,
    stop: Stop,
    epoch: u32,
    rest: Option<std::vec::IntoIter<PathBuf>>,
    total: Option<TotalSize>,
}

impl Files {
    /// Reads files, in the epochs from this one on, up to number `reading.epochs`.
    pub fn new(pattern: Pattern, reading: Reading, first_epoch: u32, stop: Stop) -> Self {
        Self { pattern, reading, stop, epoch: first_epoch, rest: None, total: None }
    }

    fn list(&self) -> Result<Vec<PathBuf>, SourceError> {
        self.reading.share(self.pattern.list()?, self.epoch)
    }
}

/// The bytes of a file, as it is stored.
pub fn size(path: &Path) -> Result<u64, SourceError> {
    let file = std::fs::metadata(path);
    let file = file
        .map_err(|error| SourceError::io(path.to_string_lossy(), "can't get its metadata", &error));
    Ok(file?.len())
}

impl Source for Files {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        if self.epoch == self.reading.epochs {
            return Ok(SourceEvent::End);
        }
        if self.rest.is_none() {
            let files = self.list()?;
            if let Some(total) = &self.total
                && let Some(bytes) = self.reading.length_of_all(&files)
            {
                total.tell(self.epoch, bytes);
            }
            self.rest = Some(files.into_iter());
        }
        let Some(path) = self.rest.as_mut().and_then(Iterator::next) else {
            self.rest = None;
            self.epoch += 1;
            return Ok(SourceEvent::EpochEnd(self.epoch - 1));
        };
        let name = path.to_string_lossy().into_owned();
        let input = self.reading.open(&path, &name, &self.stop)?;
        Ok(SourceEvent::Object(Object { epoch: self.epoch, name, input }))
    }

    fn end_epoch(&mut self) {
        self.rest = Some(Vec::new().into_iter());
    }

    fn total(&mut self) -> TotalSize {
        self.total.get_or_insert_default().clone()
    }
}

impl Pattern {
    /// The files, sorted by name; never none.
    pub fn list(&self) -> Result<Vec<PathBuf>, SourceError> {
        let mut files = Vec::new();
        match self {
            Self::File(path) => files.push(path.clone()),
            Self::Glob(pattern) => {
                let paths = glob::glob(pattern).map_err(|error| {
                    let message = format!("is not a pattern: {error}");
                    SourceError::new(pattern, message, "see `*`, `?`, `[…]` and `**` in a shell")
                })?;
                for path in paths {
                    let path = path.map_err(|error| {
                        let path = error.path().to_string_lossy().into_owned();
                        SourceError::io(path, "can't list it", error.error())
                    })?;
                    if !path.is_dir() {
                        files.push(path);
                    }
                }
            }
            Self::Folder(folder) => list_folder(folder, &mut files)?,
        }
        if files.is_empty() {
            let (name, what) = match self {
                Self::Glob(pattern) => (pattern.clone(), "no file matches"),
                Self::Folder(path) | Self::File(path) => {
                    (path.to_string_lossy().into_owned(), "the folder holds no file")
                }
            };
            return Err(order::none(name, what));
        }
        files.sort();
        Ok(files)
    }
}

fn list_folder(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), SourceError> {
    let name = folder.to_string_lossy();
    let failed = |error| SourceError::io(&*name, "can't list it", &error);
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() { list_folder(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
