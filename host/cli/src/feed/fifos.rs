//! Feeds objects through FIFOs, one FIFO for each channel and epoch, as SageMaker's Pipe-mode agent
//! does.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use pipemill_source::{Object, ReadOutcome, Source, SourceError, SourceEvent, Stop};

use pipemill_telemetry::log::{flush, join, suspend_progress};
use pipemill_telemetry::progress::ProgressSnapshot;

/// Number of bytes that are read and written at once: the largest usual capacity of a pipe.
const BUFFER_SIZE: usize = 1 << 20;

/// A channel to feed.
pub struct Channel {
    /// The channel's name.
    pub name: String,
    /// The objects of all epochs.
    pub source: Box<dyn Source>,
    /// The progress.
    pub progress: Arc<FeedProgress>,
}

/// The progress of a channel. Another thread can read it.
#[derive(Default)]
pub struct FeedProgress(Mutex<ProgressState>);

#[derive(Default)]
struct ProgressState {
    epoch: u32,
    /// Bytes of this epoch so far.
    bytes: u64,
    /// The object that is fed, if a reader has connected.
    object: Option<String>,
    has_ended: bool,
}

impl FeedProgress {
    /// A line for the terminal; `None` after the end of the channel.
    pub fn line(&self) -> Option<ProgressSnapshot> {
        let state = self.lock();
        let waits_for = state.object.is_none().then(|| "waiting for a reader".to_owned());
        let line = ProgressSnapshot {
            epoch: state.epoch,
            bytes: state.bytes,
            records: None,
            object: state.object.clone(),
            waits_for,
        };
        (!state.has_ended).then_some(line)
    }

    fn lock(&self) -> MutexGuard<'_, ProgressState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reason why feeding ended.
#[derive(Debug)]
pub enum FeedError {
    /// An object does not exist or can't be read.
    Source {
        /// The channel's name.
        channel: String,
        /// The epoch, from 0.
        epoch: u32,
        /// The cause.
        error: SourceError,
    },
    /// A FIFO can't be made or written.
    Io {
        /// The path of the FIFO or its folder.
        path: PathBuf,
        /// The operation that failed: the words between "can't" and the cause.
        doing: &'static str,
        /// The cause.
        error: io::Error,
    },
}

/// Handles SIGINT, SIGTERM and SIGHUP: the handler stops the sources with `stop`, removes all FIFOs
/// and ends the process. Call it before any other thread is started.
///
/// # Errors
/// The thread can't be started.
pub fn prepare(stop: Stop) -> io::Result<Fifos> {
    let fifos = Fifos::default();
    remove_on_signals(fifos.clone(), stop)?;
    Ok(fifos)
}

/// Feeds all channels, epoch after epoch, until all sources have ended or one channel has failed.
/// The FIFOs are made in the folder `to`.
///
/// # Errors
/// The first error of a channel. It ends all channels.
pub fn feed(channels: Vec<Channel>, to: &Path, fifos: &Fifos) -> Result<(), FeedError> {
    fs::create_dir_all(to).map_err(io_error(to, "make the folder"))?;
    let (sender, ended) = mpsc::channel();
    let count = channels.len();
    for channel in channels {
        let (sender, fifos, to_folder) = (sender.clone(), fifos.clone(), to.to_owned());
        let feed = move || {
            // The receiver exists until all channels have ended or one has failed.
            let _ = sender.send(feed_channel(channel, &to_folder, &fifos));
        };
        // A FIFO without a reader blocks its thread: so no thread is joined.
        thread::Builder::new().spawn(feed).map_err(io_error(to, "start a thread for"))?;
    }
    let ends = ended.iter().take(count).find(Result::is_err).unwrap_or(Ok(()));
    fifos.remove();
    ends
}

fn io_error<'a>(path: &'a Path, doing: &'static str) -> impl Fn(io::Error) -> FeedError + 'a {
    move |error| FeedError::Io { path: path.to_owned(), doing, error }
}

/// Feeds one channel to the end of its source. The FIFO of an epoch is made after the end of the
/// epoch before. Opening it waits for a reader, and the first object is read only after that.
fn feed_channel(channel: Channel, to: &Path, fifos: &Fifos) -> Result<(), FeedError> {
    let Channel { name, mut source, progress } = channel;
    let mut buffer = vec![0; BUFFER_SIZE];
    let mut pipe: Option<Pipe> = None;
    let mut epoch = 0;
    loop {
        let event = source.next().map_err(|error| FeedError::Source {
            channel: name.clone(),
            epoch,
            error,
        })?;
        match event {
            SourceEvent::End => {
                progress.lock().has_ended = true;
                return Ok(());
            }
            SourceEvent::EpochEnd(ended) => {
                // An epoch without objects has a FIFO, too.
                let pipe = match pipe.take() {
                    Some(pipe) => pipe,
                    None => Pipe::open(to, &name, ended, fifos)?,
                };
                log::info!(
                    channel = name, epoch = ended, bytes = pipe.bytes;
                    "{}: {} bytes", pipe.path.display(), pipe.bytes
                );
                epoch = ended + 1;
                *progress.lock() = ProgressState { epoch, ..ProgressState::default() };
            }
            SourceEvent::Object(object) => {
                epoch = object.epoch;
                let open = match &mut pipe {
                    Some(pipe) => pipe,
                    none => none.insert(Pipe::open(to, &name, epoch, fifos)?),
                };
                progress.lock().object = Some(object.name.clone());
                if copy(object, open, &mut buffer, &name, &progress)? == CopyOutcome::ReaderClosed {
                    log::info!(
                        channel = name, epoch = epoch;
                        "{}: the reader closed early", open.path.display()
                    );
                    source.end_epoch();
                }
            }
        }
    }
}

/// How a copy of an object ended.
#[derive(PartialEq, Eq)]
enum CopyOutcome {
    Complete,
    ReaderClosed,
}

/// Copies an object to a FIFO.
fn copy(
    mut object: Object,
    pipe: &mut Pipe,
    buffer: &mut [u8],
    channel: &str,
    progress: &FeedProgress,
) -> Result<CopyOutcome, FeedError> {
    let failed =
        |error| FeedError::Source { channel: channel.to_owned(), epoch: object.epoch, error };
    loop {
        match object.input.read(buffer, None).map_err(failed)? {
            ReadOutcome::Bytes(count) => match pipe.write(&buffer[..count]) {
                Ok(()) => progress.lock().bytes += count as u64,
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    return Ok(CopyOutcome::ReaderClosed);
                }
                Err(error) => return Err(io_error(&pipe.path, "write it")(error)),
            },
            ReadOutcome::End => return Ok(CopyOutcome::Complete),
            ReadOutcome::Nothing => {}
            // The process ends anyway.
            ReadOutcome::Stopped => return Ok(CopyOutcome::ReaderClosed),
        }
    }
}

