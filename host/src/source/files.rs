//! Files as a source: one, those that match a pattern, or all in a folder, read once an epoch.

use std::path::{Path, PathBuf};

use super::{Compression, Object, Source, SourceError, Step, open};
use crate::stop::Stop;

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

/// Files, epoch after epoch. The list is made anew for each.
pub struct Files {
    pattern: Pattern,
    epochs: u32,
    compression: Compression,
    stop: Stop,
    epoch: u32,
    rest: Option<std::vec::IntoIter<PathBuf>>,
}

impl Files {
    /// Reads them so many times.
    pub fn new(pattern: Pattern, epochs: u32, compression: Compression, stop: Stop) -> Self {
        Self { pattern, epochs, compression, stop, epoch: 0, rest: None }
    }
}

impl Source for Files {
    fn next(&mut self) -> Result<Step, SourceError> {
        if self.epoch == self.epochs {
            return Ok(Step::End);
        }
        let rest = match &mut self.rest {
            Some(rest) => rest,
            none => none.insert(self.pattern.list()?.into_iter()),
        };
        let Some(path) = rest.next() else {
            self.rest = None;
            self.epoch += 1;
            return Ok(Step::EpochEnd(self.epoch - 1));
        };
        let name = path.to_string_lossy().into_owned();
        let input = open::open(&name, self.compression, &self.stop)?;
        Ok(Step::Object(Object { epoch: self.epoch, name, input }))
    }

    fn end_epoch(&mut self) {
        self.rest = Some(Vec::new().into_iter());
    }
}

impl Pattern {
    /// The files, sorted by name; never none.
    pub(crate) fn list(&self) -> Result<Vec<PathBuf>, SourceError> {
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
            let error = SourceError::new(name, what, "check the path");
            return Err(SourceError { missing: true, ..error });
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
