//! The platform's Pipe-mode agent, played with files: one FIFO an epoch, objects back to back.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::source::{Pattern, SourceError};

/// What to feed, where, and how often.
pub struct Feed {
    /// Files, or folders whose files are taken by name.
    pub from: Vec<PathBuf>,
    /// The FIFOs' folder.
    pub to: PathBuf,
    /// The channel's name.
    pub channel: String,
    /// How many epochs; endless without.
    pub epochs: Option<u32>,
}

/// Why feeding ended.
#[derive(Debug)]
pub enum FeedError {
    /// A file is not there or can't be read.
    Source(SourceError),
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

impl Feed {
    /// Feeds epoch after epoch. Leaves no FIFO behind, not even if SIGINT or SIGTERM ends it, for
    /// which it must be called before other threads are started.
    ///
    /// # Errors
    /// See [`FeedError`].
    pub fn run(&self) -> Result<(), FeedError> {
        let files = self.files().map_err(FeedError::Source)?;
        let io = |path: &Path, doing| {
            let path = path.to_owned();
            move |error: io::Error| FeedError::Io { path, doing, error }
        };
        fs::create_dir_all(&self.to).map_err(io(&self.to, "make the folder"))?;
        let current = Arc::new(Mutex::new(None));
        remove_on_signals(current.clone()).map_err(io(&self.to, "wait for signals"))?;
        for epoch in 0..self.epochs.unwrap_or(u32::MAX) {
            let fifo = self.to.join(format!("{}_{epoch}", self.channel));
            let _guard = Fifo::make(&fifo, &current).map_err(io(&fifo, "make the FIFO"))?;
            // Blocks until there is a reader.
            let mut pipe =
                OpenOptions::new().write(true).open(&fifo).map_err(io(&fifo, "open it"))?;
            match write_all(&files, &mut pipe) {
                Ok(bytes) => log::info!("{}: {bytes} bytes", fifo.display()),
                Err((_, error)) if error.kind() == ErrorKind::BrokenPipe => {
                    log::info!("{}: the reader closed early", fifo.display());
                }
                Err((path, error)) => return Err(io(&path, "feed it")(error)),
            }
        }
        Ok(())
    }

    fn files(&self) -> Result<Vec<PathBuf>, SourceError> {
        let list = |path: &PathBuf| {
            if path.is_dir() {
                return Pattern::Folder(path.clone()).list();
            }
            let shown = path.display().to_string();
            // Opened now, so that a wrong path is an error at once and not after an epoch.
            File::open(path).map_err(|error| SourceError::io(shown, "can't open it", &error))?;
            Ok(vec![path.clone()])
        };
        Ok(self.from.iter().map(list).collect::<Result<Vec<_>, _>>()?.concat())
    }
}

/// Files back to back, by the kernel's own ways from file to pipe where it has them.
fn write_all(files: &[PathBuf], pipe: &mut File) -> Result<u64, (PathBuf, io::Error)> {
    let mut bytes = 0;
    for path in files {
        let copied = File::open(path).and_then(|mut file| io::copy(&mut file, pipe));
        bytes += copied.map_err(|error| (path.clone(), error))?;
    }
    Ok(bytes)
}

type Current = Arc<Mutex<Option<PathBuf>>>;

/// A FIFO that goes when its epoch is over.
struct Fifo(Current);

impl Fifo {
    fn make(path: &Path, current: &Current) -> io::Result<Self> {
        if let Err(error) = fs::remove_file(path)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(error);
        }
        mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        *current.lock().unwrap_or_else(PoisonError::into_inner) = Some(path.to_owned());
        Ok(Self(current.clone()))
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn remove(current: &Current) {
    if let Some(path) = current.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // Whoever removed it before has done what was to be done.
        let _ = fs::remove_file(path);
    }
}

/// Opening a FIFO can block for ever, so signals are waited for beside it.
fn remove_on_signals(current: Current) -> io::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGHUP);
    signals.thread_block()?;
    let wait = move || {
        if let Ok(signal) = signals.wait() {
            remove(&current);
            std::process::exit(128 + signal as i32);
        }
    };
    std::thread::Builder::new().name("pipemill-signals".into()).spawn(wait)?;
    Ok(())
}
