//! The platform's Pipe-mode agent, played with files or with objects in S3: for each channel one FIFO an epoch,
//! objects back to back.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::telemetry::log::above;
use crate::telemetry::progress::Look;
use pipemill_source::Stop;
use pipemill_source::{Object, ReadOutcome, Source, SourceError, SourceEvent};

/// Bytes read and written at a time: what a pipe can be made to hold.
const BUFFER: usize = 1 << 20;

/// A channel to feed.
pub struct Channel {
    /// Its name.
    pub name: String,
    /// Its objects, epoch after epoch.
    pub source: Box<dyn Source>,
    /// How far it is.
    pub fed: Arc<Fed>,
}

/// How far feeding a channel is, to be looked at from another thread.
#[derive(Default)]
pub struct Fed(Mutex<Now>);

#[derive(Default)]
struct Now {
    epoch: u32,
    bytes: u64,
    object: Option<String>,
    is_over: bool,
}

impl Fed {
    /// How far; none at the channel's end.
    pub fn look(&self) -> Option<Look> {
        let now = self.now();
        let at = now.object.clone().unwrap_or_else(|| "waiting for a reader".to_owned());
        let look = Look { epoch: now.epoch, bytes: now.bytes, records: None, at: Some(at) };
        (!now.is_over).then_some(look)
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why feeding ended.
#[derive(Debug)]
pub enum FeedError {
    /// An object is not there or can't be read.
    Source {
        /// The channel.
        channel: String,
        /// Its epoch.
        epoch: u32,
        /// Why.
        error: SourceError,
    },
    /// A FIFO can't be made or written.
    Io {
        /// The file.
        path: PathBuf,
        /// What could not be done.
        doing: &'static str,
        /// Why.
        error: io::Error,
    },
}

/// Makes the process leave no FIFO behind if SIGINT, SIGTERM or SIGHUP ends it, and asks `stop` then. To be called
/// before any other thread is started.
///
/// # Errors
/// The machine gives no thread.
pub fn prepare(stop: Stop) -> io::Result<Fifos> {
    let fifos = Fifos::default();
    remove_on_signals(fifos.clone(), stop)?;
    Ok(fifos)
}

/// Feeds all channels, epoch after epoch, until their sources end or one fails.
///
/// # Errors
/// See [`FeedError`]; the first one ends all channels.
pub fn feed(channels: Vec<Channel>, to: &Path, fifos: &Fifos) -> Result<(), FeedError> {
    fs::create_dir_all(to).map_err(io_error(to, "make the folder"))?;
    let (sender, ended) = mpsc::channel();
    let count = channels.len();
    for channel in channels {
        let (sender, fifos, to_folder) = (sender.clone(), fifos.clone(), to.to_owned());
        let feed = move || {
            // The receiver is there until all have ended, or the process is at its end.
            let _ = sender.send(feed_channel(channel, &to_folder, &fifos));
        };
        // A FIFO without a reader blocks its thread: one that fails does not wait for the others.
        thread::Builder::new().spawn(feed).map_err(io_error(to, "start a thread for"))?;
    }
    let ends = ended.iter().take(count).find(Result::is_err).unwrap_or(Ok(()));
    fifos.remove();
    ends
}

fn io_error<'a>(path: &'a Path, doing: &'static str) -> impl Fn(io::Error) -> FeedError + 'a {
    move |error| FeedError::Io { path: path.to_owned(), doing, error }
}

/// One channel, to the end of its source. An epoch's FIFO is made when the epoch before it is over, and opened, which
/// waits for a reader, before anything of it is read.
fn feed_channel(channel: Channel, to: &Path, fifos: &Fifos) -> Result<(), FeedError> {
    let Channel { name, mut source, fed } = channel;
    let mut buffer = vec![0; BUFFER];
    let mut pipe: Option<Pipe> = None;
    let mut epoch = 0;
    loop {
        let step = source.next();
        let step =
            step.map_err(|error| FeedError::Source { channel: name.clone(), epoch, error })?;
        match step {
            SourceEvent::End => {
                fed.now().is_over = true;
                return Ok(());
            }
            SourceEvent::EpochEnd(ended) => {
                // An epoch may be empty, and its FIFO is there all the same.
                let pipe = match pipe.take() {
                    Some(pipe) => pipe,
                    None => Pipe::open(to, &name, ended, fifos)?,
                };
                log::info!(
                    channel = name, epoch = ended, bytes = pipe.bytes;
                    "{}: {} bytes", pipe.path.display(), pipe.bytes
                );
                epoch = ended + 1;
                *fed.now() = Now { epoch, ..Now::default() };
            }
            SourceEvent::Object(object) => {
                epoch = object.epoch;
                let open = match &mut pipe {
                    Some(pipe) => pipe,
                    none => none.insert(Pipe::open(to, &name, epoch, fifos)?),
                };
                fed.now().object = Some(object.name.clone());
                if copy(object, open, &mut buffer, &name, &fed)? == Copied::ReaderLeft {
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

#[derive(PartialEq, Eq)]
enum Copied {
    All,
    ReaderLeft,
}

fn copy(
    mut object: Object,
    pipe: &mut Pipe,
    buffer: &mut [u8],
    channel: &str,
    fed: &Fed,
) -> Result<Copied, FeedError> {
    let failed =
        |error| FeedError::Source { channel: channel.to_owned(), epoch: object.epoch, error };
    loop {
        match object.input.read(buffer, None).map_err(failed)? {
            ReadOutcome::Bytes(count) => match pipe.write(&buffer[..count]) {
                Ok(()) => fed.now().bytes += count as u64,
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    return Ok(Copied::ReaderLeft);
                }
                Err(error) => return Err(io_error(&pipe.path, "write it")(error)),
            },
            ReadOutcome::End => return Ok(Copied::All),
            ReadOutcome::Nothing => {}
            // The process is at its end.
            ReadOutcome::Stopped => return Ok(Copied::ReaderLeft),
        }
    }
}

/// An epoch's FIFO; it goes when its epoch is over.
struct Pipe {
    path: PathBuf,
    file: File,
    bytes: u64,
    fifos: Fifos,
}

impl Pipe {
    /// Makes it, and waits for a reader.
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
}

impl Pipe {
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

/// The FIFOs that are there now. The lock is held while one is made or removed, and never for longer.
#[derive(Clone, Default)]
pub struct Fifos(Arc<Mutex<BTreeSet<PathBuf>>>);

impl Fifos {
    fn make(&self, path: &Path) -> io::Result<()> {
        let mut fifos = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = fs::remove_file(path)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(error);
        }
        mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        fifos.insert(path.to_owned());
        Ok(())
    }

    fn remove_one(&self, path: &Path) {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(path) {
            // Whoever removed it before has done what was to be done.
            let _ = fs::remove_file(path);
        }
    }

    fn remove(&self) {
        for path in std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Opening a FIFO can block for ever, so signals are waited for beside it.
fn remove_on_signals(fifos: Fifos, stop: Stop) -> io::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGHUP);
    signals.thread_block()?;
    let wait = move || {
        if let Ok(signal) = signals.wait() {
            stop.ask();
            fifos.remove();
            above(|| std::process::exit(128 + signal as i32));
        }
    };
    thread::Builder::new().name("pipemill-signals".into()).spawn(wait)?;
    Ok(())
}
