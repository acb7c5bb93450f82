//! The bytes of a regular file, all from the state in which it was opened.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use crate::file_system::FileSystem;
use crate::file_version::FileVersion;
use crate::skip::ended;
use crate::{Input, ReadOutcome, SourceError, Stop};

/// A regular file that is read from a given byte on.
///
/// The file's state is checked at its end, when it is opened again, and when its bytes can't be
/// decoded, but not at each read.
pub(super) struct RegularFile {
    file: File,
    /// The file that was opened first; other inputs may read other parts of it.
    opened: Arc<OpenedFile>,
    /// Byte at which reading began.
    begin: u64,
    /// Byte that is read next.
    at: u64,
    stop: Stop,
}

/// A file in the state in which it was opened.
struct OpenedFile {
    name: String,
    path: PathBuf,
    version: FileVersion,
}

impl RegularFile {
    /// An open file, from its byte `offset` on. If the file is shorter, the first read returns an
    /// error.
    pub(super) fn new(
        path: &Path,
        name: &str,
        file: File,
        version: FileVersion,
        offset: u64,
        stop: &Stop,
    ) -> Result<Self, SourceError> {
        let opened = OpenedFile { name: name.to_owned(), path: path.to_owned(), version };
        Self::from(Arc::new(opened), file, offset, stop)
    }

    fn from(
        opened: Arc<OpenedFile>,
        mut file: File,
        offset: u64,
        stop: &Stop,
    ) -> Result<Self, SourceError> {
        // An error is ignored: without this advice the kernel only reads less ahead.
        let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_SEQUENTIAL);
        if offset > 0 {
            file.seek(SeekFrom::Start(offset)).map_err(|error| {
                let failed = format!("can't go to its byte {offset}");
                SourceError::io(&opened.name, &failed, &error)
            })?;
        }
        Ok(Self { file, opened, begin: offset, at: offset, stop: stop.clone() })
    }

    fn size(&self) -> u64 {
        self.opened.version.content.size
    }

    /// The file has no more bytes.
    fn end(&self) -> Result<ReadOutcome, SourceError> {
        self.check_unchanged()?;
        let (at, size, name) = (self.at, self.size(), &self.opened.name);
        if self.begin > size {
            return Err(ended(name, size, self.begin));
        }
        if at < size && FileSystem::of(&self.file) != FileSystem::OfTheKernel {
            let message = format!("its bytes end at byte {at}, but it is said to have {size}");
            let remedy = "see whether its file system is well, and read it again";
            return Err(SourceError::new(name, message, remedy));
        }
        Ok(ReadOutcome::End)
    }
}

impl Input for RegularFile {
    fn is_stored(&self) -> bool {
        true
    }

    fn at(&self, offset: u64) -> Option<Result<Box<dyn Input>, SourceError>> {
        // Another handle to the same file. It has its own position and its own read-ahead.
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let opened = self.check_unchanged().and_then(|()| {
            let file = File::open(path);
            file.map_err(|error| SourceError::io(&self.opened.name, "can't open it", &error))
        });
        let input =
            opened.and_then(|file| Self::from(self.opened.clone(), file, offset, &self.stop));
        Some(input.map(|input| Box::new(input) as Box<dyn Input>))
    }

    fn range(&self, range: Range<u64>) -> Option<Result<Box<dyn Input>, SourceError>> {
        self.at(range.start)
    }

    fn check_unchanged(&self) -> Result<(), SourceError> {
        let OpenedFile { name, path, version } = &*self.opened;
        version.check(std::fs::metadata(path), &self.file, name)
    }

    fn read(&mut self, buf: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        loop {
            if self.stop.is_requested() {
                return Ok(ReadOutcome::Stopped);
            }
            match self.file.read(buf) {
                Ok(0) => return self.end(),
                Ok(count) => {
                    self.at += count as u64;
                    if self.at > self.size() {
                        self.check_unchanged()?;
                    }
                    return Ok(ReadOutcome::Bytes(count));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(SourceError::io(&self.opened.name, "can't read it", &error));
                }
            }
        }
    }
}
