//! Opens a path: a regular file, a FIFO or standard input.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, PosixFadviseAdvice, fcntl, posix_fadvise};

use crate::skip::{ended, skip};
use crate::wait::{WaitOutcome, wait_readable};
use crate::{Compression, Input, ReadOutcome, SourceError, Stop};

/// Pipe size in bytes for FIFOs without a setting: what Linux by default allows an unprivileged
/// process.
const DEFAULT_PIPE_SIZE: usize = 1 << 20;

/// Opens a path; `-` is standard input. Messages call it `name`. A compressed object is inflated
/// while it is read. Byte `offset` of it, inflated, is read first.
pub(super) fn open(
    path: &Path,
    name: &str,
    compression: Compression,
    offset: u64,
    stop: &Stop,
) -> Result<Box<dyn Input>, SourceError> {
    let input: Box<dyn Input> = if path.as_os_str() == "-" {
        let stdin = std::io::stdin().as_fd().try_clone_to_owned();
        let file =
            stdin.map_err(|error| SourceError::io(name, "can't use standard input", &error))?;
        Box::new(Pipe { blocking: true, ..Pipe::new(name, file.into(), None, stop.clone()) })
    } else {
        let error = |error| SourceError::io(name, "can't open it", &error);
        let kind = std::fs::metadata(path).map_err(error)?.file_type();
        if kind.is_fifo() {
            Box::new(open_fifo(path, name, DEFAULT_PIPE_SIZE, None, stop)?)
        } else if kind.is_dir() {
            return Err(SourceError::new(name, "is a folder", "name its files, or use `folder`"));
        } else {
            let file = File::open(path).map_err(error)?;
            // An error is ignored: without this advice the kernel only reads ahead less.
            let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_SEQUENTIAL);
            if offset > 0 && compression.resolve(name).is_plain() {
                return Ok(Box::new(RegularFile::open_at(name, file, offset, stop)?));
            }
            Box::new(RegularFile { name: name.to_owned(), file, offset: 0, stop: stop.clone() })
        }
    };
    Ok(skip(name, compression.inflate(name, input), 0, offset))
}

/// Opens a FIFO for reading, without waiting for a writer.
pub(super) fn open_fifo(
    path: &Path,
    name: &str,
    pipe_size: usize,
    idle_timeout: Option<Duration>,
    stop: &Stop,
) -> Result<Pipe, SourceError> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let file =
        options.open(path).map_err(|error| SourceError::io(name, "can't open it", &error))?;
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

/// A regular file.
struct RegularFile {
    name: String,
    file: File,
    /// Where the file was opened, until the first read has checked that the file is as long.
    offset: u64,
    stop: Stop,
}

impl RegularFile {
    fn open_at(name: &str, mut file: File, offset: u64, stop: &Stop) -> Result<Self, SourceError> {
        file.seek(SeekFrom::Start(offset)).map_err(|error| {
            SourceError::io(name, &format!("can't go to its byte {offset}"), &error)
        })?;
        Ok(Self { name: name.to_owned(), file, offset, stop: stop.clone() })
    }

    /// Checks once that the file does not end before the place where it was opened.
    fn check_offset(&mut self) -> Result<(), SourceError> {
        let offset = std::mem::take(&mut self.offset);
        if offset == 0 {
            return Ok(());
        }
        let file = self.file.metadata();
        let file =
            file.map_err(|error| SourceError::io(&self.name, "can't get its metadata", &error))?;
        if file.len() < offset { Err(ended(&self.name, file.len(), offset)) } else { Ok(()) }
    }
}

impl Input for RegularFile {
    fn is_stored(&self) -> bool {
        true
    }

    fn at(&self, offset: u64) -> Option<Result<Box<dyn Input>, SourceError>> {
        // The same file, also if its path names another one now. It has a place of its own, and so has
        // what the kernel reads ahead.
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let file =
            File::open(path).map_err(|error| SourceError::io(&self.name, "can't open it", &error));
        let open = |file| {
            let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_SEQUENTIAL);
            Self::open_at(&self.name, file, offset, &self.stop)
        };
        Some(file.and_then(open).map(|input| Box::new(input) as Box<dyn Input>))
    }

    fn read(&mut self, buf: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        self.check_offset()?;
        loop {
            if self.stop.is_requested() {
                return Ok(ReadOutcome::Stopped);
            }
            match self.file.read(buf) {
                Ok(0) => return Ok(ReadOutcome::End),
                Ok(count) => return Ok(ReadOutcome::Bytes(count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(SourceError::io(&self.name, "can't read it", &error)),
            }
        }
    }
}

/// A FIFO, or standard input of any kind.
pub(super) struct Pipe {
    name: String,
    file: File,
    idle_timeout: Option<Duration>,
    /// When the first wait after the last byte began.
    silent_since: Option<Instant>,
    stop: Stop,
    /// A read of 0 bytes is the end only if there was a writer. `poll` shows that there was one: it
    /// reports a hang-up only then. Also false if the next read must wait for `poll`.
    writer_came: bool,
    /// The descriptor blocks, and other processes may share it. So it is read only after `poll`
    /// reported it as readable.
    blocking: bool,
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
        }
    }

    /// Waits until a byte or the end can be read: `None`. Else returns the outcome of the read.
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
            WaitOutcome::Ready => {
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
                Ok(0) => return Ok(ReadOutcome::End),
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
