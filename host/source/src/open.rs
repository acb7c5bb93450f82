//! Opening a path: a regular file, a FIFO or standard input, inflated on the way if it is compressed.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, PosixFadviseAdvice, fcntl, posix_fadvise};

use super::wait::{Woken, readable};
use super::{Compression, Input, ReadOutcome, SourceError};
use crate::Stop;

/// What the kernel lets an unprivileged process ask of a pipe.
pub(super) const PIPE: usize = 1 << 20;

/// Opens a path, `-` being standard input.
pub(super) fn open(
    path: &str,
    compression: Compression,
    stop: &Stop,
) -> Result<Box<dyn Input>, SourceError> {
    let input: Box<dyn Input> = if path == "-" {
        let stdin = std::io::stdin().as_fd().try_clone_to_owned();
        let file =
            stdin.map_err(|error| SourceError::io(path, "can't use standard input", &error))?;
        Box::new(Pipe { blocking: true, ..Pipe::new(path, file.into(), None, stop.clone()) })
    } else {
        let error = |error| SourceError::io(path, "can't open it", &error);
        let kind = std::fs::metadata(path).map_err(error)?.file_type();
        if kind.is_fifo() {
            Box::new(open_fifo(path, PIPE, None, stop)?)
        } else if kind.is_dir() {
            return Err(SourceError::new(path, "is a folder", "name its files, or use `folder`"));
        } else {
            let file = File::open(path).map_err(error)?;
            // Advice only: without it reading ahead is slower.
            let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_SEQUENTIAL);
            Box::new(Plain { path: path.to_owned(), file, stop: stop.clone() })
        }
    };
    Ok(compression.inflate(path, input))
}

/// Opens a FIFO for reading, without waiting for a writer.
pub(super) fn open_fifo(
    path: &str,
    pipe: usize,
    idle: Option<Duration>,
    stop: &Stop,
) -> Result<Pipe, SourceError> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let file =
        options.open(path).map_err(|error| SourceError::io(path, "can't open it", &error))?;
    enlarge(path, &file, pipe);
    Ok(Pipe::new(path, file, idle, stop.clone()))
}

/// A larger pipe means fewer switches between writer and reader: 64 KiB gives a third of the speed of
/// 1 MiB. Where the kernel refuses, what it has is good enough.
fn enlarge(path: &str, file: &File, pipe: usize) {
    let mut size = pipe;
    while size > 64 << 10 {
        if fcntl(file, FcntlArg::F_SETPIPE_SZ(size as i32)).is_ok() {
            if size < pipe {
                log::warn!(
                    object = path;
                    "{path}: the kernel gives this pipe {size} bytes, not {pipe}; \
                    /proc/sys/fs/pipe-max-size and pipe-user-pages-soft set the limits"
                );
            }
            return;
        }
        size /= 2;
    }
    log::warn!(object = path; "{path}: the kernel does not let this pipe grow; it stays slow");
}

/// A regular file.
struct Plain {
    path: String,
    file: File,
    stop: Stop,
}

impl Input for Plain {
    fn read(&mut self, buf: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        loop {
            if self.stop.is_asked() {
                return Ok(ReadOutcome::Stopped);
            }
            match self.file.read(buf) {
                Ok(0) => return Ok(ReadOutcome::End),
                Ok(count) => return Ok(ReadOutcome::Bytes(count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(SourceError::io(&self.path, "can't read it", &error)),
            }
        }
    }
}

/// A FIFO, or whatever standard input is.
pub(super) struct Pipe {
    path: String,
    file: File,
    idle: Option<Duration>,
    /// When the last byte came, if a wait has begun since.
    silent_since: Option<Instant>,
    stop: Stop,
    /// Before a writer came, a read gives 0 bytes, which is no end. `poll` knows the difference: it
    /// reports a hang-up only if there was a writer.
    writer_came: bool,
    /// The descriptor is shared with others and blocks: it is read only when it is readable.
    blocking: bool,
}

impl Pipe {
    fn new(path: &str, file: File, idle: Option<Duration>, stop: Stop) -> Self {
        Self {
            path: path.to_owned(),
            file,
            idle,
            silent_since: None,
            stop,
            writer_came: false,
            blocking: false,
        }
    }

    fn wait(&mut self, wait: Option<Duration>) -> Result<Option<ReadOutcome>, SourceError> {
        // Waits are short, because the caller has other things to see to; silence adds up over them.
        let since = *self.silent_since.get_or_insert_with(Instant::now);
        let left = self.idle.map(|idle| idle.saturating_sub(since.elapsed()));
        let limit = match (wait, left) {
            (Some(wait), Some(left)) => Some(wait.min(left)),
            (wait, left) => wait.or(left),
        };
        let woken = readable(self.file.as_fd(), &self.stop, limit)
            .map_err(|error| SourceError::io(&self.path, "can't wait for it", &error))?;
        match woken {
            Woken::Ready => {
                self.writer_came = true;
                Ok(None)
            }
            Woken::Stopped => Ok(Some(ReadOutcome::Stopped)),
            Woken::Late => match self.idle {
                Some(idle) if since.elapsed() >= idle => Err(SourceError::new(
                    &self.path,
                    format!("no byte came for {idle:?}, the time that `idle_timeout` allows"),
                    "see whether its writer still runs, or raise `idle_timeout`",
                )),
                _ => Ok(Some(ReadOutcome::Nothing)),
            },
        }
    }
}

impl Input for Pipe {
    fn read(&mut self, buf: &mut [u8], wait: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        loop {
            if self.stop.is_asked() {
                return Ok(ReadOutcome::Stopped);
            }
            if !self.writer_came
                && let Some(got) = self.wait(wait)?
            {
                return Ok(got);
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
                Err(error) => return Err(SourceError::io(&self.path, "can't read it", &error)),
            }
        }
    }
}