/// The FIFO of an epoch. Dropping it removes the FIFO.
struct Pipe {
    path: PathBuf,
    file: File,
    bytes: u64,
    fifos: Fifos,
}

impl Pipe {
    /// Makes the FIFO and waits for a reader.
    fn open(to: &Path, channel: &str, epoch: u32, fifos: &Fifos) -> Result<Self, FeedError> {
        let path = to.join(format!("{channel}_{epoch}"));
        fifos.make(&path).map_err(io_error(&path, "make the FIFO"))?;
        let file = OpenOptions::new().write(true).open(&path);
        match file {
            Ok(file) => Ok(Self { path, file, bytes: 0, fifos: fifos.clone() }),
            Err(error) => {
                fifos.remove_one(&path);
                Err(io_error(&path, "open it")(error))
            }
        }
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(count) => {
                    self.bytes += count as u64;
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.fifos.remove_one(&self.path);
    }
}

/// The FIFOs that exist now. The lock is held only while a FIFO is made or removed.
#[derive(Clone, Default)]
pub struct Fifos(Arc<Mutex<BTreeSet<PathBuf>>>);

impl Fifos {
    fn make(&self, path: &Path) -> io::Result<()> {
        let mut fifos = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        remove_fifo(path)?;
        mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        fifos.insert(path.to_owned());
        Ok(())
    }

    fn remove_one(&self, path: &Path) {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(path) {
            // The error means that another process has removed or replaced it.
            let _ = remove_fifo(path);
        }
    }

    fn remove(&self) {
        for path in std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)) {
            let _ = remove_fifo(&path);
        }
    }
}

/// Removes the FIFO of an earlier run, if there is one.
///
/// # Errors
/// Something that is not a FIFO has its name, or the FIFO can't be removed.
fn remove_fifo(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_fifo() => fs::remove_file(path),
        Ok(_) => {
            let why = "something that is no FIFO has this name, and is not removed; give another \
                       --to or --channel, or remove it";
            Err(io::Error::new(ErrorKind::AlreadyExists, why))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Starts a thread that waits for signals: the other threads may block in opening a FIFO.
fn remove_on_signals(fifos: Fifos, stop: Stop) -> io::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGHUP);
    signals.thread_block()?;
    let wait = move || {
        if let Ok(signal) = signals.wait() {
            stop.request();
            fifos.remove();
            exit_at_once(128 + signal as i32);
        }
    };
    thread::Builder::new().name("pipemill-signals".into()).spawn(wait)?;
    Ok(())
}

/// Ends the process after the last lines of the log, without its progress display; it does not wait
/// for a reader that has stopped.
fn exit_at_once(code: i32) {
    flush();
    let clear = move || suspend_progress(|| std::process::exit(code));
    if let Ok(clearing) = thread::Builder::new().name("pipemill-exit".into()).spawn(clear) {
        let _ = join(clearing);
    }
    std::process::exit(code);
}
