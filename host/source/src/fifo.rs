//! A channel's FIFOs: `<dir>/<channel>_<epoch>`, one an epoch, made by somebody else as he goes.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use super::wait::{Woken, readable};
use super::{Compression, Object, Source, SourceError, SourceEvent, epoch_file, open};
use crate::Stop;

/// How often the folder is looked at where nothing tells of changes, as on network file systems.
const LOOK: Duration = Duration::from_millis(500);

/// A channel's FIFOs.
pub struct Fifos {
    /// The folder.
    pub dir: PathBuf,
    /// The channel's name.
    pub channel: String,
    /// The next epoch.
    pub epoch: u32,
    /// The epoch before which to end, if any.
    pub until: Option<u32>,
    /// How long a FIFO may take to appear.
    pub open_timeout: Option<Duration>,
    /// How long it may be silent.
    pub idle_timeout: Option<Duration>,
    /// Bytes to ask of the kernel for the pipe.
    pub pipe_size: usize,
    /// How its bytes are compressed; a FIFO's name tells nothing.
    pub compression: Compression,
    /// Ends all waits.
    pub stop: Stop,
    /// Keeps the next epoch's number for a process that comes after this one.
    pub epoch_file: Option<PathBuf>,
    /// Whether the epoch's FIFO was given.
    pub given: bool,
    /// Whether the epoch file was looked at.
    pub begun: bool,
}

impl Source for Fifos {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        self.begin()?;
        if std::mem::take(&mut self.given) {
            self.epoch += 1;
            return Ok(SourceEvent::EpochEnd(self.epoch - 1));
        }
        if self.until.is_some_and(|until| self.epoch >= until) {
            return Ok(SourceEvent::End);
        }
        let path = self.dir.join(format!("{}_{}", self.channel, self.epoch));
        let name = path.to_string_lossy().into_owned();
        if !self.appear(&path, &name)? {
            return Ok(SourceEvent::End);
        }
        let kind = std::fs::metadata(&path)
            .map_err(|error| SourceError::io(&name, "can't get its metadata", &error))?
            .file_type();
        let input = if kind.is_fifo() {
            let pipe = open::open_fifo(&name, self.pipe_size, self.idle_timeout, &self.stop)?;
            self.compression.inflate(&name, Box::new(pipe))
        } else {
            open::open(&name, self.compression, &self.stop)?
        };
        self.given = true;
        // What was read of a pipe can't be read again: whoever comes after this one needs the next.
        self.with_epoch_file(|path, epoch| epoch_file::keep(path, epoch + 1))?;
        Ok(SourceEvent::Object(Object { epoch: self.epoch, name, input }))
    }

    fn end_epoch(&mut self) {
        // The FIFO is closed when its object is dropped; `given` makes the next step its end.
    }
}

impl Fifos {
    /// Goes on where the process before this one was.
    fn begin(&mut self) -> Result<(), SourceError> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let kept = self.with_epoch_file(|path, _| epoch_file::next(path))?;
        self.epoch = self.epoch.max(kept.unwrap_or(0));
        Ok(())
    }

    fn with_epoch_file<T>(
        &self,
        act: impl FnOnce(&Path, u32) -> io::Result<T>,
    ) -> Result<Option<T>, SourceError> {
        let Some(path) = &self.epoch_file else { return Ok(None) };
        act(path, self.epoch).map(Some).map_err(|error| {
            let message = format!("its next epoch's number can't be kept: {error}");
            let remedy = "let this process write the file, or set another `epoch_file`";
            SourceError::new(path.to_string_lossy(), message, remedy)
        })
    }

    /// Waits until the path is there. False if asked to stop.
    fn appear(&self, path: &Path, name: &str) -> Result<bool, SourceError> {
        let until = self.open_timeout.map(|wait| Instant::now() + wait);
        // Watched before it is looked for, so that it can't appear in between.
        let watch = watch(&self.dir).ok();
        loop {
            if path.exists() {
                return Ok(true);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(self.did_not_appear(name));
            }
            let step = left.map_or(LOOK, |left| left.min(LOOK));
            let fd = watch.as_ref().map_or(self.stop.as_fd(), |watch| watch.as_fd());
            let woken = readable(fd, &self.stop, Some(step))
                .map_err(|error| SourceError::io(name, "can't wait for it", &error))?;
            if woken == Woken::Stopped {
                return Ok(false);
            }
            if let (Woken::Ready, Some(watch)) = (woken, &watch) {
                // What changed does not matter: the path is looked for again.
                let _ = watch.read_events();
            }
        }
    }

    fn did_not_appear(&self, name: &str) -> SourceError {
        let waited = self.open_timeout.unwrap_or_default();
        let there = match std::fs::read_dir(&self.dir) {
            Err(error) => format!("its folder can't be listed: {error}"),
            Ok(entries) => {
                let mut names: Vec<_> = entries
                    .filter_map(|entry| {
                        Some(entry.ok()?.file_name().to_string_lossy().into_owned())
                    })
                    .take(20)
                    .collect();
                names.sort();
                if names.is_empty() {
                    "its folder is empty".to_owned()
                } else {
                    format!("its folder holds {}", names.join(", "))
                }
            }
        };
        let message = format!(
            "did not appear within {waited:?}, the time that `open_timeout` allows; {there}"
        );
        let remedy = "see whether the channel is in Pipe mode and its writer runs, set `epochs` if there \
                      are no more, or raise `open_timeout`";
        SourceError { missing: true, ..SourceError::new(name, message, remedy) }
    }
}

fn watch(dir: &Path) -> io::Result<Inotify> {
    let watch = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    watch.add_watch(dir, AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO)?;
    Ok(watch)
}
