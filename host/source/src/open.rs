//! Opens a path: a regular file, a FIFO, a device or standard input.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::file_system::FileSystem;
use crate::file_version::{FileVersion, SizeAndTime, stable_metadata};
use crate::regular_file::RegularFile;
use crate::selected::check_selected;
use crate::skip::skip;
use crate::start::ObjectStart;
use crate::wait::{WaitOutcome, wait_readable};
use crate::{Compression, Input, ReadOutcome, SourceError, Stop};

/// Pipe size in bytes for FIFOs without a setting: what Linux by default allows an unprivileged
/// process.
const DEFAULT_PIPE_SIZE: usize = 1 << 20;

/// How the path was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// A user named it: it may be anything that can be read.
    Named,
    /// It is in a list, which knew this state. It must not be read in another state.
    Listed(Option<SizeAndTime>),
    /// As `Listed`, and a folder or a pattern selected it: it must be a regular file.
    Selected(Option<SizeAndTime>),
}

/// An opened path.
pub(super) struct Opened {
    pub(super) input: Box<dyn Input>,
    /// The state of a regular file, which must not change.
    pub(super) version: Option<FileVersion>,
}

/// Opens a path; `-` is standard input. Messages call it `name`. A compressed object is inflated
/// while it is read. The read begins at `start` in the inflated object.
pub(super) fn open(
    path: &Path,
    name: &str,
    compression: Compression,
    start: ObjectStart,
    found: Found,
    stop: &Stop,
) -> Result<Opened, SourceError> {
    let inflated =
        |input: Box<dyn Input>| skip(name, compression.inflate(name, input), 0, start.offset);
    if path.as_os_str() == "-" {
        let input = inflated(Box::new(Pipe::of_stdin(name, stop)?));
        return Ok(Opened { input, version: None });
    }
    let failed = |error| SourceError::io(name, "can't open it", &error);
    let file = open_at_once(path).map_err(|error| match found {
        Found::Selected(Some(_)) if error.kind() == ErrorKind::NotFound => gone(failed(error)),
        _ => failed(error),
    })?;
    let metadata = stable_metadata(&file).map_err(failed)?;
    if let Found::Selected(_) = found {
        check_selected(name, &metadata, FileSystem::of(&file))?;
    }
    let kind = metadata.file_type();
    if kind.is_dir() {
        return Err(SourceError::new(name, "is a folder", "name its files, or use `folder`"));
    }
    if kind.is_fifo() {
        enlarge(name, &file, DEFAULT_PIPE_SIZE);
        let pipe = Pipe::new(name, file, None, stop.clone());
        return Ok(Opened { input: inflated(Box::new(pipe)), version: None });
    }
    if !kind.is_file() {
        // A terminal, or another device.
        fcntl(&file, FcntlArg::F_SETFL(OFlag::empty())).map_err(|error| failed(error.into()))?;
        let device = Pipe { blocking: true, ..Pipe::new(name, file, None, stop.clone()) };
        return Ok(Opened { input: inflated(Box::new(device)), version: None });
    }
    let version = FileVersion::of(&metadata);
    if let Found::Listed(Some(listed)) | Found::Selected(Some(listed)) = &found {
        version.check_listed(listed, name)?;
    }
    let (stored, begin) = match start.point() {
        Some(point) => (point.compressed(), point.inflated()),
        None if compression.resolve(name).is_plain() => (start.offset, start.offset),
        None => (0, 0),
    };
    let file = Box::new(RegularFile::new(path, name, file, version, stored, stop)?);
    let input = compression.inflate_from(name, file, start.point());
    let input = skip(name, input, begin, start.offset);
    Ok(Opened { input, version: Some(version) })
}

/// The error for a file that was there when a folder or a pattern was listed.
fn gone(error: SourceError) -> SourceError {
    let message = format!("{}, but it was there when it was listed", error.message);
    let remedy = "don't remove files while a run reads them: bring it back, or begin a new run; \
                  `list = \"epoch\"` lists again for each epoch";
    SourceError { message, remedy: remedy.to_owned(), ..error }
}

/// Opens a path for reading. Never blocks, for example for the writer of a FIFO.
pub(super) fn open_at_once(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)
}

/// Opens a FIFO for reading, without waiting for a writer.
pub(super) fn open_fifo(
    path: &Path,
    name: &str,
    pipe_size: usize,
    idle_timeout: Option<Duration>,
    stop: &Stop,
) -> Result<Pipe, SourceError> {
    let file =
        open_at_once(path).map_err(|error| SourceError::io(name, "can't open it", &error))?;
    enlarge(name, &file, pipe_size);
    Ok(Pipe::new(name, file, idle_timeout, stop.clone()))
}

