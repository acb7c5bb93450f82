//! Files as a source: one file, the files that match a pattern, or all files in a folder.

use std::path::{Path, PathBuf};

use crate::reading::file_facts;
use crate::{Object, ReadSettings, Source, SourceError, SourceEvent, Stop, TotalSize};

/// Selects files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// One file.
    File(PathBuf),
    /// All files that match a shell pattern, sorted by path.
    Glob(String),
    /// All files in a folder and its subfolders, sorted by path.
    Folder(PathBuf),
}

/// A source of files. The files are listed again for each epoch.
pub struct Files {
    pattern: Pattern,
    reading: ReadSettings,
    stop: Stop,
    epoch: u32,
    /// The files of this epoch that are still to be read; `None` before they are listed.
    rest: Option<std::vec::IntoIter<PathBuf>>,
    total_size: Option<TotalSize>,
}

impl Files {
    /// Reads the epochs from `first_epoch` up to, but not including, `reading.epochs`.
    pub fn new(pattern: Pattern, reading: ReadSettings, first_epoch: u32, stop: Stop) -> Self {
        Self { pattern, reading, stop, epoch: first_epoch, rest: None, total_size: None }
    }

    fn list(&self) -> Result<Vec<PathBuf>, SourceError> {
        self.reading.share(self.pattern.list()?, self.epoch)
    }
}

impl Source for Files {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        if self.epoch == self.reading.epochs {
            return Ok(SourceEvent::End);
        }
        if self.rest.is_none() {
            let files = self.list()?;
            if let Some(total_size) = &self.total_size
                && let Some(bytes) = self.reading.length_of_all(&files)
            {
                total_size.set(self.epoch, bytes);
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
        Ok(SourceEvent::Object(Object { epoch: self.epoch, facts: file_facts(&name), name, input }))
    }

    fn end_epoch(&mut self) {
        self.rest = Some(Vec::new().into_iter());
    }

    fn total_size(&mut self) -> TotalSize {
        self.total_size.get_or_insert_default().clone()
    }
}

impl Pattern {
    /// The selected files, sorted by path; at least one.
    ///
    /// # Errors
    /// The shell pattern is invalid, a folder can't be listed, or no file is selected.
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
            let (name, reason) = match self {
                Self::Glob(pattern) => (pattern.clone(), "no file matches"),
                Self::Folder(path) | Self::File(path) => {
                    (path.to_string_lossy().into_owned(), "the folder holds no file")
                }
            };
            return Err(SourceError::no_objects(name, reason));
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
