//! Writes where each channel goes on into its file: at intervals, and at the end of the run. Such a
//! file is what `run --resume` reads.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use pipemill_ring::host::{Checkpoint, Ring};
use pipemill_ring::protocol::State;
use serde::Serialize;

use crate::config::{self, Config};
use crate::telemetry::ChannelHandle;

/// How often the thread looks at the time.
const INTERVAL: Duration = Duration::from_millis(200);

/// A state with the batches that are done beyond it.
#[derive(Serialize)]
struct Written {
    #[serde(flatten)]
    state: State,
    done: Vec<u64>,
}

/// The thread that writes the files. Dropping it writes them for the last time.
pub struct Checkpoints {
    // `drop` drops this first: that ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Keeps the files of the channels that have one. To be called before the channels begin.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(config: &Config, channels: &[Arc<ChannelHandle>]) -> io::Result<Self> {
        let mut kept: Vec<_> = config
            .channels
            .iter()
            .zip(channels)
            .filter_map(|(channel, handle)| Kept::new(channel, handle.ring.clone()))
            .collect();
        if kept.is_empty() {
            return Ok(Self { stop: None, thread: None });
        }
        let (stop, stopped) = channel::<()>();
        let work = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(INTERVAL) {
                kept.iter_mut().filter(|kept| kept.is_due()).for_each(Kept::write);
            }
            kept.iter_mut().for_each(Kept::write);
        };
        let thread = Builder::new().name("checkpoints".into()).spawn(work)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Fails only if the thread panicked: then the files are as old as they are.
            let _ = thread.join();
        }
    }
}

/// A channel with a file.
struct Kept {
    ring: Arc<Ring>,
    path: PathBuf,
    every: Duration,
    /// When the file was written last, or tried to be.
    since: Instant,
    written: Vec<Checkpoint>,
    /// The error that was logged last.
    failed: Option<String>,
}

impl Kept {
    fn new(channel: &config::Channel, ring: Arc<Ring>) -> Option<Kept> {
        let config::Checkpoint { path, every } = channel.checkpoint.clone()?;
        ring.keep_checkpoints();
        let (since, written, failed) = (Instant::now(), Vec::new(), None);
        Some(Kept { ring, path, every, since, written, failed })
    }

    fn is_due(&self) -> bool {
        self.since.elapsed() >= self.every
    }

    fn write(&mut self) {
        self.since = Instant::now();
        let checkpoints = self.ring.checkpoints();
        if checkpoints == self.written {
            return;
        }
        let (name, settings) = (&self.ring.config().channel, self.ring.beginning().settings);
        let written = |checkpoint: &Checkpoint| Written {
            state: State::new(name, settings.clone(), checkpoint.place.clone()),
            done: checkpoint.done.clone(),
        };
        let states: Vec<_> = checkpoints.iter().map(written).collect();
        match replace(&self.path, &states) {
            Ok(()) => (self.written, self.failed) = (checkpoints, None),
            Err(error) => {
                let why = error.to_string();
                if self.failed.as_ref() != Some(&why) {
                    log::warn!(
                        channel = name.as_str();
                        "channel `{name}`: the checkpoint {} can't be written: {why}; make its \
                         folder writable, or set another path",
                        self.path.display()
                    );
                }
                self.failed = Some(why);
            }
        }
    }
}

/// Replaces the file in one step: whoever reads it gets the old or the new one as a whole.
fn replace(path: &Path, states: &[Written]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let new = path.with_file_name(name);
    let mut file = File::create(&new)?;
    let mut text = serde_json::to_vec_pretty(states)?;
    text.push(b'\n');
    file.write_all(&text)?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}