/// Enlarges a pipe to `pipe_size` bytes, or to as much as the kernel allows. A larger pipe needs
/// fewer switches between writer and reader: 64 KiB gives a third of the speed of 1 MiB.
fn enlarge(name: &str, file: &File, pipe_size: usize) {
    let mut size = pipe_size;
    while size > 64 << 10 {
        if fcntl(file, FcntlArg::F_SETPIPE_SZ(size as i32)).is_ok() {
            if size < pipe_size {
                log::warn!(
                    object = name;
                    "{name}: the kernel gives this pipe {size} bytes, not {pipe_size}; \
                    /proc/sys/fs/pipe-max-size and pipe-user-pages-soft set the limits"
                );
            }
            return;
        }
        size /= 2;
    }
    log::warn!(object = name; "{name}: the kernel does not let this pipe grow; it stays slow");
}

/// A FIFO, a device, or standard input of any kind.
pub(super) struct Pipe {
    name: String,
    file: File,
    idle_timeout: Option<Duration>,
    /// Start of the first wait after the last byte.
    silent_since: Option<Instant>,
    stop: Stop,
    /// A read of 0 bytes is the end only if there was a writer. `poll` shows that there was one: it
    /// reports a hang-up only then. It is also false if the next read must wait for `poll`.
    writer_came: bool,
    /// The descriptor blocks, and other processes may share it. So it is read only after `poll` has
    /// reported it as readable.
    blocking: bool,
    /// The state of standard input when it was opened, if it is a regular file.
    version: Option<FileVersion>,
}

impl Pipe {
    fn new(name: &str, file: File, idle_timeout: Option<Duration>, stop: Stop) -> Self {
        Self {
            name: name.to_owned(),
            file,
            idle_timeout,
            silent_since: None,
            stop,
            writer_came: false,
            blocking: false,
            version: None,
        }
    }

    fn of_stdin(name: &str, stop: &Stop) -> Result<Self, SourceError> {
        let failed = |error| SourceError::io(name, "can't use standard input", &error);
        let file = File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
        let metadata = stable_metadata(&file).map_err(failed)?;
        let version = metadata.is_file().then(|| FileVersion::of(&metadata));
        Ok(Self { blocking: true, version, ..Self::new(name, file, None, stop.clone()) })
    }

    /// Waits until a byte or the end can be read, and returns `None`. Otherwise returns the outcome
    /// of the read.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<ReadOutcome>, SourceError> {
        // Callers wait for short times, so the idle time is summed over several waits.
        let since = *self.silent_since.get_or_insert_with(Instant::now);
        let left = self.idle_timeout.map(|idle| idle.saturating_sub(since.elapsed()));
        let limit = match (timeout, left) {
            (Some(timeout), Some(left)) => Some(timeout.min(left)),
            (timeout, left) => timeout.or(left),
        };
        let outcome = wait_readable(self.file.as_fd(), &self.stop, limit)
            .map_err(|error| SourceError::io(&self.name, "can't wait for it", &error))?;
        match outcome {
            WaitOutcome::Ready(()) => {
                self.writer_came = true;
                Ok(None)
            }
            WaitOutcome::Stopped => Ok(Some(ReadOutcome::Stopped)),
            WaitOutcome::TimedOut => match self.idle_timeout {
                Some(idle) if since.elapsed() >= idle => Err(SourceError::new(
                    &self.name,
                    format!("no byte came for {idle:?}, the time that `idle_timeout` allows"),
                    "see whether its writer still runs, or raise `idle_timeout`",
                )),
                _ => Ok(Some(ReadOutcome::Nothing)),
            },
        }
    }
}

impl Input for Pipe {
    fn check_unchanged(&self) -> Result<(), SourceError> {
        let Some(version) = &self.version else { return Ok(()) };
        version.check(self.file.metadata(), &self.file, &self.name)
    }

    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        loop {
            if self.stop.is_requested() {
                return Ok(ReadOutcome::Stopped);
            }
            if !self.writer_came
                && let Some(outcome) = self.wait(timeout)?
            {
                return Ok(outcome);
            }
            match self.file.read(buf) {
                Ok(0) => {
                    self.check_unchanged()?;
                    return Ok(ReadOutcome::End);
                }
                Ok(count) => {
                    self.silent_since = None;
                    self.writer_came = !self.blocking;
                    return Ok(ReadOutcome::Bytes(count));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writer_came = false,
                Err(error) => return Err(SourceError::io(&self.name, "can't read it", &error)),
            }
        }
    }
}
