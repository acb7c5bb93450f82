//! FIFOs as a source: `<dir>/<channel>_<epoch>`, one for each epoch. The program that feeds the
//! channel creates each of them when it needs it.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use pipemill_types::ObjectFacts;

use crate::file_identity::file_facts;
use crate::open::{Found, Opened};
use crate::skip::skip;
use crate::start::ObjectStart;
use crate::wait::{WaitOutcome, wait_readable};
use crate::{
    Awaited, AwaitedObject, Compression, Object, Source, SourceError, SourceEvent, Start, Stop,
    epoch_file, open,
};

/// Poll interval for file systems that report no changes by inotify, such as network file systems.
const FOLDER_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Settings of a channel's FIFOs.
pub struct FifoSettings {
    /// Folder of the FIFOs.
    pub dir: PathBuf,
    /// Name of the channel.
    pub channel: String,
    /// Number of the first epoch. The epoch file may name a later one.
    pub first_epoch: u32,
    /// The source ends before this epoch. `None`: it has no last epoch.
    pub end_epoch: Option<u32>,
    /// Time that a FIFO may take to appear; `None` for no limit.
    pub open_timeout: Option<Duration>,
    /// Time that may pass without a byte; `None` for no limit.
    pub idle_timeout: Option<Duration>,
    /// Requested capacity of the pipe in bytes. The kernel may grant less.
    pub pipe_size: usize,
    /// How the bytes are compressed. The name of a FIFO does not show it.
    pub compression: Compression,
    /// File in which the next epoch's number is kept for a restarted process.
    pub epoch_file: Option<PathBuf>,
}

/// A source that reads one FIFO for each epoch.
pub struct Fifos {
    settings: FifoSettings,
    stop: Stop,
    /// The current epoch.
    epoch: u32,
    /// Whether the current epoch's FIFO was delivered.
    delivered: bool,
    /// Byte at which the next FIFO begins.
    offset: u64,
    /// Whether the first epoch is known: the epoch file was read, or the caller set the start.
    started: bool,
    /// The epoch with which the source began, if the epoch file named a later one than the
    /// configuration.
    resumed_at: Option<u32>,
    awaited: Awaited,
}

impl Source for Fifos {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        self.next_event().map_err(|error| SourceError { epoch: Some(self.epoch), ..error })
    }

    /// A pipe begins with its first byte: its writer must send it again from there.
    fn start_at(&mut self, start: Start) -> Result<(), SourceError> {
        let FifoSettings { dir, channel, first_epoch, end_epoch, .. } = &self.settings;
        let name = dir.join(channel).to_string_lossy().into_owned();
        start.check_epoch(&name, *first_epoch, *end_epoch)?;
        start.check_list(&name, 1)?;
        // The state is more exact than the epoch file, which counts the epochs that were begun.
        (self.epoch, self.started, self.resumed_at) = (start.epoch, true, None);
        (self.delivered, self.offset) = (start.ordinal == 1, start.offset);
        Ok(())
    }

    fn end_epoch(&mut self) {
        // The FIFO is closed when its object is dropped. The next event is the end of the epoch,
        // because `delivered` is set.
    }

    fn awaited(&self) -> Awaited {
        self.awaited.clone()
    }
}

impl Fifos {
    /// A source that ends its waits when `stop` is requested.
    pub fn new(settings: FifoSettings, stop: Stop) -> Self {
        let epoch = settings.first_epoch;
        let awaited = Awaited::default();
        let (delivered, offset, started, resumed_at) = (false, 0, false, None);
        Self { settings, stop, epoch, delivered, offset, started, resumed_at, awaited }
    }

    fn next_event(&mut self) -> Result<SourceEvent, SourceError> {
        self.start()?;
        if std::mem::take(&mut self.delivered) {
            self.epoch += 1;
            return Ok(SourceEvent::EpochEnd(self.epoch - 1));
        }
        if self.settings.end_epoch.is_some_and(|end| self.epoch >= end) {
            return Ok(SourceEvent::End);
        }
        let path = self.settings.dir.join(format!("{}_{}", self.settings.channel, self.epoch));
        let name = path.to_string_lossy().into_owned();
        if !self.wait_for_path(&path, &name)? {
            return Ok(SourceEvent::End);
        }
        let kind = std::fs::metadata(&path)
            .map_err(|error| SourceError::io(&name, "can't get its metadata", &error))?
            .file_type();
        let FifoSettings { pipe_size, idle_timeout, compression, .. } = self.settings;
        let offset = std::mem::take(&mut self.offset);
        let Opened { input, version } = if kind.is_fifo() {
            let pipe = open::open_fifo(&path, &name, pipe_size, idle_timeout, &self.stop)?;
            let input = skip(&name, compression.inflate(&name, Box::new(pipe)), 0, offset);
            Opened { input, version: None }
        } else {
            open::open(
                &path,
                &name,
                compression,
                ObjectStart::at(offset),
                Found::Named,
                &self.stop,
            )?
        };
        let (_, identity) = file_facts(&path, version, &[], None);
        self.delivered = true;
        // A pipe can't be read twice: a restarted process must continue with the next epoch.
        self.with_epoch_file(|path, epoch| epoch_file::write(path, epoch + 1))?;
        Ok(SourceEvent::Object(Object {
            epoch: self.epoch,
            ordinal: 0,
            name,
            identity,
            facts: ObjectFacts::default(),
            block: None,
            known: None,
            companions: Vec::new(),
            input,
        }))
    }

