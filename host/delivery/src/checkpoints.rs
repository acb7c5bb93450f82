//! Writes the resume position of each channel into its file: at intervals, and at the end of the
//! run. Such a file is what `run --resume` reads.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use pipemill_config::{self as config, Config};
use pipemill_ring::host::Ring;
use pipemill_ring::protocol::State;

use crate::admission::ChannelDelivery;
use crate::checkpoint_file::CheckpointFile;
use crate::ledger::Checkpoint;

/// Interval at which the thread checks the time.
const INTERVAL: Duration = Duration::from_millis(200);

/// The file of each channel that has one, in the order of the channels. No other host writes them.
pub struct LockedFiles(Vec<Option<CheckpointFile>>);

impl LockedFiles {
    /// Makes this process the writer of these channels' files.
    ///
    /// # Errors
    /// Another process writes one of them; the error says which, and what to do.
    pub fn new(config: &Config) -> Result<Self, String> {
        let lock = |channel: &config::Channel| {
            let Some(checkpoint) = &channel.checkpoint else { return Ok(None) };
            let mut file = CheckpointFile::new(checkpoint.path.clone());
            // All other problems are reported when the file is written.
            if file.lock().unwrap_or(true) {
                return Ok(Some(file));
            }
            Err(format!(
                "channel `{}`: another host writes the checkpoint {}; end that host, or set \
                 another `path` in `checkpoint`",
                channel.name,
                checkpoint.path.display()
            ))
        };
        config.channels.iter().map(lock).collect::<Result<_, _>>().map(Self)
    }
}

/// The thread that writes the files. Dropping it writes them for the last time.
pub struct Checkpoints {
    // `drop` drops this first: that ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Keeps the files of the channels that have one. Call it before the channels begin.
    ///
    /// # Errors
    /// The system can't create the thread.
    pub fn start(
        files: LockedFiles,
        config: &Config,
        channels: impl Iterator<Item = (Arc<Ring>, Arc<ChannelDelivery>)>,
    ) -> io::Result<Self> {
        let of_channel = |((file, channel), served): ((_, &config::Channel), _)| {
            Some(Kept::new(file?, channel.checkpoint.as_ref()?.every, served))
        };
        let all = files.0.into_iter().zip(&config.channels).zip(channels);
        let mut kept: Vec<_> = all.filter_map(of_channel).collect();
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
            // This fails only if the thread panicked: the files stay as they are then.
            let _ = thread.join();
        }
    }
}

/// A channel with a file.
struct Kept {
    ring: Arc<Ring>,
    delivery: Arc<ChannelDelivery>,
    file: CheckpointFile,
    every: Duration,
    /// Time of the last write, or of the last attempt.
    since: Instant,
    written: Vec<Checkpoint>,
    /// The last error that was logged.
    failed: Option<String>,
}

impl Kept {
    fn new(
        file: CheckpointFile,
        every: Duration,
        (ring, delivery): (Arc<Ring>, Arc<ChannelDelivery>),
    ) -> Self {
        delivery.keep_checkpoints();
        Self {
            ring,
            delivery,
            file,
            every,
            since: Instant::now(),
            written: Vec::new(),
            failed: None,
        }
    }

    fn is_due(&self) -> bool {
        self.since.elapsed() >= self.every
    }

    fn write(&mut self) {
        self.since = Instant::now();
        let checkpoints = self.delivery.checkpoints(&self.ring);
        if checkpoints == self.written {
            return;
        }
        let (name, settings) = (&self.ring.config().channel, self.delivery.config().settings);
        let written = |checkpoint: &Checkpoint| State {
            done: Some(checkpoint.done.clone()),
            ..State::new(name, settings.clone(), checkpoint.place.clone())
        };
        let states: Vec<_> = checkpoints.iter().map(written).collect();
        match replace(&mut self.file, &states) {
            Ok(()) => (self.written, self.failed) = (checkpoints, None),
            Err(error) => {
                let why = error.to_string();
                if self.failed.as_ref() != Some(&why) {
                    log::warn!(
                        channel = name.as_str();
                        "channel `{name}`: the checkpoint {} can't be written: {why}; make its \
                         folder writable, or set another path",
                        self.file.path().display()
                    );
                }
                self.failed = Some(why);
            }
        }
    }
}

fn replace(file: &mut CheckpointFile, states: &[State]) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(states)?;
    text.push(b'\n');
    file.replace(&text)
}