    /// Reads the epoch file on the first call.
    fn start(&mut self) -> Result<(), SourceError> {
        if std::mem::replace(&mut self.started, true) {
            return Ok(());
        }
        let kept = self.with_epoch_file(|path, _| epoch_file::read(path))?.unwrap_or(0);
        if kept > self.epoch {
            (self.epoch, self.resumed_at) = (kept, Some(kept));
            let (channel, because) = (&self.settings.channel, self.why_not_first());
            let left = match self.settings.end_epoch {
                Some(end) if kept >= end => ", and no epoch is left",
                _ => "",
            };
            log::info!(
                channel = channel, epoch = kept;
                "channel `{channel}` begins with epoch {kept}{left}: {because}"
            );
        }
        Ok(())
    }

    /// Why the source began with the current epoch and not with the first one, and how to change
    /// that. Empty if it did not.
    fn why_not_first(&self) -> String {
        match &self.settings.epoch_file {
            Some(file) if self.resumed_at == Some(self.epoch) => format!(
                "the epoch file {} counts the epochs that earlier processes have begun; remove it \
                 to begin with epoch {}",
                file.display(),
                self.settings.first_epoch
            ),
            _ => String::new(),
        }
    }

    fn with_epoch_file<T>(
        &self,
        access: impl FnOnce(&Path, u32) -> io::Result<T>,
    ) -> Result<Option<T>, SourceError> {
        let Some(path) = &self.settings.epoch_file else { return Ok(None) };
        access(path, self.epoch).map(Some).map_err(|error| {
            let message = format!("its next epoch's number can't be kept: {error}");
            let remedy = "let this process write the file, or set another `epoch_file`";
            SourceError::new(path.to_string_lossy(), message, remedy)
        })
    }

    /// Waits until the path exists. False if a stop was requested.
    fn wait_for_path(&self, path: &Path, name: &str) -> Result<bool, SourceError> {
        if path.exists() {
            return Ok(true);
        }
        self.awaited.set(Some(AwaitedObject {
            name: name.to_owned(),
            epoch: self.epoch,
            since: Instant::now(),
            remedy: self.remedy(),
        }));
        let exists = self.poll_for_path(path, name);
        self.awaited.set(None);
        exists
    }

    fn poll_for_path(&self, path: &Path, name: &str) -> Result<bool, SourceError> {
        let deadline = self.settings.open_timeout.map(|timeout| Instant::now() + timeout);
        // The watch begins before the first check, so that a path that appears in between is seen.
        let watch = watch(&self.settings.dir).ok();
        loop {
            if path.exists() {
                return Ok(true);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(self.did_not_appear(name));
            }
            let timeout = left.map_or(FOLDER_POLL_INTERVAL, |left| left.min(FOLDER_POLL_INTERVAL));
            let fd = watch.as_ref().map_or(self.stop.as_fd(), |watch| watch.as_fd());
            let outcome = wait_readable(fd, &self.stop, Some(timeout))
                .map_err(|error| SourceError::io(name, "can't wait for it", &error))?;
            if outcome == WaitOutcome::Stopped {
                return Ok(false);
            }
            if let (WaitOutcome::Ready(()), Some(watch)) = (outcome, &watch) {
                // The events only empty the queue: the path is checked in any case.
                let _ = watch.read_events();
            }
        }
    }

    fn did_not_appear(&self, name: &str) -> SourceError {
        let waited = self.settings.open_timeout.unwrap_or_default();
        let found = match std::fs::read_dir(&self.settings.dir) {
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
            "did not appear within {waited:?}, the time that `open_timeout` allows; {found}"
        );
        SourceError { missing: true, ..SourceError::new(name, message, self.remedy()) }
    }

    /// The advice if the FIFO of the current epoch does not appear.
    fn remedy(&self) -> String {
        let why = self.why_not_first();
        let why = if why.is_empty() { why } else { format!("{why}; ") };
        format!(
            "{why}see whether the channel is in Pipe mode and its writer runs, set `epochs` if \
             there are no more, or raise `open_timeout`"
        )
    }
}

fn watch(dir: &Path) -> io::Result<Inotify> {
    let watch = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    watch.add_watch(dir, AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO)?;
    Ok(watch)
}
